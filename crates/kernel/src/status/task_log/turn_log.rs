//! The lines of one turn on their way to the store.

use crate::engine::Engine;
use crate::ports::{Clock, LogRow, LogWrite, MOST_LOG_BYTES, MOST_LOG_LINES};
use crate::record::TaskRecord;
use crate::times::rfc3339;
use crate::turn::turn_time::TurnTime;
use counterstep_contracts::{Attempt, Epoch, LogLevel, LogLine, LogPart, TaskId, Tenant};
use counterstep_steps::log::{LogSink, TaskLog};
use futures::future::{BoxFuture, Either, pending, select};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long the first new line waits for its write, so that lines that come together share a row.
const GATHER: Duration = Duration::from_millis(300);
/// Pause between two writes of a turn.
const PAUSE: Duration = Duration::from_millis(700);
/// Pause after a write that has failed.
const AGAIN: Duration = Duration::from_secs(5);
/// Timeout of a turn for a write. What was not written by then is tried again.
const LIMIT: Duration = Duration::from_secs(2);
/// Maximum number of rows that are tried again. More of them are dropped, the oldest first.
const MOST_UNWRITTEN: usize = 8;

/// What the attempts of one turn have logged and the store has not.
#[derive(Debug)]
pub(crate) struct TurnLog {
    task: TaskId,
    tenant: Tenant,
    epoch: Epoch,
    time: TurnTime,
    said: Mutex<Said>,
    news: Notify,
    /// Held while rows are written, so that they are written one after the other.
    writes: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Said {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// Lines that were dropped before they came into a row.
    dropped: u64,
    /// The number of the last row.
    no: u32,
    /// Rows whose write has failed, or had no answer.
    unwritten: VecDeque<LogRow>,
}

impl Said {
    fn add(&mut self, line: LogLine) {
        self.bytes += size(&line);
        self.lines.push_back(line);
        let most = usize::try_from(MOST_LOG_LINES).unwrap_or(usize::MAX);
        while self.lines.len() > most || self.bytes > MOST_LOG_BYTES as usize {
            let Some(oldest) = self.lines.pop_front() else {
                break;
            };
            self.bytes -= size(&oldest);
            self.dropped += 1;
        }
    }

    /// The row of these lines; `None`: there is none.
    fn row(&mut self, epoch: Epoch, lines: &[LogLine]) -> Option<LogRow> {
        if lines.is_empty() {
            return None;
        }
        self.no += 1;
        let body = serde_json::to_string(lines).unwrap_or_default();
        Some(LogRow {
            epoch,
            no: self.no,
            lines: u32::try_from(lines.len()).unwrap_or(u32::MAX),
            bytes: u32::try_from(body.len()).unwrap_or(u32::MAX),
            dropped: std::mem::take(&mut self.dropped),
            body,
        })
    }

    fn keep(&mut self, row: LogRow) {
        self.unwritten.push_back(row);
        while self.unwritten.len() > MOST_UNWRITTEN {
            let lost = self.unwritten.pop_front();
            self.dropped += lost.map_or(0, |row| u64::from(row.lines) + row.dropped);
        }
    }
}

/// About as many bytes as the line has in its row.
fn size(line: &LogLine) -> usize {
    line.message.len() + line.step.len() + 120
}

impl TurnLog {
    /// Of a claimed task.
    pub(crate) fn of(record: &TaskRecord, clock: Arc<dyn Clock>) -> Arc<Self> {
        let task = &record.task;
        Arc::new(Self {
            task: task.id,
            tenant: task.tenant.clone(),
            epoch: task.epoch,
            time: TurnTime::of(record, clock),
            said: Mutex::default(),
            news: Notify::new(),
            writes: tokio::sync::Mutex::default(),
        })
    }

    /// The numbers of its rows come after this one: another turn has had the same epoch.
    pub(crate) fn go_on_after(&self, no: u32) {
        self.open().no = no;
    }

    fn open(&self) -> MutexGuard<'_, Said> {
        self.said.lock()
    }

    /// For code that begins.
    pub(crate) fn attempt(
        self: &Arc<Self>,
        step: &str,
        part: LogPart,
        attempt: Attempt,
    ) -> AttemptLog {
        AttemptLog(Some(Arc::new(Sink {
            log: self.clone(),
            step: step.to_owned(),
            part,
            attempt,
            is_over: Mutex::new(false),
        })))
    }

    /// The row of all lines that are in none yet.
    fn take(&self) -> Option<LogRow> {
        let mut said = self.open();
        let lines: Vec<LogLine> = said.lines.drain(..).collect();
        said.bytes = 0;
        said.row(self.epoch, &lines)
    }

    /// Writes a row, after those that are still to be written. What could not be written is tried
    /// again with the next.
    pub(crate) async fn write(&self, engine: &Engine, row: Option<LogRow>) {
        let _one_by_one = self.writes.lock().await;
        if let Some(row) = row {
            self.open().keep(row);
        }
        let clock = engine.ports.clock.clone();
        let mut limit = clock.sleep(LIMIT);
        loop {
            let Some(row) = self.open().unwritten.front().cloned() else {
                return;
            };
            let (task, no) = (self.task, row.no);
            let tenant = self.tenant.clone();
            let write = LogWrite { task, tenant, row };
            limit = match select(pin!(engine.ports.store.write_log(&write)), limit).await {
                Either::Left((Ok(()), left)) => left,
                Either::Left((Err(error), _)) => return failed(task, &error),
                Either::Right(_) => return failed(task, &"no answer in time"),
            };
            self.open().unwritten.retain(|row| row.no != no);
        }
    }

    /// Writes what is new until `done`, and then the rest.
    pub(crate) async fn keep_writing(&self, engine: &Engine, done: &Notify) {
        let clock = &engine.ports.clock;
        loop {
            // What could not be written is tried again without new lines, too.
            let again: BoxFuture<'_, ()> = match self.open().unwritten.is_empty() {
                true => Box::pin(pending()),
                false => clock.sleep(AGAIN),
            };
            let news = async { drop(select(pin!(self.news.notified()), again).await) };
            if comes_first(done, news).await || comes_first(done, clock.sleep(GATHER)).await {
                break;
            }
            self.write(engine, self.take()).await;
            if comes_first(done, clock.sleep(PAUSE)).await {
                break;
            }
        }
        self.write(engine, self.take()).await;
        let lost: u64 = self
            .open()
            .unwritten
            .iter()
            .map(|row| u64::from(row.lines))
            .sum();
        if lost > 0 {
            tracing::warn!(task = %self.task, lines = lost, "lines of a task's log are lost");
        }
    }
}

/// Whether `done` comes before `other`.
async fn comes_first(done: &Notify, other: impl Future<Output = ()>) -> bool {
    matches!(
        select(pin!(done.notified()), pin!(other)).await,
        Either::Left(_)
    )
}

fn failed(task: TaskId, error: &dyn std::fmt::Display) {
    tracing::warn!(%task, %error, "lines of a task's log were not written; they are tried again");
}

/// What one attempt, or probe, logs. Without a turn it is dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptLog(Option<Arc<Sink>>);

impl AttemptLog {
    /// For its code.
    pub(crate) fn for_code(&self) -> TaskLog {
        self.0
            .clone()
            .map_or_else(TaskLog::default, |sink| TaskLog::to(sink))
    }

    /// The code is over: what it logs from now on is dropped. The row of its lines that are in none
    /// yet.
    pub(crate) fn end(&self) -> Option<LogRow> {
        let sink = self.0.as_ref()?;
        *sink.is_over.lock() = true;
        let mut said = sink.log.open();
        let is_ours = |line: &LogLine| {
            (&*line.step, line.part, line.attempt) == (&*sink.step, sink.part, sink.attempt)
        };
        let (ours, others): (Vec<_>, _) = said.lines.drain(..).partition(is_ours);
        said.lines = others.into();
        said.bytes = said.lines.iter().map(size).sum();
        said.row(sink.log.epoch, &ours)
    }
}

#[derive(Debug)]
struct Sink {
    log: Arc<TurnLog>,
    step: String,
    part: LogPart,
    attempt: Attempt,
    is_over: Mutex<bool>,
}

impl LogSink for Sink {
    fn line(&self, level: LogLevel, message: String) {
        let is_over = self.is_over.lock();
        if *is_over {
            return;
        }
        let line = LogLine {
            at: rfc3339(self.log.time.now()),
            step: self.step.clone(),
            part: self.part,
            attempt: self.attempt,
            level,
            message,
        };
        self.log.open().add(line);
        drop(is_over);
        self.log.news.notify_one();
    }
}

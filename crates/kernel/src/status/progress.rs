//! How far running steps say they are. A step writes to the board of its turn, which never waits;
//! beside the work, the turn publishes what is new on it a few times a second: to the hints, for
//! processes that ask, and as a signal, for subscribers.
//!
//! None of it is state. It may be late or lost, nothing is decided by it, and a service that does
//! not answer costs the step nothing. What an earlier epoch or attempt has said is told apart by
//! its numbers and never shown.

use crate::engine::Engine;
use crate::engine::time_limits::best_effort;
use crate::ports::{ByteStream, Clock, Hints, Signal};
use crate::record::{DbTime, StepRow, TaskRecord};
use crate::times::rfc3339;
use crate::turn::attempt_heartbeats::Liveness;
use crate::turn::turn_time::TurnTime;
use counterstep_contracts::{Attempt, AttemptProgress, Direction, Epoch, TaskId, TaskProgress};
pub(crate) use counterstep_steps::progress::Meter;
use counterstep_steps::progress::ProgressSink;
use futures::StreamExt;
use futures::future::{BoxFuture, select};
use futures::stream::BoxStream;
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Pause between two messages about a task.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a message is kept where it is not published again.
const KEPT: Duration = Duration::from_secs(60);

/// Where the hints keep a task's progress.
#[must_use]
pub fn key(task: TaskId) -> String {
    format!("progress:{task}")
}

/// What the running attempts of one turn have said.
#[derive(Debug)]
pub(crate) struct Board {
    task: TaskId,
    epoch: Epoch,
    time: TurnTime,
    said: Mutex<BoardState>,
    news: Notify,
}

#[derive(Debug, Default)]
struct BoardState {
    /// Never more than the task has steps.
    steps: BTreeMap<String, LatestProgress>,
    /// Grows with each telling.
    seq: u64,
}

/// What one attempt has said last. A step writes far more often than this is published, so no JSON
/// is made of it before.
#[derive(Debug, Clone)]
struct LatestProgress {
    direction: Direction,
    attempt: Attempt,
    done: u64,
    total: u64,
    message: Option<String>,
    at: DbTime,
}

impl From<LatestProgress> for AttemptProgress {
    fn from(
        LatestProgress {
            direction,
            attempt,
            done,
            total,
            message,
            at,
        }: LatestProgress,
    ) -> Self {
        Self {
            direction,
            attempt,
            done,
            total,
            message,
            at: rfc3339(at),
        }
    }
}

impl Board {
    /// Of a claimed task.
    pub(crate) fn of(record: &TaskRecord, clock: Arc<dyn Clock>) -> Arc<Self> {
        let (task, epoch) = (record.task.id, record.task.epoch);
        Arc::new(Self {
            task,
            epoch,
            time: TurnTime::of(record, clock),
            said: Mutex::default(),
            news: Notify::new(),
        })
    }

    /// For an attempt that begins.
    pub(crate) fn meter(
        self: &Arc<Self>,
        step: &str,
        direction: Direction,
        attempt: Attempt,
    ) -> (Meter, Arc<Liveness>) {
        let place = Place {
            board: self.clone(),
            step: step.to_owned(),
            direction,
            attempt,
        };
        let beats = Arc::new(Liveness::of(self.time.clock()));
        let sink = AttemptSink {
            place: Mutex::new(Some(place)),
            beats: beats.clone(),
        };
        (Meter::to(Arc::new(sink)), beats)
    }

    fn open(&self) -> MutexGuard<'_, BoardState> {
        self.said.lock()
    }

    /// What was told while other services could not be reached is told once more.
    pub(crate) fn tell_again(&self) {
        self.news.notify_one();
    }

    fn is_empty(&self) -> bool {
        self.open().steps.is_empty()
    }

    /// All that stands on it; `None`: nothing.
    fn read(&self) -> Option<TaskProgress> {
        let mut said = self.open();
        if said.steps.is_empty() {
            return None;
        }
        said.seq += 1;
        let steps = said
            .steps
            .iter()
            .map(|(step, word)| (step.clone(), word.clone().into()))
            .collect();
        Some(TaskProgress {
            task: self.task,
            epoch: self.epoch,
            seq: said.seq,
            steps,
        })
    }

    /// Publishes what is new, until it is dropped. Each message has everything, so the next one replaces one
    /// that was lost or held back by the pause.
    pub(crate) async fn tell(&self, engine: &Engine) {
        let key = key(self.task);
        loop {
            if self.is_empty() {
                self.news.notified().await;
            } else {
                // Published again from time to time, or it would be forgotten under a step that says
                // little.
                select(
                    pin!(self.news.notified()),
                    engine.ports.clock.sleep(KEPT / 2),
                )
                .await;
            }
            let Some(progress) = self.read() else {
                continue;
            };
            match serde_json::to_string(&progress) {
                Ok(text) => {
                    if let Some(Err(error)) = best_effort(
                        engine.ports.clock.as_ref(),
                        engine.ports.hints.set(&key, &text, KEPT),
                    )
                    .await
                    {
                        tracing::debug!(task = %self.task, %error, "a progress was not kept");
                    }
                }
                Err(error) => {
                    tracing::debug!(task = %self.task, %error, "a progress could not be written")
                }
            }
            engine
                .ports
                .signals
                .send(Signal::Progress(Arc::new(progress)));
            engine.ports.clock.sleep(PAUSE).await;
        }
    }
}

/// An attempt's place on its board.
#[derive(Debug)]
struct Place {
    board: Arc<Board>,
    step: String,
    direction: Direction,
    attempt: Attempt,
}

/// An attempt's place on its board, until it has ended.
#[derive(Debug)]
struct AttemptSink {
    place: Mutex<Option<Place>>,
    beats: Arc<Liveness>,
}

impl ProgressSink for AttemptSink {
    fn tell(&self, done: u64, total: u64, message: Option<String>) {
        self.beats.beat();
        let place = self.place.lock();
        let Some(Place {
            board,
            step,
            direction,
            attempt,
        }) = &*place
        else {
            return;
        };
        let word = LatestProgress {
            direction: *direction,
            attempt: *attempt,
            done,
            total,
            message,
            at: board.time.now(),
        };
        let mut said = board.open();
        match said.steps.get_mut(step) {
            Some(last) => *last = word,
            None => drop(said.steps.insert(step.clone(), word)),
        }
        drop(said);
        board.news.notify_one();
    }

    fn beat(&self) {
        self.beats.beat();
    }

    fn end(&self) {
        let mut place = self.place.lock();
        if let Some(Place { board, step, .. }) = place.take() {
            board.open().steps.remove(&step);
        }
    }
}

/// Counts the bytes of several streams that go by one after the other.
pub(crate) fn counting(body: ByteStream, meter: Meter, before: u64, total: u64) -> ByteStream {
    let mut done = before;
    body.inspect(move |chunk| {
        if let Ok(bytes) = chunk {
            done += bytes.len() as u64;
            meter.tell(done, total);
        }
    })
    .boxed()
}

/// Keeps what is heard of other processes, where the hints are this process's own. Ends with the
/// signals.
pub async fn keep_what_is_heard(mut heard: BoxStream<'static, Signal>, hints: Arc<dyn Hints>) {
    while let Some(signal) = heard.next().await {
        if let Signal::Progress(progress) = signal
            && let Ok(text) = serde_json::to_string(&*progress)
        {
            // A host that was paused goes on telling for a while: what is newer stays.
            let known = hints.get(&key(progress.task)).await.ok().flatten();
            let known: Option<TaskProgress> =
                known.and_then(|text| serde_json::from_str(&text).ok());
            if known.is_some_and(|known| (known.epoch, known.seq) > (progress.epoch, progress.seq))
            {
                continue;
            }
            // Without it the progress is missing, and nothing else is.
            let _ = hints.set(&key(progress.task), &text, KEPT).await;
        }
    }
}

/// What the running attempts of a task have said, by the names of their steps. Reads the hints
/// once, and only where one is running. Nothing where they do not answer.
pub fn progress_of<'a>(
    engine: &'a Engine,
    record: &'a TaskRecord,
) -> BoxFuture<'a, Option<TaskProgress>> {
    Box::pin(async move {
        if !record.steps.iter().any(|row| row.open_attempt().is_some()) {
            return None;
        }
        let kept = best_effort(
            engine.ports.clock.as_ref(),
            engine.ports.hints.get(&key(record.task.id)),
        )
        .await?
        .ok()??;
        of_running(record, serde_json::from_str(&kept).ok()?)
    })
}

/// What of a progress is about attempts that the rows say are running; `None`: nothing.
#[must_use]
pub fn of_running(record: &TaskRecord, mut progress: TaskProgress) -> Option<TaskProgress> {
    if progress.task != record.task.id || progress.epoch != record.task.epoch {
        return None;
    }
    progress.steps.retain(|name, said| {
        let row = record.steps.iter().find(|row| row.name == *name);
        row.and_then(StepRow::open_attempt) == Some((said.direction, said.attempt))
    });
    (!progress.steps.is_empty()).then_some(progress)
}

//! The journal of a task, read on in the process of an engine. Must not judge what it reads.

use super::Event;
use crate::client::in_process::{InProcess, refused};
use crate::client::{ClientError, PUTS_UP_FOR};
use counterstep_contracts::{AuditSeq, Epoch, Rev, TaskId, TaskProgress, Tenant};
use counterstep_kernel::journal::trail::Trail;
use counterstep_kernel::ports::{Signal, StoreError};
use counterstep_kernel::status::progress;
use counterstep_operations::no_such_task;
use counterstep_operations::task_bodies::{audit_event, progress_event};
use futures::future::{Either, select};
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use std::collections::VecDeque;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Pause between two polls of a task that another process may change: its signals may be lost.
const LOOK: Duration = Duration::from_millis(200);

/// Maximum pause between two polls.
const LONGEST_LOOK: Duration = Duration::from_secs(2);

/// The journal of a task, read on.
struct Read {
    here: InProcess,
    trail: Trail,
    signals: BoxStream<'static, Signal>,
    after: AuditSeq,
    ready: VecDeque<Event>,
    said: (Epoch, u64),
    pause: Duration,
    failing_since: Option<Instant>,
    has_ended: bool,
}

impl InProcess {
    /// The events of a task behind an entry. A database that does not answer for less than a minute
    /// does not end them.
    pub(in crate::client) fn events(
        &self,
        task: TaskId,
        after: AuditSeq,
    ) -> impl Stream<Item = Result<Event, ClientError>> + Send + 'static {
        let signals = self.engine.ports.signals.subscribe();
        let ours = move |signal: &Signal| {
            std::future::ready(match signal {
                Signal::Changed(other) | Signal::Rests(other) => *other == task,
                Signal::Progress(progress) => progress.task == task,
                Signal::CancelRequested(_) => false,
            })
        };
        let read = Read {
            here: self.clone(),
            trail: Trail::of(task),
            signals: signals.filter(ours).boxed(),
            after,
            ready: VecDeque::new(),
            said: (Epoch(0), 0),
            pause: LOOK,
            failing_since: None,
            has_ended: false,
        };
        stream::unfold(read, |mut read| async move {
            let next = read.next().await.transpose()?;
            read.has_ended |= next.is_err();
            Some((next, read))
        })
    }
}

impl Read {
    async fn next(&mut self) -> Result<Option<Event>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            if self.has_ended {
                return Ok(None);
            }
            match self.read().await {
                // As long as there is more, without a pause.
                Ok(false) => continue,
                Ok(true) => self.failing_since = None,
                Err(error) if error.may_pass() => {
                    let since = *self.failing_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= PUTS_UP_FOR {
                        return Err(refused(error));
                    }
                }
                Err(error) => return Err(refused(error)),
            }
            let task = &self.trail.record().task;
            if self.failing_since.is_none() {
                if task.rev == Rev(0) || task.tenant != Tenant::default() {
                    return Err(refused(no_such_task()));
                }
                self.has_ended = task.status.is_terminal();
            }
            if self.ready.is_empty() && !self.has_ended {
                self.wait().await;
            }
        }
    }

    /// Reads a page. Whether it is the last one for now.
    async fn read(&mut self) -> Result<bool, StoreError> {
        let store = self.here.engine.ports.store.clone();
        let page = self.trail.read(&store).await?;
        let steps = &self.trail.record().steps;
        for row in page.entries {
            self.pause = LOOK;
            if row.seq > self.after {
                let event = Box::new(audit_event(steps, row));
                self.ready.push_back(Event::Audit(event));
            }
        }
        Ok(page.is_last)
    }

    async fn wait(&mut self) {
        let sleep = self.here.engine.ports.clock.sleep(self.pause);
        match select(pin!(self.signals.next()), sleep).await {
            Either::Left((Some(Signal::Progress(said)), _)) => self.say(&said),
            Either::Left(_) => {}
            Either::Right(_) => self.pause = (self.pause * 2).min(LONGEST_LOOK),
        }
    }

    fn say(&mut self, said: &TaskProgress) {
        let which = (said.epoch, said.seq);
        if which > self.said
            && let Some(said) = progress::of_running(self.trail.record(), said.clone())
        {
            self.said = which;
            self.ready.push_back(Event::Progress(progress_event(said)));
        }
    }
}

//! One stream of the events of one task: what it sends next, and what it waits for. Must not share
//! anything with other streams but the task's tail.

use super::followed::Following;
use super::frame;
use super::tail::{Heard, Look, after_only, entries};
use crate::app_state::Api;
use actix_web::web;
use bytes::Bytes;
use counterstep_contracts::{AuditSeq, Epoch, TaskId, TaskProgress};
use counterstep_kernel::journal::trail::Trail;
use counterstep_kernel::ports::StoreError;
use counterstep_operations::{Caller, Refused, no_such_task, unreadable};
use futures::Stream;
use futures::stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Pause before a failed read is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// A stream of events.
#[derive(Debug)]
pub(crate) struct EventStream {
    api: web::Data<Api>,
    /// The caller of the stream, which ends when that caller loses its access.
    caller: Caller,
    /// When that is looked at again.
    look: Instant,
    following: Following,
    heard: watch::Receiver<Heard>,
    /// The last entry that the client has, or is about to get.
    after: AuditSeq,
    /// At most those of one page.
    ready: VecDeque<Bytes>,
    /// Its own way through the journal, while it is further behind than the tail.
    own: Option<Box<Trail>>,
    /// The last progress that was sent.
    said: (Epoch, u64),
    /// What was said before it began has been looked for.
    has_asked: bool,
    /// When a comment is due.
    beat: Instant,
}

/// What a look has come to.
enum Found {
    /// There may be more at once.
    Some,
    /// Nothing for now.
    Nothing,
    /// Nothing any more.
    Ended,
    /// There is no such task.
    Missing,
}

impl EventStream {
    /// Of the events behind `after`, once there is something to say or to wait for. `None`: there are
    /// none, and there will be none.
    pub(crate) async fn open(
        api: web::Data<Api>,
        caller: Caller,
        task: TaskId,
        after: AuditSeq,
    ) -> Result<Option<Self>, Refused> {
        let following = api.events.follow(&caller, task)?;
        let mut stream = Self {
            heard: following.tail.subscribe(),
            following,
            after,
            ready: VecDeque::new(),
            own: None,
            said: (Epoch(0), 0),
            has_asked: false,
            beat: Instant::now() + api.settings.event_heartbeat,
            look: Instant::now() + api.settings.event_heartbeat,
            caller,
            api,
        };
        loop {
            let found = match stream.more().await {
                Ok(found) => found,
                Err(error) => {
                    let (engine, caller) = (&stream.api.engine, &stream.caller);
                    return Err(unreadable(engine, &caller.tenant, task, error).await);
                }
            };
            match found {
                Found::Some if stream.ready.is_empty() => {}
                Found::Some | Found::Nothing => break,
                Found::Ended => return Ok(None),
                Found::Missing => return Err(no_such_task()),
            }
        }
        stream.ready.push_front(frame::RETRY);
        Ok(Some(stream))
    }

    /// What is sent, until the task has ended, the client goes away or the server stops.
    pub(crate) fn frames(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        stream::unfold(self, |mut stream| async move {
            let frame = stream.next().await?;
            Some((Ok(frame), stream))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if !self.is_let_in().await {
                return None;
            }
            if let Some(frame) = self.ready.pop_front() {
                self.beat = Instant::now() + self.api.settings.event_heartbeat;
                return Some(frame);
            }
            if self.api.shutdown.is_cancelled() {
                return None;
            }
            // What is heard from here on ends the wait below.
            let said = self.heard.borrow_and_update().progress.clone();
            let mut until = self.beat;
            match self.more().await {
                Ok(Found::Some) => continue,
                Ok(Found::Nothing) => {}
                Ok(Found::Ended | Found::Missing) => return None,
                Err(error) if error.may_pass() => {
                    tracing::debug!(task = %self.following.task, %error, "a stream waits for the database");
                    until = until.min(Instant::now() + AGAIN);
                }
                Err(error) => {
                    tracing::warn!(task = %self.following.task, %error, "a stream ends: the journal cannot be read");
                    return None;
                }
            }
            if !std::mem::replace(&mut self.has_asked, true) {
                let known = self.following.tail.known_progress(&self.api.engine).await;
                self.say(known).await;
            }
            self.say(said.map(|said| (*said).clone())).await;
            if !self.ready.is_empty() {
                continue;
            }
            tokio::select! {
                // It has no end before this: the stream has a share in the sender.
                _ = self.heard.changed() => {}
                () = sleep_until(until) => {
                    if Instant::now() >= self.beat {
                        self.ready.push_back(frame::HEARTBEAT);
                    }
                }
                _ = self.api.shutdown.cancelled() => return None,
            }
        }
    }

    async fn is_let_in(&mut self) -> bool {
        if Instant::now() < self.look {
            return true;
        }
        self.look = Instant::now() + self.api.settings.event_heartbeat;
        self.api.auth.is_valid(&self.api.engine, &self.caller).await
    }

    /// Makes ready what comes behind the last entry.
    async fn more(&mut self) -> Result<Found, StoreError> {
        let found = match self
            .following
            .tail
            .look(&self.api.engine, &self.caller.tenant, self.after)
            .await?
        {
            Look::Entries(found) => {
                self.own = None;
                found
            }
            Look::Behind => {
                let begin = || Box::new(Trail::of(self.following.task));
                let own = self.own.get_or_insert_with(begin);
                let page = own.read(&self.api.engine.ports.store).await?;
                after_only(entries(own, page)?, self.after)
            }
            Look::Nothing => return Ok(Found::Nothing),
            Look::Ended => return Ok(Found::Ended),
            Look::Missing => return Ok(Found::Missing),
        };
        self.after = found.last().map_or(self.after, |last| last.seq);
        self.ready
            .extend(found.into_iter().map(|entry| entry.frame));
        Ok(Found::Some)
    }

    /// Makes a progress ready, where it is news.
    async fn say(&mut self, said: Option<TaskProgress>) {
        let Some(said) = said else { return };
        let which = (said.epoch, said.seq);
        if which > self.said
            && let Some(frame) = self.following.tail.progress(said).await
        {
            self.said = which;
            self.ready.push_back(frame);
        }
    }
}

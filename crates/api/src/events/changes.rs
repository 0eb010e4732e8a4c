//! One stream of the changes of many tasks: first what there is, then what the feed finds. Must not look
//! for changes itself.

use super::feed::{Batch, Change, Joined, PAGE, ended_page};
use super::followed::Room;
use super::frame;
use crate::app_state::Api;
use actix_web::web;
use bytes::Bytes;
use counterstep_contracts::{Labels, TaskId, TaskStatus};
use counterstep_kernel::ports::{SEEN_WITHIN, StoreError, TaskLine, TaskPage, TaskQuery};
use counterstep_operations::{Caller, Refused};
use counterstep_steps::times::DbTime;
use futures::Stream;
use futures::stream;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

/// Pause before a failed read is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Which tasks a stream is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// Of this type only.
    pub(crate) task_type: Option<String>,
    /// In one of these states only; none: in any.
    pub(crate) statuses: Vec<TaskStatus>,
    /// With all of these labels only.
    pub(crate) labels: Labels,
}

impl Filter {
    fn fits(&self, line: &TaskLine) -> bool {
        let of_type = self.task_type.as_ref();
        (self.statuses.is_empty() || self.statuses.contains(&line.status))
            && of_type.is_none_or(|of| line.task_type == *of)
            && line.labels.contains(&self.labels)
    }

    /// The states that the filter selects among those of tasks that have ended, or have not.
    fn states(&self, ended: bool) -> Vec<TaskStatus> {
        let asked =
            |status: &TaskStatus| self.statuses.is_empty() || self.statuses.contains(status);
        let states = TaskStatus::ALL.iter().copied();
        states
            .filter(|status| status.is_terminal() == ended && asked(status))
            .collect()
    }
}

/// What a stream reads next.
#[derive(Debug)]
enum Stage {
    /// Nothing, before the feed looks.
    Begins,
    /// Tasks that have not ended, older than this one.
    Open(Option<TaskId>, DbTime),
    /// Tasks that ended behind this one.
    Ended((DbTime, TaskId), DbTime),
    /// What the feed finds.
    Live,
}

/// A stream of changes.
#[derive(Debug)]
pub(crate) struct ChangeStream {
    api: web::Data<Api>,
    /// The caller of the stream, which ends when that caller loses its access.
    caller: Caller,
    /// When that is looked at again.
    look: Instant,
    filter: Filter,
    /// From when on the client has not everything; `None`: it gets all that is there.
    since: Option<DbTime>,
    /// The last place that the client was told, or has told.
    place: Option<DbTime>,
    joined: Joined,
    stage: Stage,
    /// At most those of one page, or one batch.
    ready: VecDeque<Bytes>,
    /// When the client's place is to be told again.
    beat: Instant,
    _room: Room,
}

impl ChangeStream {
    /// `last`: the place up to which the client has everything.
    pub(crate) fn open(
        api: web::Data<Api>,
        caller: Caller,
        filter: Filter,
        last: Option<i64>,
    ) -> Result<Self, Refused> {
        let room = api.events.room(&caller)?;
        Ok(Self {
            filter,
            since: last.map(|last| DbTime(last).earlier(SEEN_WITHIN)),
            place: last.map(DbTime),
            joined: api.events.join(&caller.tenant),
            look: Instant::now() + api.settings.event_heartbeat,
            caller,
            stage: Stage::Begins,
            ready: VecDeque::from([frame::RETRY]),
            beat: Instant::now() + api.settings.event_heartbeat,
            api,
            _room: room,
        })
    }

    /// What is sent, until the client goes away, is too slow, or the server stops.
    pub(crate) fn frames(self) -> impl Stream<Item = Result<Bytes, Infallible>> {
        stream::unfold(self, |mut stream| async move {
            let frame = stream.next().await?;
            Some((Ok(frame), stream))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if Instant::now() >= self.look {
                self.look = Instant::now() + self.api.settings.event_heartbeat;
                if !self.api.auth.is_valid(&self.api.engine, &self.caller).await {
                    return None;
                }
            }
            if let Some(frame) = self.ready.pop_front() {
                self.beat = Instant::now() + self.api.settings.event_heartbeat;
                return Some(frame);
            }
            let (api, beat) = (self.api.clone(), self.beat);
            // A read is not dropped for a comment, since it would have to begin again: the comment is between two reads.
            let waits = matches!(self.stage, Stage::Begins | Stage::Live);
            if !waits && Instant::now() >= beat {
                self.ready.push_back(frame::HEARTBEAT);
                continue;
            }
            tokio::select! {
                _ = api.shutdown.cancelled() => return None,
                more = self.more() => more?,
                () = sleep_until(beat), if waits => self.tell_place()?,
            }
        }
    }

    /// Makes more ready; `None`: it ends here. Dropped before its end, it has done nothing.
    async fn more(&mut self) -> Option<()> {
        let read = match self.stage {
            Stage::Begins => self.begin().await,
            Stage::Open(before, up_to) => self.read_open(before, up_to).await,
            Stage::Ended(after, up_to) => self.read_ended(after, up_to).await,
            Stage::Live => return self.hear().await,
        };
        match read {
            Ok(()) => Some(()),
            Err(error) if error.may_pass() => {
                tracing::debug!(%error, "a stream waits for the database");
                tokio::time::sleep(AGAIN).await;
                Some(())
            }
            Err(error) => {
                tracing::warn!(%error, "a stream ends: the tasks cannot be read");
                None
            }
        }
    }

    /// Waits for the feed: what changes behind what it has seen, it finds; all else is there to be read.
    async fn begin(&mut self) -> Result<(), StoreError> {
        // It has no end before this: the API holds the sender.
        let _ = self.joined.up_to.wait_for(Option::is_some).await;
        let up_to = *self.joined.up_to.borrow();
        if let Some(up_to) = up_to {
            self.stage = Stage::Open(None, up_to);
        }
        Ok(())
    }

    async fn read_open(&mut self, before: Option<TaskId>, up_to: DbTime) -> Result<(), StoreError> {
        let statuses = self.filter.states(false);
        let page = if statuses.is_empty() {
            TaskPage::default()
        } else {
            let query = TaskQuery {
                tenant: Some(self.caller.tenant.clone()),
                task_type: self.filter.task_type.clone(),
                statuses,
                labels: self.filter.labels.clone(),
                before,
                limit: PAGE,
                ..TaskQuery::default()
            };
            self.api.engine.ports.store.list(&query).await?
        };
        let is_full = page.lines.len() >= PAGE as usize;
        let last = page.lines.last().map(|last| last.task);
        let next = page.looked_to.or(last.filter(|_| is_full));
        let since = self.since.unwrap_or(DbTime(0));
        let changed = page.lines.into_iter();
        self.add(changed.filter(|line| line.updated_at >= since))?;
        self.stage = match (next, self.since) {
            (Some(next), _) => Stage::Open(Some(next), up_to),
            (None, Some(since)) => Stage::Ended((since, TaskId(Uuid::nil())), up_to),
            (None, None) => self.live(up_to),
        };
        Ok(())
    }

    async fn read_ended(
        &mut self,
        after: (DbTime, TaskId),
        up_to: DbTime,
    ) -> Result<(), StoreError> {
        let (engine, of) = (&self.api.engine, self.filter.task_type.as_deref());
        let page = if self.filter.states(true).is_empty() {
            Vec::new()
        } else {
            ended_page(engine, &self.caller.tenant, of, after, PAGE).await?
        };
        let Some(last) = page.last() else {
            self.stage = self.live(up_to);
            return Ok(());
        };
        let next = (last.at, last.task);
        let tasks: Vec<_> = page.iter().map(|it| it.task).collect();
        let lines = engine.ports.store.lines(&tasks).await?;
        let fits = |line: &TaskLine| self.filter.fits(line);
        let lines: Vec<_> = lines.into_iter().filter(fits).collect();
        self.add(lines.into_iter())?;
        // What was open is sent by now: from here a client that is cut off can go on.
        self.tell(next.0.min(up_to));
        self.stage = Stage::Ended(next, up_to);
        Ok(())
    }

    fn add(&mut self, lines: impl Iterator<Item = TaskLine>) -> Result<(), StoreError> {
        let frames = lines.map(|line| Change::of(line).map(|change| change.frame));
        self.ready.extend(frames.collect::<Result<Vec<_>, _>>()?);
        Ok(())
    }

    /// From here on the feed tells; what was read is all up to this time.
    fn live(&mut self, up_to: DbTime) -> Stage {
        self.tell(up_to);
        Stage::Live
    }

    /// Makes a place ready: all that had changed before it is. Never one before the last.
    fn tell(&mut self, place: DbTime) {
        if self.place.is_none_or(|last| last <= place) {
            self.place = Some(place);
            self.ready.push_back(frame::place(place.0));
        }
    }

    /// What the feed has dropped is read, from the last place on. Otherwise the client would do it, with a new stream
    /// that is as far behind.
    fn catch_up(&mut self) {
        self.joined.changes = self.joined.changes.resubscribe();
        self.since = self.place.map(|place| place.earlier(SEEN_WITHIN));
        self.stage = Stage::Begins;
    }

    /// Waits for what the feed finds.
    async fn hear(&mut self) -> Option<()> {
        match self.joined.changes.recv().await {
            Ok(batch) => {
                self.take(&batch);
                Some(())
            }
            Err(RecvError::Lagged(_)) => {
                self.catch_up();
                Some(())
            }
            Err(RecvError::Closed) => None,
        }
    }

    fn take(&mut self, batch: &Arc<Batch>) {
        let fit = batch.changes.iter().filter(|it| self.filter.fits(&it.line));
        self.ready.extend(fit.map(|change| change.frame.clone()));
        if let Some(up_to) = batch.up_to {
            self.tell(up_to);
        }
    }

    /// Makes the newest place ready, behind all that came before it.
    fn tell_place(&mut self) -> Option<()> {
        let up_to = *self.joined.up_to.borrow();
        if !matches!(self.stage, Stage::Live) {
            self.ready.push_back(frame::HEARTBEAT);
            return Some(());
        }
        // What belongs before this place was sent before it was told.
        loop {
            match self.joined.changes.try_recv() {
                Ok(batch) => self.take(&batch),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Lagged(_)) => {
                    self.catch_up();
                    return Some(());
                }
                Err(TryRecvError::Closed) => return None,
            }
        }
        match up_to.filter(|up_to| self.place.is_none_or(|last| last <= *up_to)) {
            Some(up_to) => self.tell(up_to),
            None => self.ready.push_back(frame::HEARTBEAT),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ApiSettings;
    use counterstep_steps::{CancelToken, Registry};
    use counterstep_testkit::Harness;
    use tokio::sync::broadcast;

    async fn until_live(stream: &mut ChangeStream) {
        while !matches!(stream.stage, Stage::Live) {
            stream.next().await.expect("it goes on");
        }
    }

    #[tokio::test]
    async fn a_stream_that_the_feed_has_left_behind_becomes_live_again() {
        let site = Harness::embedded(Registry::new()).start().await;
        let settings = ApiSettings {
            event_poll: Duration::from_millis(1),
            ..ApiSettings::default()
        };
        let api = Api::new(site.engine.clone(), settings, CancelToken::new());
        let api = web::Data::new(api);
        let stream = ChangeStream::open(api, Caller::anyone(), Filter::default(), None);
        let mut stream = stream.expect("room");
        until_live(&mut stream).await;
        // It finds out when it hears the feed, or when it is to tell its place.
        for hears in [true, false] {
            let place = stream.place.expect("a place");
            let (feed, changes) = broadcast::channel(2);
            stream.joined.changes = changes;
            for _ in 0..3 {
                let (changes, up_to) = (Vec::new(), None);
                feed.send(Arc::new(Batch { changes, up_to }))
                    .expect("a stream");
            }
            stream.ready.clear();
            let goes_on = if hears {
                stream.hear().await
            } else {
                stream.tell_place()
            };
            assert!(goes_on.is_some(), "hears: {hears}");
            assert!(matches!(stream.stage, Stage::Begins), "{:?}", stream.stage);
            assert_eq!(stream.since, Some(place.earlier(SEEN_WITHIN)));
            until_live(&mut stream).await;
        }
    }
}

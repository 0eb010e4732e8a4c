//! The end of one task's audit, shared by all streams of the process that follow the task: what changes
//! is read once, however many there are. Must not know a stream.

use super::frame;
use bytes::Bytes;
use counterstep_contracts::{AuditSeq, Rev, TaskId, TaskProgress, Tenant};
use counterstep_kernel::Engine;
use counterstep_kernel::journal::trail::{Trail, TrailPage};
use counterstep_kernel::ports::StoreError;
use counterstep_kernel::status::progress;
use counterstep_operations::task_bodies::{audit_event, progress_event};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tokio::sync::{Mutex, watch};

/// Maximum number of entries that are kept for streams that are a little behind.
const KEPT: usize = 16;

/// Maximum bytes of these entries.
const KEPT_BYTES: usize = 8 << 10;

/// The announcements about a task since it is followed.
#[derive(Debug, Clone, Default)]
pub(super) struct Heard {
    /// How often it may have changed.
    changes: u64,
    /// What its running steps have said last.
    pub(super) progress: Option<Arc<TaskProgress>>,
}

/// The end of a task's audit.
#[derive(Debug)]
pub(super) struct Tail {
    heard: watch::Sender<Heard>,
    /// The revision up to which it was read.
    rev: AtomicI64,
    state: Mutex<TailState>,
}

#[derive(Debug)]
struct TailState {
    trail: Trail,
    kept: VecDeque<Entry>,
    /// The number of announced changes when the trail was last read to its end.
    read_at: Option<u64>,
}

/// An audit entry as it is sent.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) seq: AuditSeq,
    pub(super) frame: Bytes,
}

/// What comes behind an entry.
#[derive(Debug)]
pub(super) enum Look {
    /// These, none where a page had none, and perhaps more.
    Entries(Vec<Entry>),
    /// More than is kept: read it from the beginning.
    Behind,
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will.
    Ended,
    /// There is no such task.
    Missing,
}

impl Tail {
    pub(super) fn of(task: TaskId) -> Self {
        Self {
            heard: watch::channel(Heard::default()).0,
            rev: AtomicI64::new(0),
            state: Mutex::new(TailState {
                trail: Trail::of(task),
                kept: VecDeque::new(),
                read_at: None,
            }),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Heard> {
        self.heard.subscribe()
    }

    /// The task may have changed.
    pub(super) fn changed(&self) {
        self.heard.send_modify(|heard| heard.changes += 1);
    }

    /// Its row is at this revision; `None`: there is none.
    pub(super) fn is_at(&self, rev: Option<Rev>) {
        if rev.is_none_or(|rev| rev.0 > self.rev.load(Ordering::Relaxed)) {
            self.changed();
        }
    }

    /// Its running steps have said this.
    pub(super) fn said(&self, progress: &Arc<TaskProgress>) {
        self.heard
            .send_modify(|heard| heard.progress = Some(progress.clone()));
    }

    /// What comes behind an entry. Reads where a change was heard of since the last read; of those who
    /// look at the same time, one reads and the others get what it has read.
    pub(super) async fn look(
        &self,
        engine: &Engine,
        tenant: &Tenant,
        after: AuditSeq,
    ) -> Result<Look, StoreError> {
        let mut state = self.state.lock().await;
        // A stream of another tenant may have made this tail, or come to it.
        if state.is_read() && !state.is_of(tenant) {
            return Ok(Look::Missing);
        }
        let last = state.trail.record().task.audit_seq;
        if after < last {
            let first = state.kept.front().map(|entry| entry.seq);
            if first.is_none_or(|first| first > after.next()) {
                return Ok(Look::Behind);
            }
            let missed = state.kept.iter().filter(|entry| entry.seq > after);
            return Ok(Look::Entries(missed.cloned().collect()));
        }
        let heard = self.heard.borrow().changes;
        if state.read_at == Some(heard) {
            return Ok(state.nothing(tenant));
        }
        let page = state.trail.read(&engine.ports.store).await?;
        let is_last = page.is_last;
        let entries = entries(&state.trail, page)?;
        self.rev
            .store(state.trail.record().task.rev.0, Ordering::Relaxed);
        state.keep(&entries);
        if is_last {
            state.read_at = Some(heard);
            if entries.is_empty() {
                return Ok(state.nothing(tenant));
            }
        }
        if !state.is_of(tenant) {
            return Ok(Look::Missing);
        }
        Ok(Look::Entries(after_only(entries, after)))
    }

    /// What the running steps of the task say, as it is sent; `None`: it is about others.
    pub(super) async fn progress(&self, said: TaskProgress) -> Option<Bytes> {
        let state = self.state.lock().await;
        let said = progress::of_running(state.trail.record(), said)?;
        frame::progress(&progress_event(said)).ok()
    }

    /// What the running steps have said before it was followed.
    pub(super) async fn known_progress(&self, engine: &Engine) -> Option<TaskProgress> {
        let record = self.state.lock().await.trail.record().clone();
        progress::progress_of(engine, &record).await
    }
}

impl TailState {
    /// Whether anything was found yet.
    fn is_read(&self) -> bool {
        self.trail.record().task.rev != Rev(0)
    }

    /// Of a tenant that may see it. No answer reveals that another tenant has a task of this id.
    fn is_of(&self, tenant: &Tenant) -> bool {
        self.is_read() && self.trail.record().task.tenant == *tenant
    }

    /// At the end of what there is.
    fn nothing(&self, tenant: &Tenant) -> Look {
        if !self.is_of(tenant) {
            Look::Missing
        } else if self.trail.record().task.status.is_terminal() {
            Look::Ended
        } else {
            Look::Nothing
        }
    }

    fn keep(&mut self, entries: &[Entry]) {
        self.kept.extend(entries.iter().cloned());
        let mut bytes: usize = self.kept.iter().map(|entry| entry.frame.len()).sum();
        while self.kept.len() > KEPT || bytes > KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else {
                return;
            };
            bytes -= oldest.frame.len();
        }
    }
}

/// The entries of a page as they are sent.
pub(super) fn entries(trail: &Trail, page: TrailPage) -> Result<Vec<Entry>, StoreError> {
    let steps = &trail.record().steps;
    let entry = |row| {
        let event = audit_event(steps, row);
        let seq = event.entry.seq;
        let frame = frame::entry(seq, &event);
        let frame = frame.map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(Entry { seq, frame })
    };
    page.entries.into_iter().map(entry).collect()
}

/// Those behind an entry.
pub(super) fn after_only(mut entries: Vec<Entry>, after: AuditSeq) -> Vec<Entry> {
    entries.retain(|entry| entry.seq > after);
    entries
}

//! A store in front of another one: what it is given is encrypted before the other is given it, and what the
//! other returns is decrypted. Must not decide anything else.

use super::decrypt::{Decrypt, MissingKey, decrypt_record};
use super::encrypt::{self, Encrypt};
use super::place::{Place, is_encrypted};
use crate::ports::{
    AuditPage, ChainRow, ChainTip, ChildCount, ChildLine, ChildQuery, CommitError, Committed,
    DocumentKind, DocumentQuery, DocumentWrite, Documents, DocumentsPut, Due, DueTask, EndedTask,
    FailureFilter, FailureQuery, Flow, FlowQuery, Gauges, Heartbeat, IdempotencyRow, InFlight,
    LoadFor, LogRow, LogWrite, Logs, OutboxOp, OutboxRow, PayloadCodec, PayloadError, PlaceCount,
    PlaceQuery, PlaceRow, PurgeOp, ReceiveOp, Receives, Revisions, RevisionsOf, Salvaged,
    SqlStatement, Store, StoreError, SweepOp, TaskLine, TaskPage, TaskQuery, Unread, Upkeep,
    WaitingQuery, Woken,
};
use crate::record::{DbTime, Failure, History, TaskRecord};
use crate::transition::{Guard, Transition};
use async_trait::async_trait;
use counterstep_contracts::{Epoch, TaskId, Tenant};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// A store whose payloads are encrypted. Without a codec it writes them as they are, and leaves tasks with
/// encrypted payloads to programs that have their keys.
#[derive(Debug)]
pub struct PayloadStore {
    inner: Arc<dyn Store>,
    codec: Option<Arc<dyn PayloadCodec>>,
}

impl PayloadStore {
    /// In front of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, codec: Option<Arc<dyn PayloadCodec>>) -> Self {
        Self { inner, codec }
    }

    fn encrypted<'a>(&self, change: &'a Transition) -> Result<Cow<'a, Transition>, PayloadError> {
        encrypt::transition(self.codec.as_deref(), change)
    }

    fn decrypt(&self, task: TaskId, missing_key: MissingKey) -> Decrypt<'_> {
        Decrypt {
            codec: self.codec.as_deref(),
            task,
            missing_key,
        }
    }

    fn failure(&self, task: TaskId, failure: Option<&mut Failure>) -> Result<(), PayloadError> {
        self.decrypt(task, MissingKey::Said).failure(failure)
    }

    fn lines(&self, lines: &mut [TaskLine]) -> Result<(), PayloadError> {
        lines
            .iter_mut()
            .try_for_each(|line| self.failure(line.task, line.failure.as_mut()))
    }

    /// A text of a failure is looked for where it is decrypted: the database would have to look into what
    /// it cannot read.
    async fn search(&self, query: &TaskQuery) -> Result<TaskPage, StoreError> {
        let candidates = TaskQuery {
            failure: FailureFilter {
                text: None,
                ..query.failure.clone()
            },
            limit: query.limit.max(TaskQuery::MOST_CANDIDATES),
            ..query.clone()
        };
        let TaskPage {
            mut lines,
            mut looked_to,
        } = self.inner.list(&candidates).await?;
        if lines.len() >= usize::try_from(candidates.limit).unwrap_or(usize::MAX) {
            looked_to = lines.last().map(|line| line.task);
        }
        self.lines(&mut lines)?;
        lines.retain(|line| query.failure.fits(line.failure.as_ref()));
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        lines.truncate(limit);
        let looked_to = looked_to.filter(|_| lines.len() < limit);
        Ok(TaskPage { lines, looked_to })
    }
}

#[async_trait]
impl Store for PayloadStore {
    fn payload_codec(&self) -> Option<&dyn PayloadCodec> {
        self.codec.as_deref()
    }

    async fn load_for(
        &self,
        task: TaskId,
        purpose: LoadFor,
    ) -> Result<Option<TaskRecord>, StoreError> {
        let mut record = self.inner.load_for(task, purpose).await?;
        if let Some(record) = &mut record {
            decrypt_record(self.payload_codec(), record)?;
            let task = &record.task;
            // Its next change could not be written: a step would have run for nothing.
            if let Some(codec) = self.codec.as_ref().filter(|_| !task.status.is_terminal()) {
                codec.key(&task.tenant).map_err(StoreError::from)?;
            }
        }
        Ok(record)
    }

    async fn salvage(&self, task: TaskId) -> Result<Option<Salvaged>, StoreError> {
        let Some(mut found) = self.inner.salvage(task).await? else {
            return Ok(None);
        };
        let is_over = found.record.task.status.is_terminal();
        let closed = self
            .decrypt(task, MissingKey::Refused)
            .record(&mut found.record)?;
        for (place, error) in closed {
            match error {
                PayloadError::Erased(_) if is_over => {}
                error @ (PayloadError::Missing(_) | PayloadError::Erased(_)) => {
                    return Err(error.into());
                }
                error @ PayloadError::Damaged(_) => found.unreadable.push(Unread {
                    what: format!("{place}: {error}"),
                    held: String::new(),
                }),
            }
        }
        Ok(Some(found))
    }

    async fn commit(
        &self,
        guard: Guard,
        transition: &Transition,
    ) -> Result<Committed, CommitError> {
        let encrypted = self.encrypted(transition).map_err(StoreError::from)?;
        self.inner.commit(guard, &encrypted).await
    }

    async fn commit_all(&self, submissions: &[&Transition]) -> Result<Committed, CommitError> {
        let encrypted: Vec<_> = submissions
            .iter()
            .map(|change| self.encrypted(change))
            .collect::<Result<_, _>>()
            .map_err(StoreError::from)?;
        let encrypted: Vec<_> = encrypted.iter().map(AsRef::as_ref).collect();
        self.inner.commit_all(&encrypted).await
    }

    fn statement(&self, transition: &Transition) -> Result<Option<SqlStatement>, StoreError> {
        self.inner.statement(self.encrypted(transition)?.as_ref())
    }

    async fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        self.inner.heartbeat(task, epoch, ttl).await
    }

    async fn due(&self, due: &Due, limit: u32) -> Result<Vec<DueTask>, StoreError> {
        self.inner.due(due, limit).await
    }

    async fn reserve(&self, lost: &[TaskId], ttl: Duration) -> Result<Vec<TaskId>, StoreError> {
        self.inner.reserve(lost, ttl).await
    }

    async fn reserved_until(&self, task: TaskId) -> Result<Option<DbTime>, StoreError> {
        self.inner.reserved_until(task).await
    }

    async fn list(&self, query: &TaskQuery) -> Result<TaskPage, StoreError> {
        if self.codec.is_some() && query.failure.text.is_some() {
            return self.search(query).await;
        }
        let mut page = self.inner.list(query).await?;
        self.lines(&mut page.lines)?;
        Ok(page)
    }

    async fn in_flight(&self) -> Result<Vec<InFlight>, StoreError> {
        self.inner.in_flight().await
    }

    async fn gauges(&self, labels: &[String]) -> Result<Gauges, StoreError> {
        self.inner.gauges(labels).await
    }

    async fn flow(&self, query: &FlowQuery) -> Result<Flow, StoreError> {
        self.inner.flow(query).await
    }

    async fn history(&self, task: TaskId) -> Result<History, StoreError> {
        let mut history = self.inner.history(task).await?;
        let decrypt = self.decrypt(task, MissingKey::Refused);
        decrypt.audit(&mut history.audit)?;
        decrypt.attempts(&mut history.attempts)?;
        Ok(history)
    }

    async fn audit_page(&self, page: &AuditPage) -> Result<Vec<ChainRow>, StoreError> {
        self.inner.audit_page(page).await
    }

    async fn chain_tips(&self, page: &AuditPage) -> Result<Vec<ChainTip>, StoreError> {
        self.inner.chain_tips(page).await
    }

    async fn revisions(&self, of: &RevisionsOf) -> Result<Revisions, StoreError> {
        self.inner.revisions(of).await
    }

    async fn lines(&self, tasks: &[TaskId]) -> Result<Vec<TaskLine>, StoreError> {
        let mut lines = self.inner.lines(tasks).await?;
        self.lines(&mut lines)?;
        Ok(lines)
    }

    async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError> {
        self.inner.outbox(op).await
    }

    async fn idempotency(
        &self,
        tenant: &Tenant,
        key: &str,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        self.inner.idempotency(tenant, key).await
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Documents, StoreError> {
        let mut found = self.inner.documents(query).await?;
        let kind = kind_of(query);
        for row in &mut found.rows {
            let Some(place) = encrypt::document_place(kind, &row.tenant, &row.name) else {
                break;
            };
            if !is_encrypted(&row.body) {
                continue;
            }
            let Some(codec) = &self.codec else { continue };
            // Of one that stays as it is its reader says that it cannot be read, and goes on with the others.
            if let Ok(body) = codec.decrypt(&place, &row.body) {
                row.body = body;
            }
        }
        Ok(found)
    }

    async fn put(&self, writes: &[DocumentWrite]) -> Result<DocumentsPut, StoreError> {
        let Some(codec) = &self.codec else {
            return self.inner.put(writes).await;
        };
        let mut writes = writes.to_vec();
        for write in &mut writes {
            encrypt::document(codec.as_ref(), write)?;
        }
        self.inner.put(&writes).await
    }

    async fn successors(&self, tenant: &Tenant, task: TaskId) -> Result<Vec<TaskId>, StoreError> {
        self.inner.successors(tenant, task).await
    }

    async fn child_counts(&self, parent: TaskId) -> Result<Vec<ChildCount>, StoreError> {
        self.inner.child_counts(parent).await
    }

    async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError> {
        let mut children = self.inner.children(query).await?;
        for child in &mut children {
            self.failure(child.task, child.failure.as_mut())?;
        }
        Ok(children)
    }

    async fn above(&self, tasks: &[TaskId]) -> Result<Vec<TaskId>, StoreError> {
        self.inner.above(tasks).await
    }

    async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError> {
        self.inner.places(query).await
    }

    async fn place_counts(
        &self,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<PlaceCount>, StoreError> {
        self.inner.place_counts(after, limit).await
    }

    async fn wake(&self, task: TaskId) -> Result<Option<Woken>, StoreError> {
        self.inner.wake(task).await
    }

    async fn failures(&self, query: &FailureQuery) -> Result<u32, StoreError> {
        self.inner.failures(query).await
    }

    async fn waiting(&self, query: &WaitingQuery) -> Result<u32, StoreError> {
        self.inner.waiting(query).await
    }
}

const fn kind_of(query: &DocumentQuery) -> DocumentKind {
    match query {
        DocumentQuery::Named { kind, .. }
        | DocumentQuery::Page { kind, .. }
        | DocumentQuery::Due { kind, .. }
        | DocumentQuery::DueOf { kind, .. }
        | DocumentQuery::Latest { kind, .. } => *kind,
    }
}

#[async_trait]
impl Upkeep for PayloadStore {
    async fn records(
        &self,
        tasks: &[TaskId],
    ) -> Result<Vec<(TaskId, Result<TaskRecord, StoreError>)>, StoreError> {
        let records = self.inner.records(tasks).await?;
        let decrypted = |mut record| {
            decrypt_record(self.payload_codec(), &mut record)?;
            Ok(record)
        };
        let decrypt = |(task, record): (TaskId, Result<TaskRecord, StoreError>)| {
            (task, record.and_then(decrypted))
        };
        Ok(records.into_iter().map(decrypt).collect())
    }

    async fn sweeps(&self, op: &SweepOp) -> Result<Vec<TaskId>, StoreError> {
        self.inner.sweeps(op).await
    }

    async fn receives(&self, op: &ReceiveOp) -> Result<Receives, StoreError> {
        self.inner.receives(op).await
    }

    async fn purge(&self, op: &PurgeOp) -> Result<Vec<EndedTask>, StoreError> {
        self.inner.purge(op).await
    }
}

#[async_trait]
impl Logs for PayloadStore {
    async fn log(&self, task: TaskId) -> Result<Vec<LogRow>, StoreError> {
        let mut rows = self.inner.log(task).await?;
        let decrypt = self.decrypt(task, MissingKey::Refused);
        // A row that was erased becomes a text that says so.
        rows.iter_mut()
            .try_for_each(|row| decrypt.text(Place::Log, &mut row.body))?;
        Ok(rows)
    }

    async fn write_log(&self, write: &LogWrite) -> Result<(), StoreError> {
        let Some(codec) = &self.codec else {
            return self.inner.write_log(write).await;
        };
        let mut encrypted = write.clone();
        let encrypt = Encrypt {
            codec: codec.as_ref(),
            tenant: &write.tenant,
            task: write.task,
        };
        encrypt.text(Place::Log, &mut encrypted.row.body)?;
        self.inner.write_log(&encrypted).await
    }
}

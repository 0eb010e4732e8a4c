//! The store as the engine sees it: encrypts what goes into a [`Storage`], and decrypts what comes out of it. It is the
//! only way to a database, so that nothing is written in the clear by mistake. Must not decide anything else.

mod beside_tasks;
mod counts;

use crate::change::transition::{Guard, Transition};
use crate::journal;
use crate::payloads::decrypt::{Decrypt, MissingKey, decrypt_record};
use crate::payloads::encrypt::{self};
use crate::payloads::place::is_encrypted;
use crate::ports::{
    ChildLine, ChildQuery, CommitError, Committed, DocumentKind, DocumentQuery, DocumentWrite,
    Documents, DocumentsPut, FailureFilter, Find, ForeignTransactions, Heartbeat, LoadFor, Loaded,
    PayloadCodec, PayloadError, ServerInUse, SqlStatement, Storage, StoreError, TaskHead, TaskLine,
    TaskList, TaskPage, TaskQuery, Touch, Touched, Unread,
};
use crate::record::{DbTime, Failure, History, TaskRecord};
use counterstep_contracts::{Epoch, Rev, TaskId};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::Duration;

/// The store. Cheap to clone. Without a codec it writes payloads as they are, and leaves tasks with encrypted payloads
/// to programs that have their keys.
#[derive(Debug, Clone)]
pub struct Store {
    storage: Arc<dyn Storage>,
    codec: Option<Arc<dyn PayloadCodec>>,
    foreign: Option<Arc<dyn ForeignTransactions>>,
}

impl Store {
    /// On this database.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            codec: None,
            foreign: None,
        }
    }

    /// Payloads are encrypted with this codec from now on; `None`: with none.
    #[must_use]
    pub fn with_codec(mut self, codec: Option<Arc<dyn PayloadCodec>>) -> Self {
        self.codec = codec;
        self
    }

    /// Its database has statements for transactions that are not the store's.
    #[must_use]
    pub fn with_foreign(mut self, foreign: Arc<dyn ForeignTransactions>) -> Self {
        self.foreign = Some(foreign);
        self
    }

    /// With something between it and its database, which sees ciphertext: a count, or a fault. Returns that as well.
    #[must_use]
    pub fn through<S: Storage + 'static>(
        mut self,
        wrap: impl FnOnce(Arc<dyn Storage>) -> S,
    ) -> (Self, Arc<S>) {
        let between = Arc::new(wrap(self.storage));
        self.storage = between.clone();
        (self, between)
    }

    /// What encrypts payloads; `None`: they stand in the database as they are.
    #[must_use]
    pub fn payload_codec(&self) -> Option<&dyn PayloadCodec> {
        self.codec.as_deref()
    }

    /// Which of the database's servers is in use; see [`Storage::server_in_use`](crate::ports::Storage::server_in_use).
    #[must_use]
    pub fn server_in_use(&self) -> Option<ServerInUse> {
        self.storage.server_in_use()
    }

    fn encrypted(&self, change: Arc<Transition>) -> Result<Arc<Transition>, PayloadError> {
        let encrypted = encrypt::transition(self.codec.as_deref(), &change)?;
        Ok(encrypted.map_or(change, Arc::new))
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

    fn decrypt_lines(&self, lines: &mut [TaskLine]) -> Result<(), PayloadError> {
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
        } = self.storage.list(&TaskList::Page(&candidates)).await?;
        if lines.len() >= usize::try_from(candidates.limit).unwrap_or(usize::MAX) {
            looked_to = lines.last().map(|line| line.task);
        }
        self.decrypt_lines(&mut lines)?;
        lines.retain(|line| query.failure.fits(line.failure.as_ref()));
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        lines.truncate(limit);
        let looked_to = looked_to.filter(|_| lines.len() < limit);
        Ok(TaskPage { lines, looked_to })
    }

    async fn loaded(&self, task: TaskId, purpose: LoadFor) -> Result<Option<Loaded>, StoreError> {
        let loaded = self.storage.load(&[task], purpose).await?;
        loaded.into_iter().next().map(|(_, read)| read).transpose()
    }

    /// A task with its steps; `None`: there is none. See [`Storage::load`](crate::ports::Storage::load).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn load_for(
        &self,
        task: TaskId,
        purpose: LoadFor,
    ) -> Result<Option<TaskRecord>, StoreError> {
        let Some(Loaded { mut record, .. }) = self.loaded(task, purpose).await? else {
            return Ok(None);
        };
        decrypt_record(self.payload_codec(), &mut record)?;
        let task = &record.task;
        // Its next change could not be written: a step would have run for nothing.
        if let Some(codec) = self.codec.as_ref().filter(|_| !task.status.is_terminal()) {
            codec.key(&task.tenant).map_err(StoreError::from)?;
        }
        Ok(Some(record))
    }

    /// The same for looking at it.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn load(&self, task: TaskId) -> Result<Option<TaskRecord>, StoreError> {
        self.load_for(task, LoadFor::Look).await
    }

    /// A task as far as it can be read; `None`: there is none. See [`LoadFor::Salvage`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn salvage(&self, task: TaskId) -> Result<Option<Loaded>, StoreError> {
        let Some(mut found) = self.loaded(task, LoadFor::Salvage).await? else {
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

    /// See [`Storage::commit`](crate::ports::Storage::commit).
    ///
    /// # Errors
    /// [`CommitError`].
    pub async fn commit(
        &self,
        guard: Guard,
        change: impl Into<Arc<Transition>>,
    ) -> Result<Committed, CommitError> {
        let encrypted = self.encrypted(change.into()).map_err(StoreError::from)?;
        self.storage.commit(guard, &[encrypted]).await
    }

    /// First changes of different tasks. See [`Storage::commit`](crate::ports::Storage::commit).
    ///
    /// # Errors
    /// [`CommitError`].
    pub async fn commit_all(
        &self,
        submissions: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let encrypted: Vec<_> = submissions
            .iter()
            .map(|change| self.encrypted(change.clone()))
            .collect::<Result<_, _>>()
            .map_err(StoreError::from)?;
        let guard = Guard::Free { rev: Rev(0) };
        self.storage.commit(guard, &encrypted).await
    }

    /// See [`ForeignTransactions::statement`]. `None`: this database has no such statement.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn statement(&self, transition: &Transition) -> Result<Option<SqlStatement>, StoreError> {
        let Some(foreign) = &self.foreign else {
            return Ok(None);
        };
        let encrypted = encrypt::transition(self.codec.as_deref(), transition)?;
        foreign
            .statement(encrypted.as_ref().unwrap_or(transition))
            .map(Some)
    }

    /// See [`Storage::heartbeat`](crate::ports::Storage::heartbeat).
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<Heartbeat, StoreError>> {
        self.storage.heartbeat(task, epoch, ttl)
    }

    /// See [`Storage::find`](crate::ports::Storage::find).
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn find<'a>(
        &'a self,
        what: &'a Find,
        limit: u32,
    ) -> BoxFuture<'a, Result<Vec<TaskHead>, StoreError>> {
        self.storage.find(what, limit)
    }

    /// See [`Touch::Reserve`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn reserve(&self, lost: &[TaskId], ttl: Duration) -> Result<Vec<TaskId>, StoreError> {
        self.touched(Touch::Reserve {
            lost: lost.to_vec(),
            ttl,
        })
        .await
    }

    /// See [`Touch::PutOff`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put_off(&self, tasks: &[TaskId], by: Duration) -> Result<Vec<TaskId>, StoreError> {
        self.touched(Touch::PutOff {
            tasks: tasks.to_vec(),
            by,
        })
        .await
    }

    async fn touched(&self, touch: Touch) -> Result<Vec<TaskId>, StoreError> {
        let touched = self.storage.touch(&touch).await?;
        Ok(touched.into_iter().map(|touched| touched.task).collect())
    }

    /// See [`Touch::Wake`]. `None`: it does not sleep.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn wake(&self, task: TaskId) -> Result<Option<Touched>, StoreError> {
        Ok(self.storage.touch(&Touch::Wake(task)).await?.pop())
    }

    /// Until when a reconciler has reserved a lost task; `None`: none has, or it is not lost any more. For people.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn reserved_until(&self, task: TaskId) -> Result<Option<DbTime>, StoreError> {
        let found = self.storage.find(&Find::Reserved(task), 1).await?;
        Ok(found.first().map(|head| head.since))
    }

    /// See [`Storage::list`](crate::ports::Storage::list).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list(&self, query: &TaskQuery) -> Result<TaskPage, StoreError> {
        if self.codec.is_some() && query.failure.text.is_some() {
            return self.search(query).await;
        }
        let mut page = self.storage.list(&TaskList::Page(query)).await?;
        self.decrypt_lines(&mut page.lines)?;
        Ok(page)
    }

    /// Audit entries and attempts of a task, all seen in one moment. Rows that cannot be read are left out.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn history(&self, task: TaskId) -> Result<History, StoreError> {
        let mut history = journal::history(&*self.storage, task).await?;
        let decrypt = self.decrypt(task, MissingKey::Refused);
        decrypt.audit(&mut history.audit)?;
        decrypt.attempts(&mut history.attempts)?;
        Ok(history)
    }

    /// See [`TaskList::These`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn lines(&self, tasks: &[TaskId]) -> Result<Vec<TaskLine>, StoreError> {
        let TaskPage { mut lines, .. } = self.storage.list(&TaskList::These(tasks)).await?;
        self.decrypt_lines(&mut lines)?;
        Ok(lines)
    }

    /// See [`Storage::documents`](crate::ports::Storage::documents).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn documents(&self, query: &DocumentQuery) -> Result<Documents, StoreError> {
        let mut found = self.storage.documents(query).await?;
        let kind = kind_of(query);
        for row in &mut found.rows {
            let Some(place) = encrypt::document_place(kind, &row.tenant, &row.name) else {
                break;
            };
            if !is_encrypted(&row.body) {
                continue;
            }
            let Some(codec) = &self.codec else { continue };
            // The reader of a row that stays as it is reports that it cannot be read, and continues with the
            // others.
            if let Ok(body) = codec.decrypt(&place, &row.body) {
                row.body = body;
            }
        }
        Ok(found)
    }

    /// See [`Storage::put`](crate::ports::Storage::put).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put(&self, writes: &[DocumentWrite]) -> Result<DocumentsPut, StoreError> {
        let Some(codec) = &self.codec else {
            return self.storage.put(writes).await;
        };
        let mut writes = writes.to_vec();
        for write in &mut writes {
            encrypt::document(codec.as_ref(), write)?;
        }
        self.storage.put(&writes).await
    }

    /// One document. Returns the database's now; `None`: it is not at the expected revision, and nothing was written.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put_document(&self, write: &DocumentWrite) -> Result<Option<DbTime>, StoreError> {
        match self.put(std::slice::from_ref(write)).await? {
            DocumentsPut::Written(now) => Ok(Some(now)),
            DocumentsPut::Refused(_) => Ok(None),
        }
    }

    /// See [`Storage::children`](crate::ports::Storage::children).
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError> {
        let mut children = self.storage.children(query).await?;
        for child in &mut children {
            self.failure(child.task, child.failure.as_mut())?;
        }
        Ok(children)
    }

    /// Tasks in any order; with [`LoadFor::State`] without what was handed in.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn records(
        &self,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<(TaskId, Result<TaskRecord, StoreError>)>, StoreError> {
        let loaded = self.storage.load(tasks, purpose).await?;
        let decrypted = |Loaded { mut record, .. }| {
            decrypt_record(self.payload_codec(), &mut record)?;
            Ok(record)
        };
        let records = loaded.into_iter();
        Ok(records
            .map(|(task, read)| (task, read.and_then(decrypted)))
            .collect())
    }
}

const fn kind_of(query: &DocumentQuery) -> DocumentKind {
    match query {
        DocumentQuery::Named { kind, .. }
        | DocumentQuery::Confirmed { kind, .. }
        | DocumentQuery::Page { kind, .. }
        | DocumentQuery::Due { kind, .. }
        | DocumentQuery::DueOf { kind, .. }
        | DocumentQuery::Latest { kind, .. } => *kind,
    }
}

//! The store on one SQLite file, which several processes of one machine may share.
//!
//! Owns the way from a port's call to one closure with a whole transaction in it; the queries lie
//! in a file for each table. Must not decide anything about a task.

mod audit;
mod children;
mod clock;
mod commit;
mod deleted;
mod documents;
mod empty_log;
mod failures;
pub(crate) mod fault;
mod file_use;
mod flow;
mod gauges;
mod idempotency;
mod journal;
mod label_names;
mod loads;
mod logs;
mod migrate;
mod outbox;
mod places;
pub(crate) mod pool;
pub(crate) mod prepared;
mod receives;
mod record;
mod retention;
mod revisions;
mod schema;
mod tasks;
mod unclaimed;
mod unclaimed_counts;
mod upkeep;
mod user_sql;
#[cfg(feature = "local-queue")]
pub(crate) mod waiting;
mod writer;

pub use clock::{MachineClock, SystemClocks};
pub use file_use::{UseError, wal_reset_bug};
pub use pool::{Database, OpenError, SqliteOptions};

use crate::finding::Finding;
use crate::outbox_holds::{RELAY_HOLD, UNREADABLE_HOLD, sort_out};
use async_trait::async_trait;
use counterstep_contracts::{Epoch, TaskId, Tenant};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    ChainRow, ChainTip, ChildLine, ChildQuery, CommitError, Committed, Count, Counted,
    DocumentQuery, DocumentWrite, Documents, DocumentsPut, Find, Heartbeat, IdempotencyRow,
    JournalPage, Lane, LoadFor, Loaded, LoadedTask, OutboxOp, OutboxRow, PlaceQuery, PlaceRow,
    Relatives, Revisions, RevisionsOf, Storage, Store, StoreError, TaskHead, TaskList, TaskPage,
    Touch, Touched,
};
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;
use fault::{Fault, micros};
use loads::Loads;
use pool::Durability;
use record::read_task;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The store on one SQLite file. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    database: Database,
    loads: Loads<(TaskId, LoadFor), Option<Loaded>>,
    successors: Loads<(Tenant, TaskId), Vec<TaskId>>,
}

impl SqliteStore {
    /// Opens a file, makes it where there is none, and brings its schema up to date.
    ///
    /// # Errors
    /// [`OpenError`]; a file that a newer program has changed is refused and stays as it is.
    pub async fn open(path: &Path, options: SqliteOptions) -> Result<Self, OpenError> {
        Ok(Self::on(Database::open(path, &options).await?, &options))
    }

    /// A database in memory, or another process's part of one that is there, by its name: for simulations. It is gone with
    /// the last store on it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn in_memory(name: &str, options: SqliteOptions) -> Result<Self, OpenError> {
        Ok(Self::on(
            Database::in_memory(name, &options).await?,
            &options,
        ))
    }

    /// A file as it is, for looking only: neither it nor its schema is made or changed. What the
    /// schema does not have yet cannot be asked for.
    ///
    /// # Errors
    /// [`OpenError::Path`] where there is no such file.
    pub fn look(path: &Path, options: &SqliteOptions) -> Result<Self, OpenError> {
        if !path.is_file() {
            return Err(OpenError::Path(path.to_owned()));
        }
        Ok(Self::on(Database::as_it_is(path, options)?, options))
    }

    /// What an operator should know about the file; empty: nothing that can be seen in it.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be read.
    pub async fn examine(&self) -> Result<Vec<Finding>, StoreError> {
        let read = |file: &mut SqliteConnection| Ok::<_, Fault>(deleted::examine(file)?);
        Ok(self.database.read(read).await?)
    }

    fn on(database: Database, options: &SqliteOptions) -> Self {
        let (file, wait) = (database.clone(), options.wait);
        Self {
            loads: Loads::new(file.clone(), wait, loads::WIDTH, |file, now, of| {
                let (task, purpose) = *of;
                read_task(file, now, task, purpose)
            }),
            successors: Loads::new(file, wait, 1, |file, _, of| tasks::successors(file, of)),
            database,
        }
    }

    /// The connections, for the queue on the same file.
    #[must_use]
    pub fn database(&self) -> Database {
        self.database.clone()
    }
}

#[async_trait]
impl Storage for SqliteStore {
    async fn load(
        &self,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        if let (&[task], LoadFor::Look | LoadFor::Run) = (tasks, purpose) {
            let found = self.loads.of((task, purpose)).await?;
            return Ok(found.map(|found| (task, Ok(found))).into_iter().collect());
        }
        let tasks = tasks.to_vec();
        let read = move |connection: &mut SqliteConnection, now| {
            let one = |task| {
                let read = read_task(connection, now, task, purpose).transpose()?;
                Some((task, read.map_err(StoreError::from)))
            };
            Ok(tasks.into_iter().filter_map(one).collect())
        };
        Ok(self.database.read_at(read).await?)
    }

    async fn commit(
        &self,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        let changes = changes.to_vec();
        let own = changes.iter().any(|change| !change.sql.is_empty());
        let write = move |connection: &mut SqliteConnection, now| {
            for change in &changes {
                commit::write(connection, now, guard, change)?;
            }
            Ok(Committed { now: DbTime(now) })
        };
        if own {
            let written = self.database.write_alone(Durability::Full, write).await;
            return Ok(written.map_err(user_sql::of_the_commit)?);
        }
        Ok(self.database.write(Durability::Full, write).await?)
    }

    async fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        let prolong = move |connection: &mut SqliteConnection, now| {
            let held = tasks::prolong(connection, task, epoch, now + micros(ttl))?;
            Ok(held.map_or(Heartbeat::Lost, |at| Heartbeat::Held {
                cancel_requested: at.is_some(),
            }))
        };
        Ok(self.database.write(Durability::Relaxed, prolong).await?)
    }

    async fn find(&self, what: &Find, limit: u32) -> Result<Vec<TaskHead>, StoreError> {
        let what = what.clone();
        let find = move |connection: &mut SqliteConnection, now| {
            tasks::find(connection, now, &what, limit)
        };
        Ok(self.database.read_at(find).await?)
    }

    async fn touch(&self, touch: &Touch) -> Result<Vec<Touched>, StoreError> {
        let touch = touch.clone();
        let write =
            move |connection: &mut SqliteConnection, now| tasks::touch(connection, &touch, now);
        Ok(self.database.write(Durability::Relaxed, write).await?)
    }

    async fn list(&self, what: &TaskList<'_>) -> Result<TaskPage, StoreError> {
        Ok(match *what {
            TaskList::Page(query) => {
                let query = query.clone();
                let list = move |connection: &mut SqliteConnection| tasks::list(connection, &query);
                self.database.list(list).await?
            }
            TaskList::These(tasks) => {
                let ids = tasks.to_vec();
                let lines = move |connection: &mut SqliteConnection| tasks::lines(connection, &ids);
                TaskPage {
                    lines: self.database.list(lines).await?,
                    looked_to: None,
                }
            }
        })
    }

    async fn count(&self, what: Count) -> Result<Counted, StoreError> {
        let database = &self.database;
        Ok(match what {
            Count::InFlight => Counted::InFlight(database.list(tasks::in_flight).await?),
            Count::Gauges(labels) => {
                let read = database.list_at(move |file, now| gauges::read(file, now, &labels));
                Counted::Gauges(read.await?)
            }
            Count::Flow(query) => {
                Counted::Flow(database.list(move |file| flow::count(file, &query)).await?)
            }
            Count::Children(parent) => {
                let count = database.read(move |file| children::counts(file, parent));
                Counted::Children(count.await?)
            }
            Count::Places { after, limit } => {
                let count = move |file: &mut SqliteConnection| {
                    places::counts(file, after.as_deref(), limit)
                };
                Counted::Places(database.list(count).await?)
            }
            Count::Failures(query) => {
                let count = database.read_at(move |file, now| failures::count(file, &query, now));
                Counted::Failures(count.await?)
            }
            Count::FailingTenants { task_type, within } => {
                let find = database.read_at(move |file, now| {
                    failures::tenants(file, &task_type, now - micros(within))
                });
                Counted::FailingTenants(find.await?)
            }
            Count::Labels(query) => {
                let read = database.list(move |file| label_names::read(file, &query));
                Counted::Labels(read.await?)
            }
            Count::Waiting(query) => {
                let count = database.read(move |file| unclaimed_counts::count(file, &query));
                Counted::Waiting(count.await?)
            }
        })
    }

    async fn journal(&self, page: &JournalPage) -> Result<Vec<ChainRow>, StoreError> {
        let (page, lane) = (page.clone(), page.lane);
        let read = move |connection: &mut SqliteConnection| Ok(audit::rows(connection, &page)?);
        Ok(match lane {
            Lane::Engine => self.database.read(read).await?,
            Lane::People => self.database.list(read).await?,
        })
    }

    async fn chain_tips(&self, page: &JournalPage) -> Result<Vec<ChainTip>, StoreError> {
        let page = page.clone();
        Ok(self
            .database
            .list(move |connection| Ok(audit::chain_tips(connection, &page)?))
            .await?)
    }

    async fn revisions(&self, of: &RevisionsOf) -> Result<Revisions, StoreError> {
        let of = of.clone();
        let read = move |connection: &mut SqliteConnection, now| {
            let tasks = revisions::of(connection, &of)?;
            let now = DbTime(now);
            Ok(Revisions { now, tasks })
        };
        Ok(self.database.list_at(read).await?)
    }

    async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError> {
        // A deletion that is lost in a power cut means one more publication of the same events.
        let work = move |connection: &mut SqliteConnection, now| work_outbox(connection, now, &op);
        Ok(self.database.write(Durability::Relaxed, work).await?)
    }

    async fn idempotency(
        &self,
        tenant: &Tenant,
        key: &str,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        let (tenant, key) = (tenant.clone(), key.to_owned());
        let find = move |connection: &mut SqliteConnection, now| {
            idempotency::find(connection, &tenant, &key, now)
        };
        Ok(self.database.read_at(find).await?)
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Documents, StoreError> {
        let (query, is_list) = (query.clone(), query.is_list());
        let find =
            move |connection: &mut SqliteConnection, now| documents::find(connection, &query, now);
        Ok(match is_list {
            true => self.database.list_at(find).await?,
            false => self.database.read_at(find).await?,
        })
    }

    async fn put(&self, writes: &[DocumentWrite]) -> Result<DocumentsPut, StoreError> {
        let durability = if writes.iter().any(|write| write.kind.is_durable()) {
            Durability::Full
        } else {
            Durability::Relaxed
        };
        let writes = writes.to_vec();
        let refused = Arc::new(AtomicUsize::new(0));
        let at = refused.clone();
        let put = move |connection: &mut SqliteConnection, now| {
            for (place, write) in writes.iter().enumerate() {
                if !documents::put(connection, write, now)? {
                    at.store(place, Ordering::Relaxed);
                    return Err(CommitError::Moved.into());
                }
            }
            Ok(DocumentsPut::Written(DbTime(now)))
        };
        match self.database.write(durability, put).await {
            Err(Fault::Refused(CommitError::Moved)) => {
                Ok(DocumentsPut::Refused(refused.load(Ordering::Relaxed)))
            }
            put => Ok(put?),
        }
    }

    async fn relatives(&self, of: &Relatives<'_>) -> Result<Vec<TaskId>, StoreError> {
        match *of {
            Relatives::SuccessorsOf(tenant, task) => {
                self.successors.of((tenant.clone(), task)).await
            }
            Relatives::Above(tasks) => {
                let ids = tasks::id_list(tasks);
                let above =
                    move |connection: &mut SqliteConnection| children::above(connection, &ids);
                Ok(self.database.read(above).await?)
            }
        }
    }

    async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError> {
        let query = query.clone();
        let page = move |connection: &mut SqliteConnection| children::page(connection, &query);
        Ok(self.database.read(page).await?)
    }

    async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError> {
        let query = query.clone();
        let read = move |connection: &mut SqliteConnection, _| places::find(connection, &query);
        Ok(self.database.read_at(read).await?)
    }
}

impl From<SqliteStore> for Store {
    fn from(store: SqliteStore) -> Self {
        Self::new(Arc::new(store))
    }
}

fn work_outbox(
    connection: &mut SqliteConnection,
    now: i64,
    op: &OutboxOp,
) -> Result<Vec<OutboxRow>, Fault> {
    let mut taken = Vec::new();
    match op {
        OutboxOp::Take { older_than, limit } => {
            let rows = outbox::to_relay(connection, now - micros(*older_than), now, *limit)?;
            let (read, unreadable) = sort_out(rows);
            let read_ids = read.iter().map(|row| (row.id, RELAY_HOLD));
            let others = unreadable.into_iter().map(|id| (id, UNREADABLE_HOLD));
            for (id, hold) in read_ids.chain(others) {
                outbox::hide(connection, id, now + micros(hold))?;
            }
            taken = read;
        }
        OutboxOp::Published(ids) => {
            for id in ids {
                outbox::delete(connection, *id)?;
            }
        }
        OutboxOp::PublishedOf(changes) => {
            for change in changes {
                outbox::delete_of(connection, *change)?;
            }
        }
    }
    Ok(taken)
}

//! The store on PostgreSQL, for any number of processes on any number of machines.
//!
//! Owns the way from a port's call to one statement, which is a transaction of its own; the
//! statements lie in a file for each table. Must not decide anything about a task.

mod audit;
mod batches;
mod children;
mod commit;
mod connection;
pub mod doctor;
mod documents;
mod failures;
mod fault;
mod find;
mod flow;
mod gauges;
mod idempotency;
mod journal;
mod label_names;
mod lease_heartbeats;
mod lists;
mod logs;
mod migrate;
mod options;
mod outbox;
mod places;
mod pool;
mod receives;
mod retention;
mod revisions;
mod row;
mod servers;
mod statement;
mod statement_of_texts;
mod states;
mod table_rights;
mod tasks;
mod touch;
mod unclaimed_counts;
mod upkeep;
mod user_sql;

pub use options::{OpenError, PostgresOptions};

use crate::outbox_holds::{RELAY_HOLD, UNREADABLE_HOLD};
use crate::rows::{
    self, ChainRead, ChildCountRow, ChildRow, DocumentRow, GaugeRow, HeadRow, InFlightRow, KeyRow,
    LineRow, ParkedRow, PlaceCountRow, PlaceRead, RevisionRow, Time, TipRow, TouchedRow, each,
    readable,
};
use async_trait::async_trait;
use batches::Batches;
use counterstep_contracts::{Epoch, TaskId, Tenant};
use counterstep_kernel::change::transition::{Guard, Transition};
use counterstep_kernel::ports::{
    ChainRow, ChainTip, ChildLine, ChildQuery, CommitError, Committed, Count, Counted,
    DocumentQuery, DocumentWrite, Documents, DocumentsPut, Find, ForeignTransactions, Gauges,
    Heartbeat, IdempotencyRow, JournalPage, Lane, LoadFor, LoadedTask, OutboxOp, OutboxRow,
    PlaceQuery, PlaceRow, Relatives, Revisions, RevisionsOf, ServerInUse, SqlStatement, Storage,
    Store, StoreError, TaskHead, TaskList, TaskPage, Touch, Touched,
};
use counterstep_steps::times::DbTime;
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types as sql;
use fault::{Fault, name};
use futures::future::BoxFuture;
use options::Target;
use pool::Database;
use servers::Servers;
use statement::{Statement, clocked, time, values};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use uuid::Uuid;

/// Time limit of the first answer, however long a statement may take later: a program that starts reports
/// within ten seconds that its server does not answer.
const FIRST_ANSWER: Duration = Duration::from_secs(8);

/// Maximum number of connections for lists.
const MOST_TO_LIST: usize = 4;

/// Maximum number of connections for counts of waiting tasks.
const MOST_TO_COUNT: usize = 2;

/// Connections for heartbeats alone, where the pool has at least `ENOUGH`.
const TO_BEAT: usize = 2;
const ENOUGH: usize = 8;

/// The store on one PostgreSQL database. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PostgresStore {
    database: Database,
    /// For lists and counts, which people ask for and which may take long: however many ask, those
    /// who change a task have connections left. What the engine itself waits for is never read
    /// here.
    lists: Database,
    batches: Batches,
    /// Permits for counts of waiting tasks: a count has a short timeout, and a slow server may still be
    /// working on it.
    counts: Arc<Semaphore>,
    /// Of all.
    connections: usize,
    servers: Servers,
    /// Not behind a pooler, as far as the options say.
    direct: bool,
}

impl PostgresStore {
    /// Connects, and checks that the schema is that of this program. Changes nothing.
    ///
    /// `url`: `postgres://user:password@host:port/database`, with `?sslmode=verify-full` for TLS.
    ///
    /// # Errors
    /// [`OpenError`]: a server on another machine without TLS, unless the options allow it; a
    /// schema that is older or newer than this program; a server that does not answer.
    pub fn open(
        url: &str,
        options: PostgresOptions,
    ) -> BoxFuture<'static, Result<Self, OpenError>> {
        let target = Target::of(url, &options);
        Box::pin(async move {
            let target = target?;
            let limit = (options.connect_timeout + options.statement_timeout).min(FIRST_ANSWER);
            let looked = tokio::time::timeout(limit, migrate::check(&target)).await;
            looked.map_err(|_| target.silent(limit))??;
            Self::on(target, &options)
        })
    }

    fn on(target: Target, options: &PostgresOptions) -> Result<Self, OpenError> {
        let (connections, direct) = (options.connections.max(1), options.prepared_statements);
        let to_list = match connections {
            1 => 0,
            some => (some / 5).clamp(1, MOST_TO_LIST),
        };
        let to_beat = if connections < ENOUGH { 0 } else { TO_BEAT };
        let database = Database::new(target.clone(), options, connections - to_list - to_beat)?;
        let own = |connections| match connections {
            0 => Ok(database.clone()),
            some => Database::new(target.clone(), options, some),
        };
        Ok(Self {
            batches: Batches::new(database.clone(), own(to_beat)?, options),
            lists: own(to_list)?,
            counts: Arc::new(Semaphore::new(MOST_TO_COUNT)),
            servers: target.servers.clone(),
            database,
            connections,
            direct,
        })
    }

    /// A database as it is, for looking only: its schema may be older or newer. What it does not
    /// have cannot be asked for.
    ///
    /// # Errors
    /// [`OpenError`], for settings that cannot be used; a server that does not answer is found out
    /// by the first query.
    pub fn look(url: &str, options: &PostgresOptions) -> Result<Self, OpenError> {
        Self::on(Target::of(url, options)?, options)
    }

    /// Which of these rights on tables of the user's own the roles lack, as text, with the grants; without roles
    /// that are there: the role of this connection.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the server does not answer.
    pub fn missing_table_rights<'a>(
        &'a self,
        rights: &'a [(String, &'static str)],
        roles: &'a [&'a str],
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        Box::pin(async move {
            if rights.is_empty() {
                return Ok(Vec::new());
            }
            let missing = self
                .database
                .read(table_rights::missing(rights, roles)?)
                .await?;
            Ok(table_rights::in_words(&missing))
        })
    }

    /// Whether the role of this connection sees the API keys. The policies of `deploy/postgres/roles.sql` hide them from most, and
    /// what is hidden looks as if it were not there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] where the server does not answer.
    pub fn sees_api_keys(&self) -> BoxFuture<'_, Result<bool, StoreError>> {
        const QUESTION: &str = "SELECT NOT row_security_active('documents') OR EXISTS (SELECT FROM pg_policies p \
             WHERE p.tablename = 'documents' AND p.permissive = 'PERMISSIVE' AND p.qual = 'true' \
             AND EXISTS (SELECT FROM unnest(p.roles) AS role WHERE role = 'public' OR pg_has_role(role, 'USAGE')))";
        Box::pin(async move {
            let question: Statement<'static, sql::Bool> = Statement::of(QUESTION, values![]);
            let answers: Vec<bool> = self.database.read(question).await?;
            Ok(answers.contains(&true))
        })
    }

    /// Brings the schema up to date, with a role that may change it. Several may do so at once: one
    /// does the work.
    ///
    /// # Errors
    /// [`OpenError`]; a database that a newer program has changed is refused and stays as it is.
    pub fn migrate(
        url: &str,
        options: &PostgresOptions,
    ) -> BoxFuture<'static, Result<(), OpenError>> {
        let target = Target::of(url, options);
        Box::pin(async move { migrate::run(&target?).await })
    }
}

/// The number that was counted.
fn number(counted: &[i64]) -> u32 {
    let counted = counted.first().copied().unwrap_or_default();
    u32::try_from(counted).unwrap_or(u32::MAX)
}

#[async_trait]
impl Storage for PostgresStore {
    async fn load(
        &self,
        tasks: &[TaskId],
        purpose: LoadFor,
    ) -> Result<Vec<LoadedTask>, StoreError> {
        self.batches.load(tasks, purpose).await
    }

    async fn commit(
        &self,
        guard: Guard,
        changes: &[Arc<Transition>],
    ) -> Result<Committed, CommitError> {
        match changes {
            [one] => self.batches.commit(guard, one).await,
            all => self.batches.commit_all(all).await,
        }
    }

    async fn heartbeat(
        &self,
        task: TaskId,
        epoch: Epoch,
        ttl: Duration,
    ) -> Result<Heartbeat, StoreError> {
        self.batches.heartbeat(task, epoch, ttl).await
    }

    async fn find(&self, what: &Find, limit: u32) -> Result<Vec<TaskHead>, StoreError> {
        let rows = self.database.read(find::find(what, limit)?).await?;
        Ok(readable(rows, "a task that was found", HeadRow::decode))
    }

    async fn touch(&self, touch: &Touch) -> Result<Vec<Touched>, StoreError> {
        let statement = touch::touch(touch);
        let rows = match touch {
            Touch::Reserve { .. } => {
                let reserved = self.database.relaxed(statement).await;
                reserved.map_err(Fault::of_a_read)?
            }
            Touch::PutOff { .. } | Touch::Wake(_) => self.database.rows(statement).await?,
        };
        Ok(each(rows, TouchedRow::decode)?)
    }

    async fn list(&self, what: &TaskList<'_>) -> Result<TaskPage, StoreError> {
        let query = match what {
            TaskList::Page(query) => query,
            TaskList::These(tasks) => {
                let rows = self.lists.read(lists::of_tasks(tasks)).await?;
                return Ok(TaskPage {
                    lines: readable(rows, "a task of a list", LineRow::decode),
                    looked_to: None,
                });
            }
        };
        let (rows, looked_to): (Vec<LineRow>, _) = if query.searches() {
            let mut found: Vec<Uuid> = self.lists.read(lists::candidates(query)?).await?;
            let last = found.last().copied().map(TaskId);
            let is_full = found.len() >= usize::try_from(query.candidates()).unwrap_or(usize::MAX);
            found.retain(|id| query.has_ending(TaskId(*id)));
            let rows = self
                .lists
                .read(lists::those_that_fit(query, found)?)
                .await?;
            (rows, last.filter(|_| is_full))
        } else {
            (self.lists.read(lists::list(query)?).await?, None)
        };
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        // The server gave no more than this, so what comes behind the last row was not looked at,
        // also where rows in between cannot be read.
        let cut_at = rows
            .get(limit.wrapping_sub(1))
            .and_then(|row| row.id.0.clone().ok());
        let looked_to = match (&query.failure.text, cut_at) {
            (None, Some(last)) => Some(last),
            _ => looked_to,
        };
        let mut lines = readable(rows, "a task of a list", LineRow::decode);
        lines.retain(|line| query.failure.fits(line.failure.as_ref()));
        lines.truncate(limit);
        let looked_to = looked_to.filter(|_| lines.len() < limit);
        Ok(TaskPage { lines, looked_to })
    }

    async fn count(&self, what: Count) -> Result<Counted, StoreError> {
        Ok(match what {
            Count::InFlight => {
                let rows = self.lists.read(find::in_flight()).await?;
                Counted::InFlight(each(rows, InFlightRow::decode)?)
            }
            Count::Gauges(labels) => {
                let rows: Vec<(Time, Option<Time>, Option<GaugeRow>)> =
                    self.lists.read(gauges::read(&labels)).await?;
                let parked: Vec<(ParkedRow, Time)> = self.lists.read(gauges::parked()).await?;
                let (now, unpublished) = rows
                    .first()
                    .map_or((DbTime(0), None), |row| (row.0.0, row.1));
                let counts = rows.into_iter().filter_map(|row| row.2).collect();
                Counted::Gauges(Gauges {
                    parked: each(parked, |(row, now)| row.decode(now.0))?,
                    ..rows::gauges(counts, &labels, now, unpublished)?
                })
            }
            Count::Flow(query) => {
                let rows = self.lists.read(flow::count(&query)).await?;
                Counted::Flow(rows::flow(rows)?)
            }
            Count::Children(parent) => {
                let rows = self.database.read(children::counts(parent)).await?;
                Counted::Children(each(rows, ChildCountRow::decode)?)
            }
            Count::Places { after, limit } => {
                let counts = places::counts(after.as_deref(), limit)?;
                Counted::Places(each(self.lists.read(counts).await?, PlaceCountRow::decode)?)
            }
            Count::Failures(query) => {
                let counted = self.database.read(failures::count(&query)?).await?;
                Counted::Failures(number(&counted))
            }
            Count::FailingTenants { task_type, within } => {
                let tenants = failures::tenants(&task_type, within)?;
                let found: Vec<String> = self.database.read(tenants).await?;
                Counted::FailingTenants(found.into_iter().map(Tenant).collect())
            }
            Count::Labels(query) => {
                Counted::Labels(self.lists.read(label_names::read(&query)?).await?)
            }
            Count::Waiting(query) => {
                let count = unclaimed_counts::count(&query)?;
                let place = self.counts.clone().acquire_owned().await.ok();
                Counted::Waiting(number(&self.database.read_in(place, count).await?))
            }
        })
    }

    async fn journal(&self, page: &JournalPage) -> Result<Vec<ChainRow>, StoreError> {
        let of = match page.lane {
            Lane::Engine => &self.database,
            Lane::People => &self.lists,
        };
        let rows: Vec<ChainRead> = of.read(audit::rows(page)?).await?;
        Ok(rows.into_iter().map(ChainRead::decode).collect())
    }

    async fn chain_tips(&self, page: &JournalPage) -> Result<Vec<ChainTip>, StoreError> {
        let rows: Vec<TipRow> = self.lists.read(audit::chain_tips(page)?).await?;
        Ok(rows.into_iter().map(TipRow::decode).collect())
    }

    async fn revisions(&self, of: &RevisionsOf) -> Result<Revisions, StoreError> {
        let (now, rows) = clocked(self.lists.read(revisions::of(of)?).await?);
        let mut tasks = each(rows, RevisionRow::decode)?;
        // The server owes no order to the halves of a union.
        tasks.sort_unstable_by_key(|found| (found.at, found.task));
        Ok(Revisions { now, tasks })
    }

    async fn outbox(&self, op: OutboxOp) -> Result<Vec<OutboxRow>, StoreError> {
        match op {
            OutboxOp::Take { older_than, limit } => {
                let rows = self
                    .database
                    .rows(outbox::take(older_than, RELAY_HOLD, limit))
                    .await?;
                let (taken, unreadable) = outbox::decode_all(rows);
                if !unreadable.is_empty() {
                    let hide = outbox::hide(unreadable, UNREADABLE_HOLD);
                    // Without it they are hidden as long as the others.
                    if let Err(fault) = self.database.rows::<_, i64>(hide).await {
                        tracing::warn!(?fault, "events that cannot be read stay in line");
                    }
                }
                return Ok(taken);
            }
            OutboxOp::Published(ids) => {
                self.database.relaxed::<_, i64>(outbox::delete(ids)).await?;
            }
            OutboxOp::PublishedOf(changes) => {
                self.database
                    .relaxed::<_, i64>(outbox::delete_of(&changes))
                    .await?;
            }
        }
        Ok(Vec::new())
    }

    async fn idempotency(
        &self,
        tenant: &Tenant,
        key: &str,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        name("idempotency.tenant", &tenant.0)?;
        name("idempotency.key", key)?;
        let find = idempotency::find(tenant, key);
        let rows: Vec<KeyRow> = self.database.confirmed(find).await?;
        Ok(each(rows, KeyRow::decode)?.pop())
    }

    async fn documents(&self, query: &DocumentQuery) -> Result<Documents, StoreError> {
        let of = match query.is_list() {
            true => &self.lists,
            false => &self.database,
        };
        let (now, rows) = clocked(of.read(documents::find(query)?).await?);
        let rows = rows.into_iter().map(DocumentRow::decode).collect();
        Ok(Documents { now, rows })
    }

    async fn put(&self, writes: &[DocumentWrite]) -> Result<DocumentsPut, StoreError> {
        let is_durable = writes.iter().any(|write| write.kind.is_durable());
        // One statement, and one round trip.
        if let [write] = writes {
            let put = documents::put(write, is_durable)?;
            let written: Vec<PgTimestamp> = match is_durable {
                true => self.database.rows(put).await?,
                false => self.database.relaxed(put).await?,
            };
            return Ok(match written.first() {
                Some(now) => DocumentsPut::Written(time(*now)),
                None => DocumentsPut::Refused(0),
            });
        }
        let lent = self.database.lend().await?;
        let written = user_sql::put_documents(&lent, writes, is_durable).await;
        Ok(lent.settle(written)?)
    }

    async fn relatives(&self, of: &Relatives<'_>) -> Result<Vec<TaskId>, StoreError> {
        match *of {
            Relatives::SuccessorsOf(tenant, task) => self.batches.successors(tenant, task).await,
            Relatives::Above(tasks) => {
                let ids: Vec<Uuid> = self.database.read(children::above(tasks)).await?;
                Ok(ids.into_iter().map(TaskId).collect())
            }
        }
    }

    async fn children(&self, query: &ChildQuery) -> Result<Vec<ChildLine>, StoreError> {
        let rows = self.database.read(children::page(query)).await?;
        Ok(each(rows, ChildRow::decode)?)
    }

    async fn places(&self, query: &PlaceQuery) -> Result<Vec<PlaceRow>, StoreError> {
        let rows = self.database.read(places::find(query)?).await?;
        Ok(each(rows, PlaceRead::decode)?)
    }

    fn server_in_use(&self) -> Option<ServerInUse> {
        self.servers.in_use()
    }
}

impl From<PostgresStore> for Store {
    fn from(store: PostgresStore) -> Self {
        Self::new(Arc::new(store.clone())).with_foreign(Arc::new(store))
    }
}

impl ForeignTransactions for PostgresStore {
    fn statement(&self, first: &Transition) -> Result<SqlStatement, StoreError> {
        Ok(commit::statement(first)?)
    }
}

//! Queries on the table `tasks`. Must not judge a change: what it is handed is written.

use super::fault::{
    Care, Fault, Instead, count, goal, micros, parse, parse_some, read_json, read_some_json,
    write_json,
};
use super::prepared::{Prepare, Statement};
use super::schema::tasks;
use counterstep_contracts::{AuditSeq, Epoch, QueueName, Rev, TaskId, TaskStatus, Tenant};
use counterstep_kernel::audit::Seal;
use counterstep_kernel::ports::{DueTask, InFlight, KnownType, Lost, LostOf, TaskLine, TaskQuery};
use counterstep_kernel::record::{DbTime, TaskRow};
use diesel::SqliteConnection;
use diesel::connection::DefaultLoadingMode;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};
use serde_json::Value;

/// A row, column by column.
#[derive(Debug, Clone, Queryable, Selectable, Insertable)]
#[diesel(table_name = tasks, check_for_backend(diesel::sqlite::Sqlite))]
pub(super) struct Columns {
    pub(super) id: String,
    pub(super) tenant: String,
    pub(super) task_type: String,
    pub(super) version: i64,
    pub(super) definition_hash: String,
    pub(super) status: String,
    pub(super) waiting: Option<String>,
    pub(super) host: String,
    pub(super) queue: String,
    pub(super) rev: i64,
    pub(super) epoch: i64,
    pub(super) lease_owner: Option<String>,
    pub(super) lease_expires_at: Option<i64>,
    pub(super) due_at: Option<i64>,
    pub(super) deadline_at: Option<i64>,
    pub(super) cancel_requested_at: Option<i64>,
    pub(super) goal: Option<String>,
    pub(super) recovery_attempts: i64,
    pub(super) audit_seq: i64,
    pub(super) audit_seal: Option<Vec<u8>>,
    pub(super) failure: Option<String>,
    pub(super) residue: bool,
    pub(super) traceparent: Option<String>,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    pub(super) finished_at: Option<i64>,
    pub(super) sweep_at: Option<i64>,
    pub(super) change_id: String,
}

impl Columns {
    /// The columns of a row, its times included.
    pub(super) fn encode(row: &TaskRow) -> Result<Self, Fault> {
        let micros = |time: Option<DbTime>| time.map(|time| time.0);
        Ok(Self {
            id: row.id.to_string(),
            tenant: row.tenant.0.clone(),
            task_type: row.task_type.clone(),
            version: row.version.into(),
            definition_hash: row.definition_hash.clone(),
            status: row.status.as_str().to_owned(),
            waiting: row.waiting.map(|reason| reason.as_str().to_owned()),
            host: row.host.as_str().to_owned(),
            queue: row.queue.clone(),
            rev: row.rev.0,
            epoch: row.epoch.0,
            lease_owner: row.lease_owner.clone(),
            lease_expires_at: micros(row.lease_expires_at),
            due_at: micros(row.due_at),
            deadline_at: micros(row.deadline_at),
            cancel_requested_at: micros(row.cancel_requested_at),
            goal: row.goal.map(|goal| goal.status().as_str().to_owned()),
            recovery_attempts: row.recovery_attempts.into(),
            audit_seq: row.audit_seq.0,
            audit_seal: row.audit_seal.as_ref().map(|seal| seal.0.clone()),
            failure: row.failure.as_ref().map(write_json).transpose()?,
            residue: row.residue,
            traceparent: row.traceparent.clone(),
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
            finished_at: micros(row.finished_at),
            sweep_at: micros(row.sweep_at),
            change_id: row.change_id.to_string(),
        })
    }

    /// The row that the columns say, without what its journal alone says.
    pub(super) fn decode(self, instead: Instead, care: &mut Care) -> Result<TaskRow, Fault> {
        let instead_goal = instead.goal(self.cancel_requested_at.is_some());
        Ok(TaskRow {
            id: parse("id", &self.id)?,
            tenant: Tenant(self.tenant),
            task_type: self.task_type,
            version: count("version", self.version)?,
            definition_hash: self.definition_hash,
            status: parse("status", &self.status)?,
            waiting: care.or(
                parse_some("waiting", self.waiting.as_deref()),
                instead.waiting,
            )?,
            host: parse("host", &self.host)?,
            queue: self.queue,
            rev: Rev(self.rev),
            epoch: Epoch(self.epoch),
            lease_owner: self.lease_owner,
            lease_expires_at: self.lease_expires_at.map(DbTime),
            due_at: self.due_at.map(DbTime),
            deadline_at: self.deadline_at.map(DbTime),
            cancel_requested_at: self.cancel_requested_at.map(DbTime),
            goal: care.or(goal(self.goal.as_deref()), instead_goal)?,
            recovery_attempts: count("recovery_attempts", self.recovery_attempts)?,
            audit_seq: AuditSeq(self.audit_seq),
            audit_seal: self.audit_seal.map(Seal),
            request: Value::Null,
            response: None,
            failure: care.or(
                read_some_json("failure", self.failure.as_deref()),
                instead.failure,
            )?,
            residue: self.residue,
            traceparent: self.traceparent,
            created_at: DbTime(self.created_at),
            updated_at: DbTime(self.updated_at),
            finished_at: self.finished_at.map(DbTime),
            sweep_at: self.sweep_at.map(DbTime),
            change_id: parse("change_id", &self.change_id)?,
        })
    }
}

/// What a guard and the times of a change are compared with.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = tasks, check_for_backend(diesel::sqlite::Sqlite))]
pub(super) struct Head {
    pub(super) rev: i64,
    pub(super) epoch: i64,
    pub(super) lease_owner: Option<String>,
    pub(super) lease_expires_at: Option<i64>,
    pub(super) due_at: Option<i64>,
    pub(super) deadline_at: Option<i64>,
    pub(super) cancel_requested_at: Option<i64>,
    pub(super) created_at: i64,
    pub(super) finished_at: Option<i64>,
}

pub(super) fn head(connection: &mut SqliteConnection, task: TaskId) -> QueryResult<Option<Head>> {
    tasks::table
        .find(task.to_string())
        .select(Head::as_select())
        .first(connection)
        .optional()
}

/// A task's row.
pub(super) fn load(
    connection: &mut SqliteConnection,
    task: TaskId,
) -> QueryResult<Option<Columns>> {
    tasks::table
        .find(task.to_string())
        .select(Columns::as_select())
        .first(connection)
        .optional()
}

pub(super) fn insert(connection: &mut SqliteConnection, row: &Columns) -> QueryResult<()> {
    diesel::insert_into(tasks::table)
        .values(row)
        .execute(connection)
        .map(drop)
}

/// The guard was checked in the same transaction, which holds the write lock: nobody can have come
/// between. What never changes after the submission is not written again.
pub(super) fn update(connection: &mut SqliteConnection, row: &Columns) -> QueryResult<()> {
    let text = "UPDATE tasks SET status = ?, waiting = ?, host = ?, queue = ?, rev = ?, epoch = ?, lease_owner = ?,
        lease_expires_at = ?, due_at = ?, deadline_at = ?, cancel_requested_at = ?, goal = ?, recovery_attempts = ?,
        audit_seq = ?, audit_seal = ?, failure = ?, updated_at = ?, finished_at = ?, sweep_at = ?, residue = ?,
        change_id = ? WHERE id = ?";
    let values = [
        (&row.status).into(),
        (&row.waiting).into(),
        (&row.host).into(),
        (&row.queue).into(),
        row.rev.into(),
        row.epoch.into(),
        (&row.lease_owner).into(),
        row.lease_expires_at.into(),
        row.due_at.into(),
        row.deadline_at.into(),
        row.cancel_requested_at.into(),
        (&row.goal).into(),
        row.recovery_attempts.into(),
        row.audit_seq.into(),
        (&row.audit_seal).into(),
        (&row.failure).into(),
        row.updated_at.into(),
        row.finished_at.into(),
        row.sweep_at.into(),
        row.residue.into(),
        (&row.change_id).into(),
        (&row.id).into(),
    ];
    Statement { text, values }.execute(connection).map(drop)
}

/// Prolongs a lease; gives `cancel_requested_at` back, or `None` where the epoch has moved on.
pub(super) fn prolong(
    connection: &mut SqliteConnection,
    task: TaskId,
    epoch: Epoch,
    until: i64,
) -> QueryResult<Option<Option<i64>>> {
    let held = tasks::table
        .find(task.to_string())
        .filter(tasks::epoch.eq(epoch.0))
        .filter(tasks::lease_owner.is_not_null());
    diesel::update(held)
        .set(tasks::lease_expires_at.eq(until))
        .returning(tasks::cancel_requested_at)
        .prepared()
        .get_result(connection)
        .optional()
}

/// A line of a due query, and since when it has been due.
#[derive(Debug, QueryableByName)]
pub(super) struct DueLine {
    #[diesel(sql_type = BigInt)]
    pub(super) since: i64,
    #[diesel(sql_type = Text)]
    pub(super) id: String,
    #[diesel(sql_type = Text)]
    task_type: String,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Text)]
    status: String,
}

impl DueLine {
    pub(super) fn decode(self) -> Result<DueTask, Fault> {
        Ok(DueTask {
            task: parse("id", &self.id)?,
            task_type: self.task_type,
            version: count("version", self.version)?,
            status: parse("status", &self.status)?,
        })
    }
}

// The conditions of the due queries are literal and the same as in the partial indexes: SQLite uses
// such an index only when it can prove, while it prepares the statement, that the index holds every
// row that is asked for. `INDEXED BY` makes that an error where it cannot; left to choose, it takes
// the list's index on the status and sorts the backlog.

/// Types, as the two queries below compare them: a JSON list of `name/version/definition`.
pub(super) fn known(types: &[KnownType]) -> String {
    let names: Vec<String> = types.iter().map(KnownType::key).collect();
    serde_json::json!(names).to_string()
}

/// Unleased, and nobody has come for them since `before`.
// Compensating tasks without a due time are among them: a cancel of a task that nobody holds writes
// one with a message, and that message can be lost like any other.
pub(super) fn unclaimed(
    connection: &mut SqliteConnection,
    (queue, known): (&QueueName, &str),
    before: i64,
    limit: u32,
) -> QueryResult<Vec<DueLine>> {
    diesel::sql_query(
        "SELECT updated_at AS since, id, task_type, version, status FROM tasks INDEXED BY tasks_unclaimed
         WHERE lease_owner IS NULL
           AND (status IN ('submitted', 'dispatched') OR (status = 'compensating' AND due_at IS NULL))
           AND queue = ? AND updated_at <= ?
           AND task_type || '/' || version || '/' || definition_hash IN (SELECT value FROM json_each(?))
         ORDER BY updated_at LIMIT ?",
    )
    .bind::<Text, _>(&queue.0)
    .bind::<BigInt, _>(before)
    .bind::<Text, _>(known)
    .bind::<BigInt, _>(i64::from(limit))
    .prepared()
    .load(connection)
}

/// Unleased, with a due time that has come.
pub(super) fn due(
    connection: &mut SqliteConnection,
    (queue, known): (&QueueName, &str),
    now: i64,
    limit: u32,
) -> QueryResult<Vec<DueLine>> {
    diesel::sql_query(
        "SELECT due_at AS since, id, task_type, version, status FROM tasks INDEXED BY tasks_due
         WHERE lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating')
           AND queue = ? AND due_at <= ?
           AND task_type || '/' || version || '/' || definition_hash IN (SELECT value FROM json_each(?))
         ORDER BY due_at LIMIT ?",
    )
    .bind::<Text, _>(&queue.0)
    .bind::<BigInt, _>(now)
    .bind::<Text, _>(known)
    .bind::<BigInt, _>(i64::from(limit))
    .prepared()
    .load(connection)
}

/// With a lease that has run out, and that no reconciler holds.
pub(super) fn lost(
    connection: &mut SqliteConnection,
    which: &Lost,
    now: i64,
    limit: u32,
) -> QueryResult<Vec<DueLine>> {
    let (whose, types) = match &which.of {
        LostOf::All => ("?4 = ?4", String::new()),
        LostOf::These(these) => (
            "task_type || '/' || version || '/' || definition_hash IN (SELECT value FROM json_each(?4))",
            known(these),
        ),
        LostOf::Others(these) => (
            "task_type || '/' || version || '/' || definition_hash NOT IN (SELECT value FROM json_each(?4))",
            known(these),
        ),
    };
    diesel::sql_query(format!(
        "SELECT lease_expires_at AS since, id, task_type, version, status FROM tasks INDEXED BY tasks_leased
         WHERE lease_owner IS NOT NULL AND lease_expires_at <= ?1 AND status IN ('running', 'compensating')
           AND (held_until IS NULL OR held_until <= ?2 OR held_epoch <> epoch)
           AND (?3 IS NULL OR task_type = ?3) AND {whose}
         ORDER BY lease_expires_at LIMIT ?5"
    ))
    .bind::<BigInt, _>(now - micros(which.stale_after))
    .bind::<BigInt, _>(now)
    .bind::<Nullable<Text>, _>(&which.task_type)
    .bind::<Text, _>(types)
    .bind::<BigInt, _>(i64::from(limit))
    .prepared()
    .load(connection)
}

/// Keeps a lost task for one reconciler; whether it could be.
pub(super) fn hold(
    connection: &mut SqliteConnection,
    task: TaskId,
    now: i64,
    until: i64,
) -> QueryResult<bool> {
    diesel::sql_query(
        "UPDATE tasks SET held_until = ?1, held_epoch = epoch
         WHERE id = ?2 AND lease_owner IS NOT NULL AND lease_expires_at <= ?3
           AND (held_until IS NULL OR held_until <= ?3 OR held_epoch <> epoch)",
    )
    .bind::<BigInt, _>(until)
    .bind::<Text, _>(task.to_string())
    .bind::<BigInt, _>(now)
    .execute(connection)
    .map(|held| held > 0)
}

#[derive(Debug, QueryableByName)]
struct IdLine {
    #[diesel(sql_type = Text)]
    id: String,
}

/// Those that can be read. One that cannot must not keep the others from being swept.
fn ids(lines: Vec<IdLine>) -> Vec<TaskId> {
    let decode = |line: IdLine| -> Result<TaskId, Fault> { Ok(parse("id", &line.id)?) };
    let readable = lines.into_iter().filter_map(|line| {
        decode(line)
            .inspect_err(|fault| {
                tracing::warn!(?fault, "a task that is to be swept cannot be read")
            })
            .ok()
    });
    readable.collect()
}

/// Those that a sweep is to look at, the longest due first.
pub(super) fn to_sweep(
    connection: &mut SqliteConnection,
    now: i64,
    limit: u32,
) -> Result<Vec<TaskId>, Fault> {
    let lines = diesel::sql_query(
        "SELECT id FROM tasks INDEXED BY tasks_to_sweep
         WHERE sweep_at IS NOT NULL AND sweep_at <= ? ORDER BY sweep_at LIMIT ?",
    )
    .bind::<BigInt, _>(now)
    .bind::<BigInt, _>(i64::from(limit))
    .prepared()
    .load(connection)?;
    Ok(ids(lines))
}

/// Sets the time at which a sweep looks at tasks, where one is to look at all. Their revision
/// stays, as with a heartbeat: nothing happens to them.
pub(super) fn put_off(
    connection: &mut SqliteConnection,
    tasks: &[TaskId],
    until: i64,
) -> Result<Vec<TaskId>, Fault> {
    let lines = diesel::sql_query(
        "UPDATE tasks SET sweep_at = ?
         WHERE id IN (SELECT value FROM json_each(?)) AND sweep_at IS NOT NULL RETURNING id",
    )
    .bind::<BigInt, _>(until)
    .bind::<Text, _>(id_list(tasks))
    .prepared()
    .load(connection)?;
    Ok(ids(lines))
}

/// Ids, as queries compare them: a JSON list.
pub(super) fn id_list(tasks: &[TaskId]) -> String {
    let texts: Vec<String> = tasks.iter().map(TaskId::to_string).collect();
    serde_json::json!(texts).to_string()
}

type Line = (String, String, i64, String, Option<String>, i64, i64);

/// A page, the newest first. Rows that a newer program wrote are passed over, and do not count for
/// the limit.
pub(super) fn list(
    connection: &mut SqliteConnection,
    query: &TaskQuery,
) -> Result<Vec<TaskLine>, Fault> {
    let mut rows = tasks::table
        .select((
            tasks::id,
            tasks::task_type,
            tasks::version,
            tasks::status,
            tasks::failure,
            tasks::created_at,
            tasks::updated_at,
        ))
        .order(tasks::id.desc())
        .into_boxed();
    if let Some(tenant) = &query.tenant {
        rows = rows.filter(tasks::tenant.eq(&tenant.0));
    }
    if let Some(task_type) = &query.task_type {
        rows = rows.filter(tasks::task_type.eq(task_type));
    }
    if let Some(status) = query.status {
        rows = rows.filter(tasks::status.eq(status.as_str()));
    }
    if let Some(before) = query.before {
        rows = rows.filter(tasks::id.lt(before.to_string()));
    }
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut lines = Vec::new();
    // Row by row, so that SQLite stops where the page is full.
    for row in rows.load_iter::<Line, DefaultLoadingMode>(connection)? {
        if lines.len() >= limit {
            break;
        }
        let row = row?;
        let id = row.0.clone();
        match line(row) {
            Ok(line) => lines.push(line),
            Err(fault) => tracing::warn!(task = id, ?fault, "a task cannot be listed"),
        }
    }
    Ok(lines)
}

fn line(
    (id, task_type, version, status, failure, created_at, updated_at): Line,
) -> Result<TaskLine, Fault> {
    Ok(TaskLine {
        task: parse("id", &id)?,
        task_type,
        version: count("version", version)?,
        status: parse("status", &status)?,
        failure: failure
            .as_deref()
            .map(|text| read_json("failure", text))
            .transpose()?,
        created_at: DbTime(created_at),
        updated_at: DbTime(updated_at),
    })
}

/// A line of [`in_flight`].
#[derive(Debug, QueryableByName)]
struct Group {
    #[diesel(sql_type = Text)]
    task_type: String,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Text)]
    definition_hash: String,
    #[diesel(sql_type = BigInt)]
    tasks: i64,
    #[diesel(sql_type = Text)]
    example: String,
}

/// Tasks that have not ended, by type, version and definition. The states are asked for one by one,
/// along the list's index: tasks that have ended are most of the table.
pub(super) fn in_flight(connection: &mut SqliteConnection) -> Result<Vec<InFlight>, Fault> {
    let open: Vec<_> = TaskStatus::ALL
        .iter()
        .filter(|status| !status.is_terminal())
        .map(|status| status.as_str())
        .collect();
    let groups: Vec<Group> = diesel::sql_query(
        "SELECT task_type, version, definition_hash, count(*) AS tasks, min(id) AS example
         FROM tasks INDEXED BY tasks_by_status WHERE status IN (SELECT value FROM json_each(?))
         GROUP BY task_type, version, definition_hash ORDER BY task_type, version, definition_hash",
    )
    .bind::<Text, _>(serde_json::json!(open).to_string())
    .prepared()
    .load(connection)?;
    groups
        .into_iter()
        .map(|group| {
            Ok(InFlight {
                of: KnownType {
                    name: group.task_type,
                    version: count("version", group.version)?,
                    definition: group.definition_hash,
                },
                count: u64::try_from(group.tasks).unwrap_or_default(),
                example: parse("id", &group.example)?,
            })
        })
        .collect()
}

//! What the local queue looks for in the table `tasks`: tasks that wait for a host. Reads only.

use super::fault::{Fault, count, parse};
use super::prepared::{Bind, Prepare, literal, walk};
use counterstep_contracts::{QueueName, Rev, WorkerMessage};
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use diesel::sql_types::{BigInt, Nullable, Text, Untyped};
use diesel::sqlite::Sqlite;
use std::fmt::Write;

/// A task that waits for a host.
#[derive(Debug, QueryableByName)]
pub(crate) struct Waiting {
    #[diesel(sql_type = BigInt)]
    place: i64,
    #[diesel(sql_type = BigInt)]
    kind: i64,
    #[diesel(sql_type = Text)]
    id: String,
    #[diesel(sql_type = Text)]
    task_type: String,
    #[diesel(sql_type = BigInt)]
    version: i64,
    #[diesel(sql_type = Nullable<Text>)]
    traceparent: Option<String>,
    #[diesel(sql_type = BigInt)]
    rev: i64,
    /// The order: since when it has been waiting.
    #[diesel(sql_type = BigInt)]
    pub(crate) since: i64,
}

impl Waiting {
    /// The message for its host.
    pub(crate) fn decode(self) -> Result<WorkerMessage, Fault> {
        Ok(WorkerMessage {
            task: parse("id", &self.id)?,
            tenant: None,
            task_type: self.task_type,
            version: count("version", self.version)?,
            rev: Rev(self.rev),
            traceparent: self.traceparent,
            outputs: serde_json::Map::new(),
        })
    }
}

/// What a look has found on one queue, each the longest waiting first.
pub(crate) struct QueueRows {
    pub(crate) queue: QueueName,
    /// Tasks that no host has.
    pub(crate) unclaimed: Vec<Waiting>,
    /// Those whose due time has come, but for those that wait for another version of a host; and those whose host is
    /// lost, and that no reconciler has taken in hand since their lease ran out.
    pub(crate) others: Vec<Waiting>,
}

/// A look at queues. Of each queue and each kind it reads `limit` rows at most, so that none hides another one.
pub(crate) struct Look {
    pub(crate) now: i64,
    /// Of tasks whose lease ended before this their host is lost.
    pub(crate) lost_before: i64,
    pub(crate) limit: u32,
}

/// Kinds of waiting tasks, with the order of each and its condition; [`Look::values`] are what stands in the places. The
/// conditions are literally those of the indexes, as in the other queries for due tasks.
const KINDS: [(&str, &str, &str); 3] = [
    (
        "updated_at",
        "tasks_unclaimed",
        "lease_owner IS NULL
         AND (status IN ('submitted', 'dispatched') OR (status = 'compensating' AND due_at IS NULL))
         AND queue = ?",
    ),
    (
        "due_at",
        "tasks_due",
        "lease_owner IS NULL AND due_at IS NOT NULL AND status IN ('waiting', 'compensating')
         AND waiting IS NOT 'version' AND due_at <= ? AND queue = ?",
    ),
    (
        "lease_expires_at",
        "tasks_leased",
        "lease_owner IS NOT NULL AND lease_expires_at <= ? AND status IN ('running', 'compensating')
         AND (held_until IS NULL OR held_until <= ? OR held_epoch <> epoch) AND queue = ?",
    ),
];

const UNCLAIMED: i64 = 0;

/// Queues that one statement asks for: SQLite puts at most 500 queries together.
const AT_ONCE: usize = 100;

impl Look {
    /// One statement for many queues: to parse and to run one for each would be most of what a fetch costs.
    pub(crate) fn at(
        &self,
        queues: Vec<QueueName>,
        connection: &mut SqliteConnection,
    ) -> QueryResult<Vec<QueueRows>> {
        let mut found = Vec::with_capacity(queues.len());
        let mut queues = queues.into_iter();
        loop {
            let some: Vec<_> = queues.by_ref().take(AT_ONCE).collect();
            if some.is_empty() {
                return Ok(found);
            }
            found.extend(self.at_some(some, connection)?);
        }
    }

    /// Of a queue, in the order of the kinds.
    fn values<'a>(&self, queue: &'a QueueName) -> [Bind<'a>; 6] {
        let (now, before, queue) = (self.now.into(), self.lost_before.into(), (&queue.0).into());
        [queue, now, queue, before, now, queue]
    }

    fn at_some(
        &self,
        queues: Vec<QueueName>,
        connection: &mut SqliteConnection,
    ) -> QueryResult<Vec<QueueRows>> {
        let asked = Asked {
            text: text(queues.len(), literal(self.limit)),
            values: queues.iter().flat_map(|queue| self.values(queue)).collect(),
        };
        let rows: Vec<Waiting> = asked.prepared().load(connection)?;
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let mut found: Vec<_> = queues
            .into_iter()
            .map(|queue| QueueRows {
                queue,
                unclaimed: Vec::new(),
                others: Vec::new(),
            })
            .collect();
        for row in rows {
            let place = usize::try_from(row.place).ok();
            let Some(of) = place.and_then(|place| found.get_mut(place)) else {
                continue;
            };
            match row.kind {
                UNCLAIMED => of.unclaimed.push(row),
                _ => of.others.push(row),
            }
        }
        for of in &mut found {
            of.unclaimed.sort_by_key(|row| row.since);
            of.unclaimed.truncate(limit);
        }
        Ok(found)
    }
}

/// Of as many queues.
fn text(queues: usize, limit: u32) -> String {
    let mut text = String::new();
    for (place, (kind, (order, index, condition))) in
        (0..queues).flat_map(|place| KINDS.iter().enumerate().map(move |kind| (place, kind)))
    {
        let and = if text.is_empty() { "" } else { "\nUNION ALL " };
        // A text that is written to does not fail.
        let _ = write!(
            text,
            "{and}SELECT * FROM (SELECT {place} AS place, {kind} AS kind, id, task_type, version, traceparent, rev, \
             {order} AS since FROM tasks INDEXED BY {index} WHERE {condition} ORDER BY {order} LIMIT {limit})"
        );
    }
    text
}

struct Asked<'a> {
    text: String,
    values: Vec<Bind<'a>>,
}

impl QueryId for Asked<'_> {
    type QueryId = ();

    // It goes by its text.
    const HAS_STATIC_QUERY_ID: bool = false;
}

impl QueryFragment<Sqlite> for Asked<'_> {
    fn walk_ast<'b>(&'b self, out: AstPass<'_, 'b, Sqlite>) -> QueryResult<()> {
        walk(&self.text, &self.values, out)
    }
}

impl Query for Asked<'_> {
    type SqlType = Untyped;
}

//! What is under way, counted: one walk over the tasks that have not ended, and a look at the
//! oldest event.

use super::fault::{Fault, parse};
use super::prepared::Prepare;
use counterstep_contracts::TaskStatus;
use counterstep_kernel::ports::{Gauges, TaskCount};
use counterstep_steps::times::DbTime;
use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

#[derive(Debug, QueryableByName)]
struct Group {
    #[diesel(sql_type = Text)]
    status: String,
    #[diesel(sql_type = Text)]
    queue: String,
    #[diesel(sql_type = BigInt)]
    tasks: i64,
    #[diesel(sql_type = Nullable<BigInt>)]
    running_since: Option<i64>,
    #[diesel(sql_type = Nullable<BigInt>)]
    due_since: Option<i64>,
}

#[derive(Debug, QueryableByName)]
struct Oldest {
    #[diesel(sql_type = BigInt)]
    created_at: i64,
}

/// The counts. The states are asked for one by one, along the list's index, as in
/// [`in_flight`](super::tasks::in_flight).
pub(super) fn read(connection: &mut SqliteConnection, now: i64) -> Result<Gauges, Fault> {
    let open: Vec<_> = TaskStatus::ALL
        .iter()
        .filter(|status| !status.is_terminal())
        .map(|status| status.as_str())
        .collect();
    let groups: Vec<Group> = diesel::sql_query(
        "SELECT status, queue, count(*) AS tasks,
           min(CASE WHEN status = 'running' THEN updated_at END) AS running_since,
           min(CASE WHEN lease_owner IS NOT NULL THEN NULL
                    WHEN status IN ('submitted', 'dispatched') OR (status = 'compensating' AND due_at IS NULL)
                      -- One that is offered again and again has the time of its first new offer, and not of the last.
                      THEN coalesce(due_at, updated_at)
                    WHEN status IN ('waiting', 'compensating') AND due_at <= ?1 THEN due_at END) AS due_since
         FROM tasks INDEXED BY tasks_by_status WHERE status IN (SELECT value FROM json_each(?2))
         GROUP BY status, queue ORDER BY status, queue",
    )
    .bind::<BigInt, _>(now)
    .bind::<Text, _>(serde_json::json!(open).to_string())
    .prepared()
    .load(connection)?;
    let oldest: Vec<Oldest> =
        diesel::sql_query("SELECT created_at FROM outbox ORDER BY id LIMIT 1").load(connection)?;
    let age = |since: Option<i64>| since.map(|since| DbTime(now).after(DbTime(since)));
    let running = groups.iter().filter_map(|group| group.running_since).min();
    let due = groups.iter().filter_map(|group| group.due_since).min();
    let count = |group: Group| {
        let count = u64::try_from(group.tasks).unwrap_or_default();
        Ok(TaskCount {
            status: parse("tasks.status", &group.status)?,
            queue: group.queue,
            count,
        })
    };
    Ok(Gauges {
        tasks: groups
            .into_iter()
            .map(count)
            .collect::<Result<_, Fault>>()?,
        oldest_running: age(running),
        oldest_due: age(due),
        oldest_unpublished: age(oldest.first().map(|oldest| oldest.created_at)),
    })
}

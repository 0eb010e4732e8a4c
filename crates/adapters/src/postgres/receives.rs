//! The table `receives`: files of requests that have no task yet.

use super::fault::{Fault, name};
use super::statement::{Clocked, Statement, interval, values};
use crate::rows::ReceiveTypes;
use counterstep_contracts::TaskId;
use counterstep_kernel::change::transition::{ReceiveWrite, Transition};
use counterstep_kernel::ports::ReceiveOp;
use uuid::Uuid;

// A begin that arrives late, behind the submission, leaves a row beside its task: that is no
// receive any more.
macro_rules! overdue {
    () => {
        "r.sweep_at <= now() AND NOT EXISTS (SELECT FROM tasks t WHERE t.id = r.task)"
    };
}

/// What `counterstep_refuse` is called with where not every receive that was to be taken could.
pub(super) const NOT_THERE: &str = "receives_taken";

// After a lost answer the next try has an id of its own. A row of the same id is that of an earlier program, which sent the commit
// again: a repetition changes nothing.
const BEGIN: &str =
    ", receives_begun AS (INSERT INTO receives (task, tenant, is_condemned, sweep_at)
  SELECT u.task, u.tenant, FALSE, now() + u.sweep_after FROM ok, ";

const BEGIN_AS: &str =
    " AS u (task, tenant, sweep_after) WHERE ok.every ON CONFLICT (task) DO NOTHING)";

// A sweep may condemn a row between our snapshot and our lock on it: the condition is then looked
// at again on the row as the sweep has left it, and the count falls short.
const TAKE: &str = ", receives_taken AS (DELETE FROM receives r USING ok, ";

const TAKE_AS: &str =
    " AS u (task) WHERE ok.every AND r.task = u.task AND NOT r.is_condemned RETURNING 1)";

/// A column of the commit's answer, behind [`TAKE`]; its value is how many there are to take.
pub(super) const TAKE_OR_REFUSE: &str = ",
  CASE WHEN (SELECT count(*) FROM receives_taken) = ? THEN TRUE ELSE counterstep_refuse('receives_taken') END";

// Its time stays: what still arrives at the object store is found then.
const ABANDON: &str =
    ", receives_abandoned AS (UPDATE receives r SET is_condemned = TRUE FROM ok, ";

const ABANDON_AS: &str = " AS u (task) WHERE ok.every AND r.task = u.task)";

/// Adds the receives of some changes. Gives how many must be taken; where there are any, the answer
/// needs [`TAKE_OR_REFUSE`].
pub(super) fn put<'a, Row>(
    statement: &mut Statement<'a, Row>,
    changes: &[&'a Transition],
) -> Result<Option<i64>, Fault> {
    let (mut begun, mut taken, mut abandoned) = (Vec::new(), Vec::new(), Vec::new());
    for change in changes {
        let task = change.task_id.0;
        match &change.receive {
            Some(ReceiveWrite::Begun {
                tenant,
                sweep_after,
            }) => {
                begun.push((
                    task,
                    name("receives.tenant", &tenant.0)?,
                    interval(*sweep_after),
                ));
            }
            Some(ReceiveWrite::Taken) => taken.push(task),
            Some(ReceiveWrite::Abandoned) => abandoned.push(task),
            None => {}
        }
    }
    if !begun.is_empty() {
        let rows = begun.len();
        let (mut tasks, mut tenants, mut after) = (Vec::new(), Vec::new(), Vec::new());
        for (task, tenant, sweep_after) in begun {
            tasks.push(task);
            tenants.push(tenant);
            after.push(sweep_after);
        }
        statement.push_table(BEGIN, rows, values![tasks, tenants, after], BEGIN_AS);
    }
    if !abandoned.is_empty() {
        statement.push_table(ABANDON, abandoned.len(), values![abandoned], ABANDON_AS);
    }
    if taken.is_empty() {
        return Ok(None);
    }
    let count = i64::try_from(taken.len()).unwrap_or(i64::MAX);
    statement.push_table(TAKE, taken.len(), values![taken], TAKE_AS);
    Ok(Some(count))
}

/// The clock's row, which comes in any case.
macro_rules! with_clock {
    ($($rows:expr),+ $(,)?) => {
        concat!("(", $($rows,)+ ") UNION ALL SELECT now(), NULL::uuid, NULL::text, NULL::boolean, NULL::timestamptz")
    };
}

fn sorted(tasks: &[TaskId]) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    ids.sort_unstable();
    ids
}

/// A statement of [`ReceiveOp`].
// The rows are locked in one order, so that two sweeps over the same ones wait for each other and
// do not lock each other out.
pub(super) fn work(op: &ReceiveOp) -> Statement<'static, Clocked<ReceiveTypes>> {
    match op {
        ReceiveOp::Overdue { limit } => Statement::of(
            with_clock!(
                "SELECT now(), r.task, r.tenant, r.is_condemned, r.sweep_at FROM receives r WHERE ",
                overdue!(),
                " ORDER BY r.sweep_at LIMIT ?"
            ),
            values![i64::from(*limit)],
        ),
        ReceiveOp::Of(tasks) => Statement::of(
            with_clock!("SELECT now(), task, tenant, is_condemned, sweep_at FROM receives WHERE task = ANY(?)"),
            values![sorted(tasks)],
        ),
        ReceiveOp::Condemn(tasks) => Statement::of(
            concat!(
                "WITH asked AS MATERIALIZED (SELECT r.task FROM receives r WHERE r.task = ANY(?) AND ",
                overdue!(),
                " ORDER BY r.task FOR UPDATE OF r)
             UPDATE receives r SET is_condemned = TRUE FROM asked WHERE r.task = asked.task
             RETURNING now(), r.task, r.tenant, r.is_condemned, r.sweep_at"
            ),
            values![sorted(tasks)],
        ),
        // A key without an answer goes with them: its request becomes no task any more.
        ReceiveOp::Swept(tasks) => Statement::of(
            "WITH asked AS MATERIALIZED (
               SELECT task FROM receives WHERE task = ANY(?) AND is_condemned ORDER BY task FOR UPDATE),
             keys AS (DELETE FROM idempotency i USING asked WHERE i.task = asked.task AND i.answer IS NULL)
             DELETE FROM receives r USING asked WHERE r.task = asked.task
             RETURNING now(), r.task, r.tenant, r.is_condemned, r.sweep_at",
            values![sorted(tasks)],
        ),
    }
}

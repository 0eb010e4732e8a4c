//! Changes of tasks, one or many, written by one statement. Puts the pieces together that they
//! need, and reads the server's answer; must not find out what ought to happen.
//!
//! The pieces are the parts of one `WITH`, the guarded rows first, and only those that are needed:
//! the server starts a plan for each, work or no work. How many texts that makes is a matter of
//! what the engine does, not of how much: a few dozen at most, each prepared once on a connection.
//!
//! Of changes of tasks that are there it writes those whose guards hold, and returns which; why the
//! others were refused is read for all of them at once. Changes with rows beside the task's, as
//! submissions have them, it writes all or none; those that were not written come again, alone.

use super::fault::Fault;
use super::pool::Lent;
use super::statement::{Statement, time, values};
use super::{idempotency, journal, outbox, places, receives, tasks, user_sql};
use counterstep_contracts::{Epoch, Rev};
use counterstep_kernel::change::transition::{Guard, TaskWrite, Transition};
use counterstep_kernel::ports::{CommitError, Committed, SqlStatement};
use diesel::pg::data_types::PgTimestamp;
use diesel::sql_types::{Nullable, Timestamptz, Uuid};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

const NEW: Guard = Guard::Free { rev: Rev(0) };

/// The time, and the task whose change was written; `NULL`: all that were asked for.
type Answer = (Timestamptz, Nullable<Uuid>);
type Row = (PgTimestamp, Option<uuid::Uuid>);

/// A row for each change that was written.
const THESE: &str = " SELECT now(), t.id FROM t";

/// No row where nothing was written. Where some of the guards held, their rows have been: then the
/// statement must fail.
const ALL_OR_NONE: &str = " FROM ok WHERE CASE WHEN ok.every THEN TRUE WHEN ok.held = 0 THEN FALSE ELSE counterstep_refuse('guards') END";

/// What the server is made to refuse there.
const GUARDS: &str = "guards";

/// What the server says to the statement: a row, where it was written.
pub(super) type Written = Result<Vec<Row>, Fault>;

/// Writes everything, or says why nothing was. For each of its locks it waits no longer than
/// `lock`.
pub(super) async fn write(
    lent: &Lent,
    guard: Guard,
    transition: &Transition,
    lock: Duration,
) -> Result<Committed, Fault> {
    if has_statements(transition) {
        return user_sql::write(lent, guard, transition, lock).await;
    }
    look(lent, guard, transition).await?;
    let written = send(lent, guard, transition, lock).await;
    judge(lent, guard, transition, written).await
}

/// Whether the change comes with statements of its own, which wait for locks of their own.
pub(super) fn has_statements(transition: &Transition) -> bool {
    !transition.sql.is_empty()
        || transition.document.is_some()
        || transition.alert.is_some()
        || transition
            .task
            .as_ref()
            .is_some_and(|write| write.writes_labels)
        || !transition.children.is_empty()
}

/// What can be said without writing.
pub(super) async fn look(lent: &Lent, guard: Guard, transition: &Transition) -> Result<(), Fault> {
    if let Some(misfit) = misfit(guard, transition) {
        // Who is fenced or stale is to hear that first, as from any other store.
        check_guard(lent, guard, transition).await?;
        return Err(Fault::Corrupt(misfit.to_owned()));
    }
    if cannot_hold(guard, transition) {
        return Err(CommitError::Stale.into());
    }
    Ok(())
}

pub(super) async fn send(
    lent: &Lent,
    guard: Guard,
    transition: &Transition,
    lock: Duration,
) -> Written {
    let mut statement = Statement::new();
    tasks::limits(&mut statement, lock);
    lent.rows::<Answer, Row>(assemble(statement, &[guard], &[transition])?)
        .await
}

/// What the server's answer means; where nothing was written, it is asked why. Not within a
/// transaction that has failed.
pub(super) async fn judge(
    lent: &Lent,
    guard: Guard,
    transition: &Transition,
    written: Written,
) -> Result<Committed, Fault> {
    match written {
        Ok(rows) => match rows.first() {
            Some((now, _)) => Ok(Committed { now: time(*now) }),
            None => Err(refused(lent, guard, transition).await),
        },
        Err(Fault::Violated { constraint, text }) => Err(match constraint.as_str() {
            idempotency::TAKEN => CommitError::KeyTaken.into(),
            receives::NOT_THERE => CommitError::Condemned.into(),
            places::TAKEN => CommitError::PlaceTaken.into(),
            _ => Fault::Violated { constraint, text },
        }),
        Err(fault) => Err(fault),
    }
}

/// Writes the first changes of different tasks, all or none.
pub(super) async fn write_new(
    lent: &Lent,
    submissions: &[&Transition],
    lock: Duration,
) -> Result<Committed, Fault> {
    if submissions
        .iter()
        .any(|it| kind(NEW, it) != Some(Kind::New))
    {
        let text = "only the first changes of tasks are written all or none";
        return Err(Fault::Corrupt(text.to_owned()));
    }
    let mut statement = Statement::of_many();
    tasks::limits(&mut statement, lock);
    let guards = vec![NEW; submissions.len()];
    let written = lent
        .rows::<Answer, Row>(assemble(statement, &guards, submissions)?)
        .await;
    match (written, submissions.first()) {
        (Err(Fault::Violated { constraint, .. }), _) if constraint == GUARDS => {
            Err(CommitError::Stale.into())
        }
        (written, Some(first)) => judge(lent, NEW, first, written).await,
        (_, None) => Err(Fault::Corrupt("nothing is to be written".to_owned())),
    }
}

/// The statement that writes the first change of a task, for a transaction of others.
pub(super) fn statement(transition: &Transition) -> Result<SqlStatement, Fault> {
    if kind(NEW, transition) != Some(Kind::New) {
        let text = "only the first change of a task is written in a transaction of others";
        return Err(Fault::Corrupt(text.to_owned()));
    }
    let mut statement = Statement::new();
    tasks::limits_of_others(&mut statement);
    assemble(statement, &[NEW], &[transition])?.with_texts()
}

/// Whether it writes rows beside the task's, whose refusal is the whole statement's.
fn has_side_rows(transition: &Transition) -> bool {
    transition.receive.is_some() || transition.idempotency.is_some()
}

/// Which changes may share a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Of tasks that are there.
    Old,
    /// Of tasks that get their row.
    New,
}

/// Among which others a change may be written; `None`: it comes alone.
pub(super) fn kind(guard: Guard, transition: &Transition) -> Option<Kind> {
    let is_new = guard == NEW;
    let fits = transition.task.is_some()
        && !has_statements(transition)
        && !places::may_be_taken(transition)
        && (is_new || !has_side_rows(transition))
        && misfit(guard, transition).is_none()
        && !cannot_hold(guard, transition);
    fits.then_some(if is_new { Kind::New } else { Kind::Old })
}

/// What became of a change among others; `None`: it was not written, and should come alone.
pub(super) type Outcome = Option<Result<Committed, CommitError>>;

/// Writes changes of one kind, of different tasks. Gives what became of each.
pub(super) async fn write_all(
    lent: &Lent,
    changes: &[(Guard, &Transition)],
    lock: Duration,
) -> Result<Vec<Outcome>, Fault> {
    let (guards, transitions): (Vec<_>, Vec<_>) = changes.iter().copied().unzip();
    let mut statement = Statement::of_many();
    tasks::limits(&mut statement, lock);
    // One that cannot be written is told so where it comes alone.
    let Ok(statement) = assemble(statement, &guards, &transitions) else {
        return Ok(vec![None; changes.len()]);
    };
    let written = match lent.rows::<Answer, Row>(statement).await {
        Ok(rows) => rows,
        Err(fault @ Fault::Lost(_)) => return Err(fault),
        Err(_) => return Ok(vec![None; changes.len()]),
    };
    let now = written
        .first()
        .map(|(now, _)| Committed { now: time(*now) });
    if guards.contains(&NEW) {
        return Ok(vec![now.map(Ok); changes.len()]);
    }
    let these: HashSet<uuid::Uuid> = written.iter().filter_map(|(_, task)| *task).collect();
    let refused: Vec<_> = changes
        .iter()
        .filter(|(_, change)| !these.contains(&change.task_id.0))
        .collect();
    let reasons = reasons(lent, &refused).await;
    let one = |(_, change): &(Guard, &Transition)| {
        let written = now.filter(|_| these.contains(&change.task_id.0)).map(Ok);
        written.or_else(|| reasons.get(&change.task_id.0).cloned().map(Err))
    };
    Ok(changes.iter().map(one).collect())
}

/// Why the guards of these changes did not hold, as far as the rows show it.
async fn reasons(
    lent: &Lent,
    refused: &[&(Guard, &Transition)],
) -> HashMap<uuid::Uuid, CommitError> {
    let leased = |(guard, _): &&&(Guard, &Transition)| matches!(guard, Guard::Lease { .. });
    let ids: Vec<_> = refused
        .iter()
        .filter(leased)
        .map(|(_, change)| change.task_id.0)
        .collect();
    let heads: Vec<(uuid::Uuid, i64, i64)> = match ids.is_empty() {
        true => Vec::new(),
        false => match lent.rows(tasks::heads(ids)).await {
            Ok(heads) => heads,
            // Each finds out alone.
            Err(fault) => {
                close_if_lost(lent, &fault);
                return HashMap::new();
            }
        },
    };
    let heads: HashMap<_, _> = heads
        .into_iter()
        .map(|(task, rev, epoch)| (task, (rev, epoch)))
        .collect();
    let reason = |(guard, change): &&(Guard, &Transition)| {
        let task = change.task_id.0;
        let reason = match guard {
            Guard::Free { .. } => Some(CommitError::Stale),
            Guard::Lease { .. } => broken(*guard, heads.get(&task).copied()),
        };
        Some((task, reason?))
    };
    refused.iter().filter_map(reason).collect()
}

/// A row that is not there has no lease that could have run out.
fn cannot_hold(guard: Guard, transition: &Transition) -> bool {
    guard == NEW
        && transition
            .task
            .as_ref()
            .is_some_and(|write| write.needs_expired_lease)
}

/// What the change contradicts itself in.
fn misfit(guard: Guard, transition: &Transition) -> Option<&'static str> {
    let (Guard::Lease { rev, .. } | Guard::Free { rev }) = guard;
    match &transition.task {
        Some(write) if write.row.id != transition.task_id || write.row.rev != rev.next() => {
            Some("the new row is not the guarded one with the next revision")
        }
        Some(_) if transition.journal.is_none() => {
            Some("a change of a task comes with its row in the journal")
        }
        // Without its row a task's revision stays where it is, so such a change may only come
        // before the task.
        None if guard != NEW => Some("only a receive may leave the task's row alone"),
        Some(_) | None => None,
    }
}

fn assemble<'a>(
    mut statement: Statement<'a, Answer>,
    guards: &[Guard],
    changes: &[&'a Transition],
) -> Result<Statement<'a, Answer>, Fault> {
    let link = |change: &Transition| change.journal.as_ref().map(|row| row.link.0.clone());
    // Rows of tasks and changes are the same ones, where there are rows.
    let ids = changes
        .iter()
        .map(|change| (change.change_id.0, link(change)))
        .unzip();
    let writes: Vec<&TaskWrite> = changes
        .iter()
        .filter_map(|change| change.task.as_ref())
        .collect();
    let is_old = !writes.is_empty() && !guards.contains(&NEW);
    if writes.is_empty() {
        tasks::receive(
            &mut statement,
            changes.iter().map(|change| change.task_id.0).collect(),
        );
    } else if is_old {
        let quiet = changes.iter().map(|change| change.is_quiet()).collect();
        let rows = journal::Texts::of(changes.iter().filter_map(|change| change.journal.as_ref()))?;
        tasks::update(&mut statement, ids, quiet, guards, &writes, rows)?;
    } else {
        tasks::insert(&mut statement, ids, &writes)?;
    }
    places::put(&mut statement, changes, !is_old)?;
    if is_old && !changes.iter().any(|change| has_side_rows(change)) {
        outbox::insert(&mut statement, changes)?;
        statement.push(THESE, values![]);
        return Ok(statement);
    }
    tasks::every(&mut statement, changes.len());
    let to_take = receives::put(&mut statement, changes)?;
    if !is_old {
        journal::insert(&mut statement, changes)?;
    }
    outbox::insert(&mut statement, changes)?;
    let keys = idempotency::put(&mut statement, changes)?;
    statement.push(" SELECT now(), NULL::uuid", values![]);
    // Columns of the answer, so that they are looked at before the statement can end well.
    if let Some(number) = to_take {
        statement.push(receives::TAKE_OR_REFUSE, values![number]);
    }
    if let Some(number) = keys {
        statement.push(idempotency::PUT_OR_REFUSE, values![number]);
    }
    statement.push(ALL_OR_NONE, values![]);
    Ok(statement)
}

/// Why the guarded row was not found.
async fn refused(lent: &Lent, guard: Guard, transition: &Transition) -> Fault {
    // The one who is free to come again does not care what it was.
    if matches!(guard, Guard::Free { .. }) {
        return CommitError::Stale.into();
    }
    match check_guard(lent, guard, transition).await {
        Err(fault) => fault,
        // The guard holds; so it was the lease, as the write wanted it.
        Ok(()) => CommitError::Stale.into(),
    }
}

async fn check_guard(lent: &Lent, guard: Guard, transition: &Transition) -> Result<(), Fault> {
    let head: Vec<(i64, i64)> =
        lent.rows(tasks::head(transition.task_id))
            .await
            .map_err(|fault| {
                close_if_lost(lent, &fault);
                fault.of_a_read()
            })?;
    broken(guard, head.first().copied()).map_or(Ok(()), |error| Err(error.into()))
}

/// A connection on which a read still runs is not for the next caller.
fn close_if_lost(lent: &Lent, fault: &Fault) {
    if matches!(fault, Fault::Lost(_)) {
        lent.close_later();
    }
}

/// Why the guard does not hold over a row with this revision and epoch; `None`: it does.
fn broken(guard: Guard, head: Option<(i64, i64)>) -> Option<CommitError> {
    let (rev, epoch) = head.unwrap_or((0, 0));
    match guard {
        Guard::Lease { epoch: ours, .. } if head.is_none() || ours.0 != epoch => {
            Some(CommitError::Fenced {
                current: Epoch(epoch),
            })
        }
        Guard::Lease { rev: ours, .. } | Guard::Free { rev: ours } if ours.0 != rev => {
            Some(CommitError::Stale)
        }
        Guard::Lease { .. } | Guard::Free { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::{Labels, TaskId};
    use counterstep_kernel::change::transition::{LeaseChange, Time};
    use counterstep_kernel::journal::Fold;
    use counterstep_kernel::record::TaskRow;
    use counterstep_steps::times::DbTime;
    use counterstep_testkit::golden;
    use diesel::pg::Pg;
    use std::path::Path;
    use uuid::Uuid;

    fn row(rev: i64) -> TaskRow {
        TaskRow {
            rev: Rev(rev),
            epoch: Epoch(1),
            ..*Fold::new(TaskId(Uuid::nil())).into_record(DbTime(0)).task
        }
    }

    fn change(write: TaskWrite) -> Transition {
        let change = Transition::new(write.row.change_id, write.row.id);
        Transition {
            task: Some(write),
            ..change
        }
        .with_journal(None, "golden")
    }

    /// What the server plans. Each text costs it a plan, and the plans are looked at: so a text
    /// changes knowingly.
    #[test]
    fn the_texts_of_commits_are_those_of_the_golden_files() {
        let submit = change(TaskWrite::new(row(1)));
        let mut labels = Labels::new();
        labels.add("order", "4711").expect("a label");
        let labelled = change(TaskWrite::new(TaskRow { labels, ..row(1) }));
        let lease = LeaseChange::Take {
            owner: "golden".to_owned(),
            ttl: Duration::from_secs(30),
        };
        let claim = change(TaskWrite {
            lease,
            due: Time::Clear,
            ..TaskWrite::new(row(2))
        });
        let step = change(TaskWrite::new(row(3)));
        let (free, leased) = (
            Guard::Free { rev: Rev(1) },
            Guard::Lease {
                epoch: Epoch(1),
                rev: Rev(2),
            },
        );
        for (name, guard, change, many) in [
            ("submit", NEW, &submit, false),
            ("submit_many", NEW, &submit, true),
            ("submit_with_labels", NEW, &labelled, false),
            // A claim and a step have one text, and share a statement.
            ("change", free, &claim, false),
            ("change", leased, &step, false),
            ("change_many", leased, &step, true),
        ] {
            let mut statement = if many {
                Statement::of_many()
            } else {
                Statement::new()
            };
            tasks::limits(&mut statement, Duration::from_millis(100));
            let statement = assemble(statement, &[guard], &[change]).expect("a statement");
            let text = diesel::debug_query::<Pg, _>(&statement).to_string();
            let text = format!("{}\n", text.split(" -- binds:").next().unwrap_or_default());
            let file =
                Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.sql"));
            // Where one is to be another, the plan of the new one is looked at first.
            golden::compare(
                file,
                &text,
                "test -p counterstep-adapters --all-features --lib golden_files",
            );
        }
    }
}

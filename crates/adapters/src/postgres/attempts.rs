//! The table `attempts` in a commit: the idempotency claim of an execution and the intent of its objects. The sweep's
//! side of it is in `intents`.

use super::fault::{Fault, name, parse, parse_some, words};
use super::statement::{Statement, Str, interval, some_time, time, values};
use counterstep_contracts::{Attempt, ChangeId, Direction, Epoch, Outcome, StepNo, TaskId};
use counterstep_kernel::record::AttemptRow;
use counterstep_kernel::transition::{AttemptWrite, Kept, Transition};
use diesel::pg::data_types::{PgInterval, PgTimestamp};
use diesel::prelude::Queryable;
use diesel::sql_types as sql;
use uuid::Uuid;

/// What `counterstep_refuse` is called with where not every attempt that was to end could.
pub(super) const NOT_OPEN: &str = "attempts_open";
/// The constraint that a second start of an execution violates.
pub(super) const STARTED: &str = "attempts_pkey";

// A second start is an error of the primary key, also where the first one commits between our snapshot and our insert.
const START: &str = ", attempts_started AS (INSERT INTO attempts
    (task, step, direction, attempt, epoch, prefix, outcome, error, started_at, ended_at, sweep_after, intent,
     change_id, ended_by)
  SELECT u.task, u.step, u.direction, u.attempt, u.epoch, u.prefix, u.outcome, u.error, now(),
     CASE WHEN u.outcome IS NOT NULL THEN now() END, now() + u.sweep_after, u.intent, u.change_id,
     CASE WHEN u.outcome IS NOT NULL THEN u.change_id END
  FROM ok, ";

const START_AS: &str = " AS u (task, change_id, step, direction, attempt, epoch, prefix, outcome, error, sweep_after,
     intent) WHERE ok.every)";

// A sweep may condemn a row between our snapshot and our lock on it: the condition is then looked at again on the row as
// the sweep has left it, and the count falls short.
const END: &str = ", attempts_ended AS (UPDATE attempts a SET
     outcome = u.outcome, error = u.error, ended_at = now(), ended_by = u.change_id,
     intent = coalesce(u.intent, a.intent), sweep_after = CASE WHEN u.now THEN now() ELSE a.sweep_after END
  FROM ok, ";

const END_AS: &str = " AS u (task, change_id, step, direction, attempt, outcome, error, intent, now)
  WHERE ok.every AND a.task = u.task AND a.step = u.step AND a.direction = u.direction AND a.attempt = u.attempt
    AND a.outcome IS NULL AND (u.outcome <> 'succeeded' OR a.intent = 'open')
  RETURNING 1)";

/// A column of the commit's answer, behind [`END`]; its value is how many there are to end.
pub(super) const END_OR_REFUSE: &str = ",
  CASE WHEN (SELECT count(*) FROM attempts_ended) = ? THEN TRUE ELSE counterstep_refuse('attempts_open') END";

// Looked at again under the lock, as an end is. Never a row that the same statement starts or ends.
const KEEP: &str = ", attempts_kept AS (UPDATE attempts a SET intent = 'kept' FROM ok, ";

const KEEP_AS: &str = " AS u (task, step, attempt)
  WHERE ok.every AND a.task = u.task AND a.step = u.step AND a.direction = 'forward' AND a.attempt = u.attempt
    AND a.intent IN ('open', 'kept')
  RETURNING 1)";

/// As [`END_OR_REFUSE`], of [`KEEP`].
pub(super) const KEEP_OR_REFUSE: &str = ",
  CASE WHEN (SELECT count(*) FROM attempts_kept) = ? THEN TRUE ELSE counterstep_refuse('attempts_open') END";

// Never a row that the same statement ends: that one was open before.
const RELEASE: &str = ", attempts_released AS (UPDATE attempts a SET intent = 'open', sweep_after = now()
  FROM ok, ";

const RELEASE_AS: &str = " AS u (task, step)
  WHERE ok.every AND a.task = u.task AND a.step = u.step AND a.intent = 'kept')";

struct Start<'a> {
    key: (StepNo, Direction, Attempt),
    epoch: Epoch,
    prefix: Str<'a>,
    sweep_after: PgInterval,
    ended: Option<(Outcome, Option<Str<'a>>)>,
    intent: &'static str,
}

struct End<'a> {
    key: (StepNo, Direction, Attempt),
    outcome: Outcome,
    error: Option<Str<'a>>,
    /// What the intent becomes; `None`: it stays.
    intent: Option<&'static str>,
    /// The sweep may come from now on.
    now: bool,
}

/// The attempts of a change. A statement touches a row once: what comes upon the same attempt later in the change is put
/// together here.
#[derive(Default)]
struct Writes<'a> {
    starts: Vec<Start<'a>>,
    ends: Vec<End<'a>>,
    keeps: Vec<(i32, i32)>,
    releases: Vec<i32>,
}

impl<'a> Writes<'a> {
    /// Puts the attempts of a change together, in order.
    fn of(attempts: &'a [AttemptWrite]) -> Result<Self, Fault> {
        let mut writes = Self::default();
        for attempt in attempts {
            writes.add(attempt)?;
        }
        Ok(writes)
    }

    fn add(&mut self, write: &'a AttemptWrite) -> Result<(), Fault> {
        match write {
            AttemptWrite::Start { step, direction, attempt, epoch, prefix, sweep_after } => self.starts.push(Start {
                key: (*step, *direction, *attempt),
                epoch: *epoch,
                prefix: name("attempts.prefix", prefix)?,
                sweep_after: interval(*sweep_after),
                ended: None,
                intent: "open",
            }),
            AttemptWrite::End { step, direction, attempt, outcome, error, kept } => {
                let key = (*step, *direction, *attempt);
                let intent = match (outcome, kept) {
                    (Outcome::Succeeded, Kept::Output) => Some("kept"),
                    (Outcome::Succeeded, Kept::None) => Some("swept"),
                    // What it may have stored stays open to the sweep.
                    (Outcome::Succeeded, Kept::Nothing)
                    | (Outcome::Failed | Outcome::InDoubt | Outcome::Cancelled, _) => None,
                };
                let error = error.as_deref().map(words);
                if self.ends.iter().any(|end| end.key == key) {
                    return Err(Fault::Corrupt(format!("an attempt cannot end twice: {key:?}")));
                }
                match self.starts.iter_mut().find(|start| start.key == key) {
                    None => self.ends.push(End { key, outcome: *outcome, error, intent, now: false }),
                    Some(start) if start.ended.is_some() => {
                        return Err(Fault::Corrupt(format!("an attempt cannot end twice: {key:?}")));
                    }
                    Some(start) => {
                        start.ended = Some((*outcome, error));
                        start.intent = intent.unwrap_or(start.intent);
                    }
                }
            }
            AttemptWrite::Keep { step, attempt } => {
                let key = (*step, Direction::Forward, *attempt);
                let here = self.starts.iter().map(|start| start.key).chain(self.ends.iter().map(|end| end.key));
                if here.into_iter().any(|other| other == key) || self.keeps.contains(&(step.0, attempt.0)) {
                    return Err(Fault::Corrupt(format!(
                        "an attempt is kept by a change that does more to it: {key:?}"
                    )));
                }
                self.keeps.push((step.0, attempt.0));
            }
            AttemptWrite::Release { step } => {
                for start in self.starts.iter_mut().filter(|start| start.key.0 == *step && start.intent == "kept") {
                    start.intent = "open";
                    start.sweep_after = interval(std::time::Duration::ZERO);
                }
                for end in self.ends.iter_mut().filter(|end| end.key.0 == *step && end.intent == Some("kept")) {
                    end.intent = Some("open");
                    end.now = true;
                }
                self.releases.push(step.0);
            }
        }
        Ok(())
    }
}

/// Adds the attempts of some changes. Gives how many rows that are there must end, and how many must be kept; where there
/// are any, the answer needs [`END_OR_REFUSE`] and [`KEEP_OR_REFUSE`].
pub(super) fn put<'a, Row>(
    statement: &mut Statement<'a, Row>,
    changes: &[&'a Transition],
) -> Result<(Option<i64>, Option<i64>), Fault> {
    let (mut starts, mut ends, mut releases) = (Rows::default(), Rows::default(), Rows::default());
    let mut keeps = Rows::default();
    for change in changes.iter().copied() {
        let writes = Writes::of(&change.attempts)?;
        starts.add(change, writes.starts);
        ends.add(change, writes.ends);
        keeps.add(change, writes.keeps);
        releases.add(change, writes.releases);
    }
    let (to_end, to_keep) = (ends.rows.len(), keeps.rows.len());
    start(statement, starts);
    end(statement, ends);
    if to_keep > 0 {
        let (steps, attempts): (Vec<i32>, Vec<i32>) = keeps.rows.into_iter().unzip();
        statement.push_table(KEEP, to_keep, values![keeps.tasks, steps, attempts], KEEP_AS);
    }
    if !releases.rows.is_empty() {
        let Rows { tasks, rows, .. } = releases;
        statement.push_table(RELEASE, rows.len(), values![tasks, rows], RELEASE_AS);
    }
    let some = |count: usize| (count > 0).then(|| i64::try_from(count).unwrap_or(i64::MAX));
    Ok((some(to_end), some(to_keep)))
}

/// Rows of several changes, and whose they are.
struct Rows<T> {
    tasks: Vec<Uuid>,
    changes: Vec<Uuid>,
    rows: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { tasks: Vec::new(), changes: Vec::new(), rows: Vec::new() }
    }
}

impl<T> Rows<T> {
    fn add(&mut self, change: &Transition, rows: Vec<T>) {
        self.tasks.extend(rows.iter().map(|_| change.task_id.0));
        self.changes.extend(rows.iter().map(|_| change.change_id.0));
        self.rows.extend(rows);
    }
}

fn start<'a, Row>(statement: &mut Statement<'a, Row>, starts: Rows<Start<'a>>) {
    let Rows { tasks, changes, rows: starts } = starts;
    let rows = starts.len();
    if rows == 0 {
        return;
    }
    let (mut outcomes, mut errors) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let (mut prefixes, mut intents): (Vec<Str<'a>>, Vec<Str<'a>>) = (Vec::new(), Vec::new());
    let (steps, directions, attempts) = keys(starts.iter().map(|start| start.key));
    let (epochs, sweeps) =
        starts.iter().map(|start| (start.epoch.0, start.sweep_after)).unzip::<_, _, Vec<_>, Vec<_>>();
    for start in starts {
        let (outcome, error) = start.ended.unzip();
        outcomes.push(outcome.map(|outcome| Str::Borrowed(outcome.as_str())));
        errors.push(error.flatten());
        prefixes.push(start.prefix);
        intents.push(start.intent.into());
    }
    let binds =
        values![tasks, changes, steps, directions, attempts, epochs, prefixes, outcomes, errors, sweeps, intents];
    statement.push_table(START, rows, binds, START_AS);
}

fn end<'a, Row>(statement: &mut Statement<'a, Row>, ends: Rows<End<'a>>) {
    let Rows { tasks, changes, rows: ends } = ends;
    let rows = ends.len();
    if rows == 0 {
        return;
    }
    let (steps, directions, attempts) = keys(ends.iter().map(|end| end.key));
    let outcomes: Vec<Str<'a>> = ends.iter().map(|end| end.outcome.as_str().into()).collect();
    let intents: Vec<Option<Str<'a>>> = ends.iter().map(|end| end.intent.map(Str::Borrowed)).collect();
    let now: Vec<bool> = ends.iter().map(|end| end.now).collect();
    let errors: Vec<Option<Str<'a>>> = ends.into_iter().map(|end| end.error).collect();
    let binds = values![tasks, changes, steps, directions, attempts, outcomes, errors, intents, now];
    statement.push_table(END, rows, binds, END_AS);
}

fn keys<'a>(keys: impl Iterator<Item = (StepNo, Direction, Attempt)>) -> (Vec<i32>, Vec<Str<'a>>, Vec<i32>) {
    let (mut steps, mut directions, mut attempts) = (Vec::new(), Vec::new(), Vec::new());
    for (step, direction, attempt) in keys {
        steps.push(step.0);
        directions.push(direction.as_str().into());
        attempts.push(attempt.0);
    }
    (steps, directions, attempts)
}

type SomeText = sql::Nullable<sql::Text>;

/// Step, direction, number, outcome and intent of each attempt of a task: to say why one could not end.
pub(super) fn states(task: TaskId) -> Statement<'static, (sql::Integer, sql::Text, sql::Integer, SomeText, sql::Text)> {
    Statement::of("SELECT step, direction, attempt, outcome, intent FROM attempts WHERE task = ?", values![task.0])
}

/// A row of [`states`].
pub(super) type State = (i32, String, i32, Option<String>, String);

/// Why not all of these could end; `None`: they all could by now.
pub(super) fn why_not(attempts: &[AttemptWrite], states: &[State]) -> Option<Fault> {
    let mut condemned = None;
    for write in attempts {
        if let AttemptWrite::Keep { step, attempt } = write {
            let key = (step.0, Direction::Forward.as_str(), attempt.0);
            match states.iter().find(|state| (state.0, state.1.as_str(), state.2) == key) {
                None => return Some(Fault::Corrupt(format!("an attempt that never started keeps nothing: {key:?}"))),
                Some((.., intent)) if !matches!(intent.as_str(), "open" | "kept") => {
                    condemned = Some(counterstep_kernel::ports::CommitError::Condemned.into());
                }
                Some(_) => {}
            }
            continue;
        }
        let AttemptWrite::End { step, direction, attempt, outcome, .. } = write else { continue };
        let key = (*step, *direction, *attempt);
        let started = attempts.iter().any(|write| {
            matches!(write, AttemptWrite::Start { step, direction, attempt, .. }
            if (*step, *direction, *attempt) == key)
        });
        if started {
            continue;
        }
        let state =
            states.iter().find(|state| (state.0, state.1.as_str(), state.2) == (step.0, direction.as_str(), attempt.0));
        match state {
            None => return Some(Fault::Corrupt(format!("an attempt that never started cannot end: {key:?}"))),
            Some((.., Some(_), _)) => return Some(Fault::Corrupt(format!("an attempt cannot end twice: {key:?}"))),
            Some((.., None, intent)) if *outcome == Outcome::Succeeded && intent != "open" => {
                condemned = Some(counterstep_kernel::ports::CommitError::Condemned.into());
            }
            Some(_) => {}
        }
    }
    condemned
}

/// The columns of [`Read`].
pub(super) type Types = (
    sql::Integer,
    sql::Text,
    sql::Integer,
    sql::BigInt,
    sql::Text,
    SomeText,
    SomeText,
    sql::Timestamptz,
    sql::Nullable<sql::Timestamptz>,
    sql::Uuid,
);

/// An attempt, column by column.
#[derive(Debug, Queryable)]
pub(super) struct Read {
    step: i32,
    direction: String,
    attempt: i32,
    epoch: i64,
    prefix: String,
    outcome: Option<String>,
    error: Option<String>,
    started_at: PgTimestamp,
    ended_at: Option<PgTimestamp>,
    change_id: Uuid,
}

/// The attempts of a task, in the order of their start.
pub(super) fn of(task: TaskId) -> Statement<'static, Types> {
    Statement::of(
        "SELECT step, direction, attempt, epoch, prefix, outcome, error, started_at, ended_at, change_id
         FROM attempts WHERE task = ? ORDER BY started_no",
        values![task.0],
    )
}

/// What [`of`] has read.
pub(super) fn decode(read: Read) -> Result<AttemptRow, Fault> {
    Ok(AttemptRow {
        step: StepNo(read.step),
        direction: parse("attempts.direction", &read.direction)?,
        attempt: Attempt(read.attempt),
        epoch: Epoch(read.epoch),
        prefix: read.prefix,
        outcome: parse_some("attempts.outcome", read.outcome.as_deref())?,
        error: read.error,
        started_at: time(read.started_at),
        ended_at: some_time(read.ended_at),
        change_id: ChangeId(read.change_id),
    })
}

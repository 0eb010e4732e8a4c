//! Steps that submit tasks and wait for them: which are submitted next, when the step is over, and
//! how it is undone.

use super::decision::{Decision, WaitStep};
use super::view::{Children, View};
use crate::builtin::{ChildRequest, Tasks, Wait};
use crate::error::{StepError, StepResult};
use crate::record::{DbTime, StepFailure, StepRow, UNREADABLE};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{StepStatus, UndoDecl};
use counterstep_steps::ChildOutcome;
use counterstep_steps::guard;
use serde_json::Value;
use std::time::Duration;

/// Pause before tasks are tried again that could not be read, or did not get the stop request; it doubles
/// each time.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Maximum of that pause.
const LOOK_AT_LAST: Duration = Duration::from_secs(600);

/// Maximum consecutive tries, over some hours, before an operator has to decide.
const MOST_MISSED: u32 = 24;

/// When the tasks are looked at again that could not be read, or told to stop; `None`: all could.
pub(super) fn look_again(view: &View<'_>) -> Option<Duration> {
    let unseen = view.facts.unseen_children.iter();
    let least = unseen.map(|&at| missed(view.step(at))).min()?;
    let after = LOOK_AGAIN.saturating_mul(1 << least.min(7));
    Some(after.min(LOOK_AT_LAST))
}

/// What is next for such a step.
pub(super) enum Next {
    /// Its tasks are under way.
    Nothing,
    /// This happens to it.
    Step(WaitStep),
    /// More has to be known, or done.
    Ask(Decision),
}

/// Decides on a step that is to start, or that waits for its tasks.
pub(super) fn decide(view: &View<'_>, at: usize, wait: Option<&StepResult<Wait>>) -> Next {
    let (wait, tasks) = match wait {
        Some(Ok(wait @ Wait::Tasks(tasks))) => (wait, tasks),
        Some(Err(error)) => return failed(error.clone()),
        Some(Ok(_)) | None => {
            return failed(StepError::permanent(
                "it is unknown which tasks the step submits",
            ));
        }
    };
    let row = view.step(at);
    if row.status != StepStatus::Waiting {
        return begin(tasks, wait.due(view.record.now));
    }
    let Some(due) = row.due_at else {
        // An operator had it run again: its time counts anew.
        return match wait.due(view.record.now) {
            Ok(due) => Next::Step(WaitStep::Begins(due)),
            Err(error) => failed(error),
        };
    };
    let unseen = view.facts.unseen_children.contains(&at);
    let found = view.facts.children.get(&at);
    if unseen && found.is_none() {
        return unread(view, at, due);
    }
    // Those that were submitted in this very decision were not looked at.
    let none = Children::default();
    let progress = Progress::of(tasks, started(row), found.unwrap_or(&none));
    let (listed, need) = (count(tasks.list.len()), count(tasks.need));
    if progress.places > listed {
        return failed(StepError::permanent(format_args!(
            "the step has submitted {} tasks, and its function gives a list of {listed} now; expected the same list \
             each time it is asked",
            progress.places
        )));
    }
    if listed.saturating_sub(progress.failed) < need {
        return failed(too_few(tasks, &progress));
    }
    let ended = progress.seen.completed.saturating_add(progress.failed);
    let enough = progress.seen.completed >= need && (tasks.stops_early || ended == listed);
    if enough && progress.open == 0 {
        return match &progress.seen.outcomes {
            Some(outcomes) => over(tasks, outcomes),
            None if unseen => unread(view, at, due),
            None if found.is_some() => Next::Ask(Decision::ReadChildren(at)),
            None => Next::Nothing,
        };
    }
    // Before its time: enough have completed in it, however long the others take to stop.
    if enough {
        return if view.facts.stopped_children.contains(&at) {
            Next::Nothing
        } else {
            Next::Ask(Decision::StopChildren(at))
        };
    }
    if due <= view.record.now {
        return failed(StepError::permanent(format_args!(
            "{ended} of {listed} tasks had ended within {}",
            format_duration(tasks.within)
        )));
    }
    let next = progress.next(tasks);
    if next.is_empty() {
        return Next::Nothing;
    }
    Next::Step(WaitStep::Submits {
        begins: None,
        tasks: next,
    })
}

/// How far a step has come with its list.
struct Progress<'a> {
    seen: &'a Children,
    /// Number of places that have a task.
    places: u32,
    /// Number of tasks under way.
    open: u32,
    /// Number of places that have failed.
    failed: u32,
    /// Places that have a task, and get another one.
    again: &'a [u32],
}

impl<'a> Progress<'a> {
    /// `started`: the number of tasks that were submitted, with those that were not looked at.
    fn of(tasks: &Tasks, started: u32, seen: &'a Children) -> Self {
        let fresh = started.saturating_sub(seen.places.saturating_add(seen.replaced));
        let replaced = (fresh as usize).min(seen.again.len());
        let again = &seen.again[replaced..];
        // A list that may let some fail tries none of them again that it can do without.
        let (listed, need) = (count(tasks.list.len()), count(tasks.need));
        let all_failed = seen.failed.saturating_add(count(again.len()));
        let needs_them = listed.saturating_sub(all_failed) < need;
        Self {
            seen,
            places: seen.places.saturating_add(fresh - count(replaced)),
            open: started.saturating_sub(seen.ended()),
            failed: if needs_them { seen.failed } else { all_failed },
            again: if needs_them { again } else { &[] },
        }
    }

    /// The places of which a task is to be submitted now.
    fn next(&self, tasks: &Tasks) -> Vec<(u32, ChildRequest)> {
        let room = tasks.at_a_time.saturating_sub(self.open as usize);
        let places = self.again.iter().copied();
        let places = places.chain(self.places..count(tasks.list.len()));
        let task = |place: u32| Some((place, tasks.list.get(place as usize)?.clone()));
        places.take(room).filter_map(task).collect()
    }
}

/// A step whose tasks cannot be read, or not what those have given that it needs: it waits, until they
/// could not be read for some hours, or its time is over and a task is damaged. Then a person has to see to it.
fn unread(view: &View<'_>, at: usize, due: DbTime) -> Next {
    let why = view.facts.unreadable_children.get(&at);
    let is_over = due <= view.record.now && why.is_some();
    let missed = missed(view.step(at));
    if !is_over && missed < MOST_MISSED {
        return Next::Nothing;
    }
    let why = why.map_or("the database did not answer", String::as_str);
    let error = StepFailure {
        class: UNREADABLE.to_owned(),
        message: format!("what its tasks have given cannot be read: {why}"),
        origin: None,
    };
    Next::Step(WaitStep::Failed {
        error,
        falls_back: false,
    })
}

fn begin(tasks: &Tasks, due: StepResult<DbTime>) -> Next {
    let due = match due {
        Ok(due) => due,
        Err(error) => return failed(error),
    };
    if tasks.list.is_empty() {
        return over(tasks, &[]);
    }
    Next::Step(WaitStep::Submits {
        begins: Some(due),
        tasks: Progress::of(tasks, 0, &Children::default()).next(tasks),
    })
}

fn over(tasks: &Tasks, outcomes: &[ChildOutcome<Value>]) -> Next {
    let mut outcomes = outcomes.to_vec();
    outcomes.resize_with(tasks.list.len(), || ChildOutcome::NotStarted);
    match tasks.output(&outcomes) {
        Ok(output) => Next::Step(WaitStep::Over(output)),
        Err(error) => failed(error),
    }
}

fn failed(error: StepError) -> Next {
    Next::Step(WaitStep::Failed {
        error: (&error).into(),
        falls_back: false,
    })
}

fn too_few(tasks: &Tasks, progress: &Progress<'_>) -> StepError {
    let failed = progress.failed;
    let (listed, need) = (tasks.list.len(), tasks.need);
    let what = match (listed, need == listed) {
        (1, _) => "its task did not complete".to_owned(),
        (_, true) => format!("{failed} of its {listed} tasks did not complete"),
        (_, false) => {
            format!("{failed} of its {listed} tasks did not complete, and {need} have to")
        }
    };
    let Some(failure) = &progress.seen.failure else {
        return StepError::permanent(what);
    };
    let (task, status) = (failure.task, failure.status);
    StepError::permanent(match &failure.message {
        Some(message) => format!("{what}: task {task} is {status}: {message}"),
        None => format!("{what}: task {task} is {status}"),
    })
}

/// Whether tasks that the step has submitted are undone with it.
pub(super) fn are_undone_with(view: &View<'_>, at: usize) -> bool {
    let decl = &view.decl.steps[at];
    decl.has_children() && decl.undo == UndoDecl::BuiltIn
}

/// What is next for a step whose tasks are to be undone; `None`: they are being undone.
pub(super) fn undo(view: &View<'_>, at: usize) -> Option<Decision> {
    let row = view.step(at);
    if row.status != StepStatus::Compensating {
        return Some(Decision::UndoChildren(at));
    }
    if row.children.is_none() {
        return Some(Decision::ChildrenUndone(at));
    }
    let unseen = view.facts.unseen_children.contains(&at);
    if unseen && missed(row) >= MOST_MISSED {
        return Some(Decision::ChildrenNotUndone(at));
    }
    let seen = view.facts.children.get(&at)?;
    let all_are_undone = seen.completed == 0 && seen.failed == started(row);
    if guard!("children undone with their parent", all_are_undone) {
        return Some(Decision::ChildrenUndone(at));
    }
    // One may have completed after it was told, where an operator had it go on.
    let again = !unseen && seen.completed > 0;
    (again || !view.facts.stopped_children.contains(&at)).then_some(Decision::StopChildren(at))
}

fn started(row: &StepRow) -> u32 {
    row.children.map_or(0, |children| children.started)
}

fn missed(row: &StepRow) -> u32 {
    row.children.map_or(0, |children| children.missed)
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

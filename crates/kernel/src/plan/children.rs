//! Steps that submit tasks and wait for them: which are submitted next, when the step is over, and
//! how it is undone.

use super::decision::{Decision, WaitStep};
use super::view::{Children, View};
use crate::builtin::{ChildRequest, Tasks, Wait};
use crate::error::{StepError, StepResult};
use crate::record::{DbTime, StepRow};
use counterstep_contracts::retry::format_duration;
use counterstep_contracts::{StepStatus, UndoDecl};
use counterstep_steps::ChildOutcome;
use serde_json::Value;
use std::time::Duration;

/// Where the tasks could not be read, or told to stop, it is tried again after this long, and then
/// after twice as long each time.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// But after no longer than this.
const LOOK_AT_LAST: Duration = Duration::from_secs(600);

/// So often in a row, over some hours, before a person is asked.
const MOST_MISSED: u32 = 24;

/// When the tasks are looked at again that could not be read, or told to stop; `None`: all could.
pub(super) fn look_again(view: &View<'_>) -> Option<Duration> {
    let missed = |at: &usize| {
        view.step(*at)
            .children
            .map_or(0, |children| children.missed)
    };
    let least = view.facts.unseen_children.iter().map(missed).min()?;
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
    if view.facts.unseen_children.contains(&at) {
        return Next::Nothing;
    }
    let started = started(row);
    let none = Children::default();
    // Those that were submitted in this very decision were not looked at.
    let seen = view.facts.children.get(&at).unwrap_or(&none);
    let is_known = view.facts.children.contains_key(&at);
    let (listed, need) = (count(tasks.list.len()), count(tasks.need));
    if started > listed {
        return failed(StepError::permanent(format_args!(
            "the step has submitted {started} tasks, and its function gives a list of {listed} now; expected the same \
             list each time it is asked"
        )));
    }
    if listed.saturating_sub(seen.failed) < need {
        return failed(too_few(tasks, seen));
    }
    let open = started.saturating_sub(seen.ended());
    let enough = seen.completed >= need && (tasks.stops_early || seen.ended() == listed);
    if enough && open == 0 {
        return match &seen.outcomes {
            Some(outcomes) => over(tasks, outcomes),
            None if is_known => Next::Ask(Decision::ReadChildren(at)),
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
            "{} of {listed} tasks had ended within {}",
            seen.ended(),
            format_duration(tasks.within)
        )));
    }
    let next = next(tasks, started, open);
    if next.is_empty() {
        return Next::Nothing;
    }
    Next::Step(WaitStep::Submits {
        begins: None,
        tasks: next,
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
        tasks: next(tasks, 0, 0),
    })
}

/// Those that are to be submitted now.
fn next(tasks: &Tasks, started: u32, open: u32) -> Vec<(u32, ChildRequest)> {
    let room = tasks.at_a_time.saturating_sub(open as usize);
    (0_u32..)
        .zip(&tasks.list)
        .skip(started as usize)
        .take(room)
        .map(|(no, task)| (no, task.clone()))
        .collect()
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
        error,
        falls_back: false,
    })
}

fn too_few(tasks: &Tasks, seen: &Children) -> StepError {
    let (listed, need) = (tasks.list.len(), tasks.need);
    let what = match (listed, need == listed) {
        (1, _) => "its task did not complete".to_owned(),
        (_, true) => format!("{} of its {listed} tasks did not complete", seen.failed),
        (_, false) => format!(
            "{} of its {listed} tasks did not complete, and {need} have to",
            seen.failed
        ),
    };
    let Some(failure) = &seen.failure else {
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
    let missed = row.children.map_or(0, |children| children.missed);
    let unseen = view.facts.unseen_children.contains(&at);
    if unseen && missed >= MOST_MISSED {
        return Some(Decision::ChildrenNotUndone(at));
    }
    let seen = view.facts.children.get(&at)?;
    if seen.completed == 0 && seen.failed == started(row) {
        return Some(Decision::ChildrenUndone(at));
    }
    // One may have completed after it was told, where an operator had it go on.
    let again = !unseen && seen.completed > 0;
    (again || !view.facts.stopped_children.contains(&at)).then_some(Decision::StopChildren(at))
}

fn started(row: &StepRow) -> u32 {
    row.children.map_or(0, |children| children.started)
}

fn count(of: usize) -> u32 {
    u32::try_from(of).unwrap_or(u32::MAX)
}

//! A task and all tasks below it, which its steps and theirs have submitted: how they are listed, and
//! what each of them waits for. Gives no turns.

use crate::answers::Answers;
use counterstep_contracts::{StepStatus, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::Engine;
use counterstep_kernel::ports::ChildQuery;
use counterstep_kernel::record::TaskRecord;
use counterstep_reconciler::parents;
use counterstep_steps::CancelToken;
use counterstep_steps::waits::LONGEST_WAIT;
use std::time::Duration;

/// Maximum number of tasks per page.
const PAGE: u32 = 500;

/// Parents that are woken at a time.
const WOKEN_AT_ONCE: u32 = 100;

/// The task, and all tasks below it: each behind the one that has submitted it.
///
/// # Panics
/// When they cannot be read.
pub(crate) async fn of(engine: &Engine, task: TaskId) -> Vec<TaskRecord> {
    let mut family = vec![load(engine, task).await];
    let mut at = 0;
    while let Some(parent) = family.get(at) {
        at += 1;
        let submitted = parent.steps.iter().filter_map(|row| row.children);
        if submitted.map(|children| children.started).sum::<u32>() == 0 {
            continue;
        }
        for child in children_of(engine, parent.task.id).await {
            family.push(load(engine, child).await);
        }
    }
    family
}

async fn load(engine: &Engine, task: TaskId) -> TaskRecord {
    let loaded = engine.ports.store.load(task).await;
    loaded.expect("the store answers").expect("the task exists")
}

async fn children_of(engine: &Engine, parent: TaskId) -> Vec<TaskId> {
    let mut query = ChildQuery {
        parent,
        step: None,
        statuses: Vec::new(),
        after: None,
        limit: PAGE,
    };
    let mut children = Vec::new();
    loop {
        let page = engine.ports.store.children(&query).await;
        let page = page.expect("the store answers");
        let Some(last) = page.last() else {
            return children;
        };
        query.after = Some((last.step, last.no));
        children.extend(page.iter().map(|line| line.task));
    }
}

/// The same while hosts change them: all as they were at one moment. `None`: they change too fast.
pub(crate) async fn at_one_moment(engine: &Engine, task: TaskId) -> Option<Vec<TaskRecord>> {
    let shown = |family: &[TaskRecord]| -> Vec<_> {
        let rows = family.iter().map(|record| &record.task);
        // A wake makes a task due, and is no revision.
        rows.map(|row| (row.id, row.rev, row.due_at, row.lease_owner.clone()))
            .collect()
    };
    let first = of(engine, task).await;
    let second = of(engine, task).await;
    (shown(&first) == shown(&second)).then_some(second)
}

/// What has to come before a task goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Nothing: a host may claim it.
    Now,
    /// This time passes.
    Time(Duration),
    /// A signal that the test itself may send, within this time.
    Signal(Duration),
    /// Tasks that it has submitted, whatever the time.
    Children,
    /// A person, or nothing any more.
    Rest,
}

impl Until {
    pub(crate) fn of(record: &TaskRecord, answers: &Answers) -> Self {
        let (row, due) = (&record.task, record.due_in());
        if row.status.is_at_rest() {
            return Self::Rest;
        }
        if let Some(lease) = row.lease_expires_at {
            return Self::Time(lease.after(record.now));
        }
        if due.is_zero() {
            return Self::Now;
        }
        let for_children =
            row.waiting == Some(WaitReason::Children) || row.status == TaskStatus::Compensating;
        match row.waiting {
            Some(WaitReason::Signal) if !answers.let_deadlines_pass(record) => Self::Signal(due),
            // No limit that a declaration gives is so far away.
            _ if for_children && due > LONGEST_WAIT / 2 => Self::Children,
            _ => Self::Time(due),
        }
    }
}

/// What is next for a family of which no task can go on now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Idle {
    /// This much time passes.
    Pass(Duration),
    /// The test may send a signal, and more time than that signal has must not pass.
    Look,
    /// Nothing happens any more, or a person has to decide.
    Nothing,
}

impl Idle {
    pub(crate) fn of(family: &[Until]) -> Self {
        let least = |left: fn(&Until) -> Option<Duration>| family.iter().filter_map(left).min();
        let time = least(|until| match until {
            Until::Time(left) => Some(*left),
            _ => None,
        });
        let signal = least(|until| match until {
            Until::Signal(left) => Some(*left),
            _ => None,
        });
        match (time, signal) {
            (Some(time), signal) if signal.is_none_or(|signal| time < signal) => Self::Pass(time),
            (_, Some(_)) => Self::Look,
            (_, None) => Self::Nothing,
        }
    }
}

/// Wakes parents whose children have ended unnoticed, as the reconciler does: the host that was to
/// wake them was lost. Gives whether there were any.
pub(crate) async fn wake_parents(engine: &Engine, family: &[Until]) -> bool {
    // A family of one has none.
    if family.len() < 2 {
        return false;
    }
    let plan = parents::plan(engine, WOKEN_AT_ONCE).await;
    let plan = plan.expect("the plan");
    let woken = parents::run(engine, plan, &CancelToken::new()).await;
    woken.expect("the store answers") > 0
}

/// The tasks that a person has to decide about, each with the reason, as text; `None`: none is.
pub(crate) fn parked(family: &[TaskRecord]) -> Option<String> {
    let parked = family
        .iter()
        .filter(|record| record.task.status.is_parked());
    let words = parked.map(|record| {
        let row = &record.task;
        let mut steps = record.steps.iter();
        let undo = steps.find(|step| step.status == StepStatus::CompensationFailed);
        let why = match (undo, &row.failure) {
            (Some(step), _) => {
                let error = step.error.as_ref();
                let error = error.map_or_else(|| "no error".to_owned(), ToString::to_string);
                format!("the undo of `{}` gave up: {error}", step.name)
            }
            (None, Some(failure)) => match &failure.step {
                Some(step) => format!("step `{step}` gave up: {}", failure.message),
                None => failure.message.clone(),
            },
            (None, None) => "no failure".to_owned(),
        };
        format!("{} {} is {}: {why}", row.task_type, row.id, row.status)
    });
    let words: Vec<_> = words.collect();
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::{Idle, Until};
    use std::time::Duration;

    #[test]
    fn time_passes_to_what_comes_first_and_never_to_the_deadline_of_a_signal() {
        let [short, long] = [1, 2].map(Duration::from_secs);
        for (family, expected) in [
            (
                &[Until::Time(long), Until::Time(short)][..],
                Idle::Pass(short),
            ),
            (&[Until::Children, Until::Time(long)], Idle::Pass(long)),
            (
                &[Until::Signal(long), Until::Time(short)],
                Idle::Pass(short),
            ),
            (&[Until::Signal(short), Until::Time(long)], Idle::Look),
            (&[Until::Children, Until::Signal(short)], Idle::Look),
            (&[Until::Children, Until::Rest], Idle::Nothing),
            (&[Until::Rest], Idle::Nothing),
        ] {
            assert_eq!(Idle::of(family), expected, "{family:?}");
        }
    }
}

//! The table of states as it was designed, and where the judge goes beyond it. The judge has these
//! edges and no other.

use crate::kernel::states::{Edge, step_edges, task_edges};
use counterstep_contracts::{StepStatus, TaskStatus};
use std::collections::BTreeSet;
use std::fmt::Debug;

const TASK: &[(TaskStatus, &[TaskStatus])] = {
    use TaskStatus::{
        Cancelled, Compensating, CompensationFailed, Completed, DeadLettered, Dispatched, Failed,
        Resolved, Running, Submitted, Waiting,
    };
    &[
        (
            Submitted,
            &[Running, Dispatched, Completed, Cancelled, Compensating],
        ),
        (
            Dispatched,
            &[Running, Cancelled, Compensating, DeadLettered],
        ),
        (
            Running,
            &[
                Running,
                Dispatched,
                Waiting,
                Completed,
                Compensating,
                Failed,
                DeadLettered,
            ],
        ),
        (Waiting, &[Running, Compensating, Cancelled, DeadLettered]),
        (
            Compensating,
            &[Compensating, Failed, Cancelled, CompensationFailed],
        ),
        (CompensationFailed, &[Compensating, Resolved]),
        // Of a child, by the undo of its parent.
        (Completed, &[Compensating]),
        (DeadLettered, &[Dispatched, Compensating, Resolved]),
    ]
};

const STEP: &[(StepStatus, &[StepStatus])] = {
    use StepStatus::{
        Compensated, Compensating, CompensationFailed, Completed, Failed, InDoubt, Pending,
        Resolved, Running, Skipped, Waiting,
    };
    &[
        (Pending, &[Running, Skipped]),
        (Running, &[Completed, Waiting, Failed, InDoubt]),
        (Waiting, &[Running, Compensating]),
        (InDoubt, &[Running, Completed, Compensated, Compensating]),
        (Completed, &[Pending, Compensating]),
        // An operator's supplied output.
        (Failed, &[Compensating, Completed]),
        (
            Compensating,
            &[Compensating, Compensated, CompensationFailed],
        ),
        (CompensationFailed, &[Compensating, Resolved]),
    ]
};

/// What the design implies but does not list.
const STEP_BESIDES: &[(StepStatus, &[StepStatus], &str)] = &[
    (
        StepStatus::InDoubt,
        &[StepStatus::InDoubt, StepStatus::CompensationFailed],
        "probe_retries, probe_failed: what has become of it stays unknown, and holds its undo up",
    ),
    (
        StepStatus::CompensationFailed,
        &[StepStatus::InDoubt],
        "probe_redriven: its undo waits for what the probe finds out",
    ),
    (
        StepStatus::Failed,
        &[StepStatus::Waiting],
        "step_redriven: a dead letter runs again at the step that gave up",
    ),
    (
        StepStatus::Pending,
        &[StepStatus::Compensating],
        "undo_started: it had started, before its scratch was lost",
    ),
    (
        StepStatus::Pending,
        &[StepStatus::Completed],
        "step_kept: the task that this one runs again had completed it",
    ),
    (
        StepStatus::Pending,
        &[StepStatus::Pending],
        "signal_received: a signal is kept for a step that comes later",
    ),
    (
        StepStatus::Waiting,
        &[StepStatus::Waiting],
        "signal_received: the host that claims the task finds it",
    ),
    (
        StepStatus::Completed,
        &[StepStatus::Completed],
        "step_rebuilt: scratch is made again, the output stands",
    ),
];

/// Counts lost hosts anew, tells hosts of the task once more, and names the task that it runs again. It stays
/// where it is, so these are no edges of their own.
const LEAVE_THE_TASK: [&str; 3] = [
    "operator_set_recoveries",
    "offered_again",
    "operator_ran_again",
];

/// Notes in the audit that there is nothing to undo, and that a result came too late. The step stays
/// what it is, so these are no edges of their own.
const LEAVE_THE_STEP: [&str; 2] = ["undo_waived", "result_dropped"];

#[test]
fn the_judge_has_the_edges_of_the_design_for_a_task_and_no_other() {
    let (notes, edges): (Vec<_>, Vec<_>) = task_edges()
        .into_iter()
        .partition(|edge| LEAVE_THE_TASK.contains(&edge.event.as_str()));
    assert!(
        notes.iter().all(|edge| edge.from == Some(edge.to)),
        "{notes:#?}"
    );
    let of = |event| notes.iter().filter(|edge| edge.event == event).count();
    let not_ended = TaskStatus::ALL
        .iter()
        .filter(|status| !status.is_terminal())
        .count();
    assert_eq!(LEAVE_THE_TASK.map(of), [not_ended, 4, 1]);
    let births: Vec<_> = edges
        .iter()
        .filter(|edge| edge.from.is_none())
        .map(|edge| edge.to)
        .collect();
    assert_eq!(births, [TaskStatus::Submitted]);
    let designed = TASK
        .iter()
        .flat_map(|(from, to)| to.iter().map(|to| (*from, *to)))
        .collect();
    compare(&edges, &designed);
}

#[test]
fn the_judge_has_the_edges_of_the_design_for_a_step_and_no_other() {
    let (notes, edges): (Vec<_>, Vec<_>) = step_edges()
        .into_iter()
        .partition(|edge| LEAVE_THE_STEP.contains(&edge.event.as_str()));
    assert!(notes.iter().all(|edge| edge.from == Some(edge.to)));
    let dropped = notes.iter().filter(|edge| edge.event == LEAVE_THE_STEP[1]);
    let (of, tasks): (Vec<_>, BTreeSet<_>) =
        dropped.map(|edge| (edge.to, edge.tasks.len())).unzip();
    assert!(!of.contains(&StepStatus::Skipped) && of.len() == StepStatus::ALL.len() - 1);
    assert_eq!(
        tasks,
        BTreeSet::from([TaskStatus::ALL.len()]),
        "in every state of the task"
    );
    let listed = STEP.iter().map(|(from, to)| (*from, *to));
    let besides = STEP_BESIDES.iter().map(|(from, to, _)| (*from, *to));
    let designed = listed
        .chain(besides)
        .flat_map(|(from, to)| to.iter().map(move |to| (from, *to)))
        .collect();
    compare(&edges, &designed);
}

fn compare<S: Ord + Copy + Debug>(edges: &[Edge<S>], designed: &BTreeSet<(S, S)>) {
    let had: BTreeSet<(S, S)> = edges
        .iter()
        .filter_map(|edge| Some((edge.from?, edge.to)))
        .collect();
    let extra: Vec<_> = edges
        .iter()
        .filter(|e| e.from.is_some_and(|from| !designed.contains(&(from, e.to))))
        .collect();
    let missing: Vec<_> = designed.difference(&had).collect();
    assert!(
        extra.is_empty() && missing.is_empty(),
        "not designed: {extra:#?}\ndesigned but missing: {missing:?}"
    );
}

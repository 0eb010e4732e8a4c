//! The plan of an undo, as people see it: what an undo of the whole task would do now, in the order that a turn follows
//! (`plan::undo_stages`), and what of it stays.

use crate::plan;
use crate::record::{StepRow, TaskRecord};
use counterstep_contracts::operator::{NotUndone, NotUndoneKind, PlannedUndo, UndoPlan, UndoStage};
use counterstep_contracts::{OnUndoFailure, StepDecl, StepStatus, TaskStatus, UndoDecl};

use crate::task::TaskType;

/// The plan. For a task that has ended it has no stages and says why.
#[must_use]
pub fn undo_plan(task_type: &TaskType, record: &TaskRecord) -> UndoPlan {
    let decl = task_type.decl;
    let status = record.task.status;
    let mut steps = record.steps.clone();
    for step in &mut steps {
        // As an operator's retry would find them.
        if step.status == StepStatus::CompensationFailed {
            step.status = StepStatus::Compensating;
        }
    }
    let mut stages = Vec::new();
    if !status.is_terminal() {
        for stage in plan::undo_stages(decl, &steps) {
            stages.push(UndoStage {
                group: decl.steps[stage[0]].group.map(str::to_owned),
                steps: stage
                    .iter()
                    .map(|&at| planned(task_type, &record.steps[at], at))
                    .collect(),
            });
        }
    }
    let mut order: Vec<usize> = (0..record.steps.len())
        .filter(|&at| record.steps[at].started_seq.is_some() || record.steps[at].kept)
        .collect();
    order.sort_by_key(|&at| std::cmp::Reverse(record.steps[at].started_seq));
    let not_undone = order
        .into_iter()
        .filter_map(|at| not_undone(&decl.steps[at], &record.steps[at], status))
        .collect();
    UndoPlan {
        task_id: record.task.id,
        status,
        when: when(task_type, record),
        stages,
        not_undone,
    }
}

fn planned(task_type: &TaskType, row: &StepRow, at: usize) -> PlannedUndo {
    let decl = &task_type.decl.steps[at];
    // An attempt under way may get anywhere before it is stopped.
    let in_doubt =
        row.probe.is_some() || matches!(row.status, StepStatus::InDoubt | StepStatus::Running);
    PlannedUndo {
        no: row.no,
        step: row.name.clone(),
        status: row.status,
        undo: match decl.undo {
            UndoDecl::Function { name } => name.to_owned(),
            UndoDecl::BuiltIn | UndoDecl::Waived { .. } | UndoDecl::Pure => "built-in".to_owned(),
        },
        in_doubt,
        probe: decl.probe.filter(|_| in_doubt).map(str::to_owned),
        undo_attempts: row.undo_attempts,
        gave_up: row.status == StepStatus::CompensationFailed,
    }
}

fn not_undone(decl: &StepDecl, row: &StepRow, task: TaskStatus) -> Option<NotUndone> {
    let (kind, reason) = match (decl.undo, row.status) {
        (_, StepStatus::Compensated) => (NotUndoneKind::Undone, "it has been undone".to_owned()),
        (_, StepStatus::Resolved) => (
            NotUndoneKind::Settled,
            "an operator has settled its undo".to_owned(),
        ),
        _ if row.kept => (
            NotUndoneKind::Kept,
            "the task that this one runs again did it, and it belongs to that task".to_owned(),
        ),
        (UndoDecl::Waived { reason }, _) => (NotUndoneKind::Waived, reason.to_owned()),
        (UndoDecl::Pure, _) => (NotUndoneKind::Pure, "it has no effects".to_owned()),
        (UndoDecl::Function { .. } | UndoDecl::BuiltIn, _) if task.is_terminal() => (
            NotUndoneKind::Ended,
            format!("its task is {task}, and nothing undoes a task that has ended"),
        ),
        (UndoDecl::Function { .. } | UndoDecl::BuiltIn, _) => return None,
    };
    Some(NotUndone {
        step: row.name.clone(),
        status: row.status,
        kind,
        reason,
    })
}

fn when(task_type: &TaskType, record: &TaskRecord) -> String {
    let cancel = match (task_type.decl.cancellable, record.task.cancel_requested_at) {
        (_, Some(_)) => {
            "a cancel was accepted: it is carried out as soon as the running steps have stopped"
        }
        (true, None) => "when it fails or is cancelled",
        (false, None) => "when it fails; its type does not allow a cancel",
    };
    match record.task.status {
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting => cancel.to_owned(),
        TaskStatus::Compensating => "now: it is being undone".to_owned(),
        TaskStatus::DeadLettered => {
            "when an operator retries it with the direction `undo`".to_owned()
        }
        TaskStatus::CompensationFailed => match task_type.decl.on_undo_failure {
            OnUndoFailure::Stop => {
                "when an operator retries it, or has settled the undos that gave up: those before \
                                    them wait until then"
            }
            OnUndoFailure::Continue => {
                "when an operator retries it: all the others have been undone"
            }
        }
        .to_owned(),
        TaskStatus::Completed
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::Resolved => {
            format!("never: the task is {}", record.task.status)
        }
    }
}

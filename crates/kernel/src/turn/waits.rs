//! Steps that wait, where the next steps are decided: a wait begins, is over, or was in vain. No
//! I/O and no code of a step runs; the declaration's function only says how long.

use crate::builtin::Work;
use crate::draft::Draft;
use crate::error::{StepError, StepResult};
use crate::record::DbTime;
use crate::saga::Illegal;
use crate::task::{Inputs, Run, TaskType, guarded, output};
use crate::times::rfc3339;
use crate::waits::{Slept, Wait};
use counterstep_contracts::WaitDecl;
use counterstep_contracts::retry::format_duration;
use serde_json::Value;

/// Decides on a step that waits: one that may start, or one for which its time or its signal has
/// come.
pub(super) fn decide(
    task_type: &TaskType,
    draft: &mut Draft,
    at: usize,
    inputs: &Inputs,
) -> Result<(), Illegal> {
    let step = draft.step(at);
    if let Some(signal) = &step.signal {
        // Also one that came after the deadline, as long as no host had noticed it before: the
        // first commit counts.
        let body = signal.body.clone();
        return draft.wait_is_over(at, body);
    }
    let (now, due) = (draft.record().now, step.due_at);
    let wait = evaluate(task_type, at, inputs);
    let due = match (due, &wait) {
        (Some(due), _) => Ok(due),
        (None, Ok(wait)) => wait.due(now),
        (None, Err(error)) => Err(error.clone()),
    };
    match due {
        Ok(due) if due > now => draft.wait_begins(at, due),
        Ok(due) => match outcome(draft.waits(at), &wait, due) {
            Ok(output) => draft.wait_is_over(at, output),
            Err(error) => failed(draft, at, &error),
        },
        Err(error) => failed(draft, at, &error),
    }
}

fn evaluate(task_type: &TaskType, at: usize, inputs: &Inputs) -> StepResult<Wait> {
    let Run::BuiltIn(evaluate) = task_type.steps[at].run else {
        return Err(StepError::permanent(
            "the declaration says that the step waits, and its code does not",
        ));
    };
    match guarded("the step's function", || evaluate(inputs))? {
        Work::Wait(wait) => Ok(wait),
        Work::Upload(_) | Work::Call(_) => Err(StepError::permanent(
            "the declaration says that the step waits, and its code does not",
        )),
    }
}

/// What comes of a wait whose time has come without a signal.
fn outcome(waits: Option<WaitDecl>, wait: &StepResult<Wait>, due: DbTime) -> StepResult<Value> {
    match waits {
        Some(WaitDecl::Timer) => output(&Slept {
            due_at: rfc3339(due),
        }),
        Some(WaitDecl::Signal { optional: true }) => Ok(Value::Null),
        Some(WaitDecl::Signal { optional: false }) | None => Err(match wait {
            Ok(Wait::Signal(within)) => StepError::permanent(format_args!(
                "no signal came within {}",
                format_duration(*within)
            )),
            Ok(Wait::For(_) | Wait::Until(_)) | Err(_) => {
                StepError::permanent(format_args!("no signal came by {}", rfc3339(due)))
            }
        }),
    }
}

fn failed(draft: &mut Draft, at: usize, error: &StepError) -> Result<(), Illegal> {
    let falls_back = draft.may_fall_back(at);
    draft.wait_failed(at, error, falls_back)
}

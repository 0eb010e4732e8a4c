//! What a person decides about a task: settling a parked one, or a step of it, letting it go on, and how many of its hosts count
//! as lost. The kernel decides what that leads to.

use crate::{Cx, Refused, Run, invalid, load, no_such_task, note, unknown_type};
use counterstep_contracts::operation::decisions::{ResolveTask, RetryTask, SetRecoveries};
use counterstep_contracts::operator::{
    OperatorAnswer, RecoveriesAnswer, RecoveriesRequest, ResolveRequest, RetryRequest,
};
use counterstep_contracts::{ProblemCode, TaskId, TaskStatus};
use counterstep_kernel::change::ChangeError;
use counterstep_kernel::client::request_edit::RequestEdit;
use counterstep_kernel::operator::{self, OperatorError, Recount, Resolution, Retrial};
use serde_json::Value;

impl Run for ResolveTask {
    async fn run(cx: Cx, id: TaskId, input: ResolveRequest) -> Result<OperatorAnswer, Refused> {
        let (engine, tenant) = (&cx.engine, &cx.caller.tenant);
        let resolution = Resolution {
            step: input.step,
            settled: input.settled,
            output: input.output,
            task: input.task,
            actor: cx.actor::<Self>(),
            note: note(&input.note, input.actor.as_deref())?.to_string(),
            bulk: None,
        };
        load(engine, tenant, id).await?;
        if let Some(task) = input.task {
            let of_another =
                || invalid("`task` is another task: the one that has done it").at("task");
            if task == id {
                return Err(of_another());
            }
            let found = load(engine, tenant, task).await;
            found.map_err(|refused| match refused.code() {
                ProblemCode::NoSuchTask => of_another(),
                _ => refused,
            })?;
        }
        Ok(operator::resolve(engine, id, resolution).await?)
    }
}

impl Run for RetryTask {
    async fn run(cx: Cx, id: TaskId, input: RetryRequest) -> Result<OperatorAnswer, Refused> {
        let retrial = Retrial {
            direction: input.direction,
            edit: edit(input.request, input.patch)?,
            actor: cx.actor::<Self>(),
            note: note(&input.note, input.actor.as_deref())?.to_string(),
            bulk: None,
        };
        load(&cx.engine, &cx.caller.tenant, id).await?;
        Ok(operator::retry(&cx.engine, id, retrial).await?)
    }
}

impl Run for SetRecoveries {
    async fn run(
        cx: Cx,
        id: TaskId,
        input: RecoveriesRequest,
    ) -> Result<RecoveriesAnswer, Refused> {
        let recount = Recount {
            attempts: input.recovery_attempts,
            actor: cx.actor::<Self>(),
            note: note(&input.note, input.actor.as_deref())?.to_string(),
        };
        load(&cx.engine, &cx.caller.tenant, id).await?;
        Ok(operator::set_recoveries(&cx.engine, id, recount).await?)
    }
}

/// What is to be different in a request.
///
/// # Errors
/// Where it is said in both ways.
pub fn edit(request: Option<Value>, patch: Option<Value>) -> Result<Option<RequestEdit>, Refused> {
    match (request, patch) {
        (Some(_), Some(_)) => {
            let detail = "send the whole `request`, or a `patch` of it, and not both";
            Err(invalid(detail).at("patch"))
        }
        (request, patch) => Ok(request
            .map(RequestEdit::Whole)
            .or(patch.map(RequestEdit::Patch))),
    }
}

impl From<OperatorError> for Refused {
    fn from(error: OperatorError) -> Self {
        let detail = error.to_string();
        match error {
            OperatorError::Gone => no_such_task(),
            OperatorError::UnknownType => unknown_type(),
            OperatorError::Change(ChangeError::Condemned) => Self::new(
                ProblemCode::InvalidOutput,
                "the output names objects of an attempt that a sweep has taken: name others, or let the step run again",
            )
            .at("output"),
            OperatorError::Change(error) => error.into(),
            OperatorError::NotParked(TaskStatus::Resolved) => Self::new(
                ProblemCode::AlreadyResolved,
                "there is nothing left to decide: see the task's audit for who did",
            ),
            OperatorError::NotParked(status) => Self::new(
                ProblemCode::NotParked,
                format!(
                    "the task is {status}; only dead_lettered and compensation_failed wait for a decision: see its /why"
                ),
            ),
            OperatorError::Edit(error) => error.into(),
            OperatorError::NotEditable(_) => Self::new(ProblemCode::RequestNotChangeable, detail),
            OperatorError::Moved => Self::new(ProblemCode::NotParked, detail),
            OperatorError::Ended(_) => Self::new(ProblemCode::AlreadyEnded, detail),
            OperatorError::TooMany { .. } => invalid(detail).at("recovery_attempts"),
            OperatorError::NoSuchStep(_) => Self::new(ProblemCode::NoSuchStep, detail).at("step"),
            OperatorError::NotSettleable(_) => Self::new(ProblemCode::NotSettleable, detail),
            OperatorError::NoWayForward => Self::new(
                ProblemCode::NoWayForward,
                "its undo has begun: leave `direction` out to try the undo again, or resolve the task",
            )
            .at("direction"),
            OperatorError::Output(error) => {
                let at = match &*error.pointer {
                    "." => "output".to_owned(),
                    pointer => format!("output.{pointer}"),
                };
                Self::new(ProblemCode::InvalidOutput, error.message).at(at)
            }
        }
    }
}

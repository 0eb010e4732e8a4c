//! Decisions about parked tasks. What may be decided where is the judge's; here its refusals get
//! words that say what can be done instead.

use super::why::children;
use crate::admission::places::key_of;
use crate::change::{Author, ChangeError};
use crate::client::request_edit::{EditError, RequestEdit};
use crate::draft::{Decision, Draft, will_undo};
use crate::engine::Engine;
use crate::record::TaskRecord;
use crate::record::load;
use crate::saga::Illegal;
use crate::task::{RequestError, TaskType};
use counterstep_contracts::operator::OperatorAnswer;
use counterstep_contracts::{
    Direction, Rev, Settled, SettledAs, StepStatus, TaskId, TaskStatus, UndoDecl,
};
use futures::future::BoxFuture;
use serde_json::Value;

/// What a person says has become of a parked task, or of one of its steps.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// The step; `None`: the whole task.
    pub step: Option<String>,
    /// What has become of it.
    pub settled: SettledAs,
    /// The step's output, with [`SettledAs::Done`].
    pub output: Option<Value>,
    /// The task that has done it, with [`SettledAs::Redriven`]. It is there, and of the same tenant.
    pub task: Option<TaskId>,
    /// Who, as the audit is to say it.
    pub actor: String,
    /// Reason, for the audit.
    pub note: String,
    /// Where it is one of many: of which.
    pub bulk: Option<OfBulk>,
}

/// The order that a parked task continues without an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retrial {
    /// Which way; `None`: the one in which it gave up.
    pub direction: Option<Direction>,
    /// What is to be different in its request, where it goes forward.
    pub edit: Option<RequestEdit>,
    /// Who, as the audit is to say it.
    pub actor: String,
    /// Reason, for the audit.
    pub note: String,
    /// Where it is one of many: of which.
    pub bulk: Option<OfBulk>,
}

/// The bulk operation that a decision belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfBulk {
    /// Id of the operation.
    pub id: String,
    /// The revision of the task for which it was decided: at another one it is refused.
    pub rev: Rev,
}

/// A decision was refused.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// No such task.
    #[error("there is no such task")]
    Gone,
    /// This process does not know its type, or not in its definition.
    #[error("this process does not know the task's type as the task was submitted under it")]
    UnknownType,
    /// It does not wait for a person; in this state.
    #[error("the task is {0}")]
    NotParked(TaskStatus),
    /// It has ended; so.
    #[error("the task is {0}: no host will have it again")]
    Ended(TaskStatus),
    /// More lost hosts than its type allows.
    #[error("{asked} lost hosts are more than its type allows: expected 0 to {allowed}")]
    TooMany {
        /// The count that was asked for.
        asked: u32,
        /// `max_recoveries`.
        allowed: u32,
    },
    /// Its type has no step of this name.
    #[error("the task has no such step; it has {0}")]
    NoSuchStep(String),
    /// The step, or the task, cannot be settled like that in its state.
    #[error("{0}")]
    NotSettleable(String),
    /// Once compensating, no forward step ever runs again.
    #[error("the task is being undone: no step of it runs forward again")]
    NoWayForward,
    /// The output does not fit.
    #[error("the output does not fit: {0}")]
    Output(RequestError),
    /// Its request cannot be changed, or not so.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// Its request cannot be changed in its state.
    #[error("{0}")]
    NotEditable(String),
    /// It is not at the revision for which a bulk operation decided.
    #[error("the task has changed since the operation has chosen it")]
    Moved,
    /// The store, or a race.
    #[error(transparent)]
    Change(ChangeError),
}

type Decided = Result<OperatorAnswer, OperatorError>;

/// What the rules say of a decision; the outer error is the judge's.
pub(super) type Ruled = Result<Result<(), OperatorError>, Illegal>;

/// Settles a parked task, or one step of it, by hand.
///
/// # Errors
/// [`OperatorError`].
pub fn resolve(engine: &Engine, task: TaskId, resolution: Resolution) -> BoxFuture<'_, Decided> {
    Box::pin(async move {
        let actor = resolution.actor.clone();
        let rev = resolution.bulk.as_ref().map(|of| of.rev);
        if let Some(output) = &resolution.output {
            let fits = engine.settings.output_limit.check(output);
            fits.map_err(|error| OperatorError::Output(RequestError::new(".", error.message)))?;
        }
        let parked = Parked::read(engine, task, rev).await?;
        parked.children_have_ended(&resolution).await?;
        parked
            .decide(&actor, move |task_type, draft| {
                settle(task_type, draft, &resolution)
            })
            .await
    })
}

/// Lets a parked task go on: with its retries anew, the way it gave up or back.
///
/// # Errors
/// [`OperatorError`].
pub fn retry(engine: &Engine, task: TaskId, retrial: Retrial) -> BoxFuture<'_, Decided> {
    Box::pin(async move {
        let actor = retrial.actor.clone();
        let rev = retrial.bulk.as_ref().map(|of| of.rev);
        let parked = Parked::read(engine, task, rev).await?;
        parked
            .decide(&actor, move |task_type, draft| {
                go_on(engine, task_type, draft, &retrial)
            })
            .await
    })
}

/// Settles the draft's task, or a step of it, or says why not. Whether tasks that it has submitted go on is known to the store alone.
///
/// # Errors
/// As the judge says.
pub fn settle(task_type: &TaskType, draft: &mut Draft, resolution: &Resolution) -> Ruled {
    // Another decision came first.
    if !draft.status().is_parked() {
        return Ok(Err(OperatorError::NotParked(draft.status())));
    }
    let refused = |why: &str| Ok(Err(OperatorError::NotSettleable(why.to_owned())));
    let decision = Decision {
        note: resolution.note.clone(),
        bulk: resolution.bulk.as_ref().map(|of| of.id.clone()),
    };
    let is_named = resolution.task.is_some();
    if is_named != (resolution.settled == SettledAs::Redriven) {
        return refused("`redriven` names the task that has done it, and only `redriven` does");
    }
    match &resolution.step {
        Some(step) => settle_step(task_type, draft, step, resolution, &decision),
        None if resolution.output.is_some() => {
            refused("an output is of one step: name the step, or leave the output out")
        }
        None => {
            let settled = Settled {
                settled: resolution.settled,
                task: resolution.task,
            };
            draft.resolve_task(settled, &decision).map(Ok)
        }
    }
}

/// Lets the draft's task go on, or says why not.
///
/// # Errors
/// As the judge says.
pub fn go_on(engine: &Engine, task_type: &TaskType, draft: &mut Draft, retrial: &Retrial) -> Ruled {
    if !draft.status().is_parked() {
        return Ok(Err(OperatorError::NotParked(draft.status())));
    }
    let decision = Decision {
        note: retrial.note.clone(),
        bulk: retrial.bulk.as_ref().map(|of| of.id.clone()),
    };
    let parked_going_forward = draft.status() == TaskStatus::DeadLettered;
    let forward = parked_going_forward && retrial.direction != Some(Direction::Undo);
    let request = match retrial
        .edit
        .as_ref()
        .map(|edit| edited(task_type, draft, edit))
    {
        Some(_) if !forward => {
            let why =
                "only what goes forward is given another request: an undo takes back what was done";
            return Ok(Err(OperatorError::NotEditable(why.to_owned())));
        }
        Some(Err(error)) => return Ok(Err(error)),
        Some(Ok(request)) => request,
        None => None,
    };
    if let Some(request) = &request {
        let tenant = draft.record().task.tenant.clone();
        match key_of(engine, task_type, &tenant, request) {
            Ok(key) => draft.task_mut().place_key = key,
            Err(error) => return Ok(Err(OperatorError::NotEditable(error.to_string()))),
        }
    }
    match (parked_going_forward, retrial.direction) {
        (true, None | Some(Direction::Forward)) => draft.redrive(request, &decision).map(Ok),
        (true, Some(Direction::Undo)) => draft.undo_parked(&decision).map(Ok),
        (false, None | Some(Direction::Undo)) => draft.retry_undo(&decision).map(Ok),
        (false, Some(Direction::Forward)) => Ok(Err(OperatorError::NoWayForward)),
    }
}

/// The request that steps are given from now on; `None`: it stays.
fn edited(
    task_type: &TaskType,
    draft: &Draft,
    edit: &RequestEdit,
) -> Result<Option<Value>, OperatorError> {
    let record = draft.record();
    if let Some(row) = record.fixes_request() {
        let why = format!(
            "step `{}` has submitted tasks by the request as it is: it cannot be changed before the step has completed",
            row.name
        );
        return Err(OperatorError::NotEditable(why));
    }
    let request = edit.of(&record.task.request, task_type.read_request)?;
    Ok((request != record.task.request).then_some(request))
}

/// A parked task, for a decision about it.
struct Parked<'a> {
    engine: &'a Engine,
    task_type: TaskType,
    record: TaskRecord,
    /// The only revision that it is decided about.
    only_at: Option<Rev>,
}

impl<'a> Parked<'a> {
    async fn read(
        engine: &'a Engine,
        task: TaskId,
        only_at: Option<Rev>,
    ) -> Result<Self, OperatorError> {
        let record = load::read(engine, task)
            .await
            .map_err(|error| OperatorError::Change(error.into()))?;
        let record = record.ok_or(OperatorError::Gone)?;
        if only_at.is_some_and(|only_at| record.task.rev != only_at) {
            return Err(OperatorError::Moved);
        }
        if !record.task.status.is_parked() {
            return Err(OperatorError::NotParked(record.task.status));
        }
        let task_type = engine
            .registry
            .of(&*record.task)
            .ok_or(OperatorError::UnknownType)?;
        Ok(Self {
            engine,
            task_type,
            record,
            only_at,
        })
    }

    /// Whether no task goes on that is undone with what is to be settled: once that is settled, nothing would undo it.
    // One that goes on may end meanwhile; one that has ended goes on again only where its parent is undone.
    async fn children_have_ended(&self, resolution: &Resolution) -> Result<(), OperatorError> {
        let is_settled = |name: &str| match &resolution.step {
            // Its undo has given up on tasks that could not be told to stop.
            Some(_) if resolution.settled != SettledAs::Done => false,
            Some(step) => step == name,
            None => true,
        };
        let store = &self.engine.ports.store;
        let steps = self.task_type.decl.steps.iter().zip(&self.record.steps);
        for (decl, row) in steps {
            let are_undone_with = decl.has_children() && decl.undo == UndoDecl::BuiltIn;
            let waits_for_none = row.children.is_none() || row.status == StepStatus::Resolved;
            if !are_undone_with || waits_for_none || !is_settled(decl.name) {
                continue;
            }
            let open = children::open_of(store, self.record.task.id, row).await;
            if let Some(open) = open.map_err(|error| OperatorError::Change(error.into()))? {
                return Err(OperatorError::NotSettleable(format!(
                    "tasks that step `{}` has submitted have not ended, and nothing would undo them any more: {open}; \
                     wait for their end, or retry the task with the direction `undo`, which stops them",
                    decl.name
                )));
            }
        }
        Ok(())
    }

    async fn decide(
        self,
        actor: &str,
        mut decide: impl FnMut(&TaskType, &mut Draft) -> Ruled,
    ) -> Decided {
        let Self {
            engine,
            task_type,
            record,
            only_at,
        } = self;
        let changed = engine.change(Author::client(actor), &task_type, record, |draft| {
            if only_at.is_some_and(|only_at| draft.record().task.rev != only_at) {
                return Ok(Err(OperatorError::Moved));
            }
            let decided = decide(&task_type, draft)?;
            Ok(decided.map(|()| answer(draft)))
        });
        changed.await.map_err(OperatorError::Change)?.answer
    }
}

fn answer(draft: &Draft) -> OperatorAnswer {
    let status = draft.status();
    let open = match status {
        TaskStatus::CompensationFailed => draft.steps_at(StepStatus::CompensationFailed),
        TaskStatus::DeadLettered => draft.steps_at(StepStatus::Failed),
        TaskStatus::Submitted
        | TaskStatus::Dispatched
        | TaskStatus::Running
        | TaskStatus::Waiting
        | TaskStatus::Completed
        | TaskStatus::Compensating
        | TaskStatus::Failed
        | TaskStatus::Cancelled
        | TaskStatus::Resolved => Vec::new(),
    };
    let is_undone = status == TaskStatus::Compensating;
    OperatorAnswer {
        task_id: draft.record().task.id,
        status,
        open_steps: open
            .into_iter()
            .map(|at| draft.step(at).name.clone())
            .collect(),
        will_undo: if is_undone {
            will_undo(draft.decl(), draft.record())
        } else {
            Vec::new()
        },
    }
}

fn settle_step(
    task_type: &TaskType,
    draft: &mut Draft,
    step: &str,
    resolution: &Resolution,
    decision: &Decision,
) -> Ruled {
    let Some(at) = draft.decl().steps.iter().position(|decl| decl.name == step) else {
        let known: Vec<_> = draft.decl().steps.iter().map(|step| step.name).collect();
        return Ok(Err(OperatorError::NoSuchStep(known.join(", "))));
    };
    let refused = |why: String| Ok(Err(OperatorError::NotSettleable(why)));
    let status = draft.step(at).status;
    match (draft.status(), resolution.settled) {
        (_, SettledAs::NotNeeded | SettledAs::Redriven) => refused(format!(
            "`{}` is said of a whole task: leave the step out", resolution.settled
        )),
        (TaskStatus::DeadLettered, SettledAs::Done) => {
            if !matches!(status, StepStatus::Failed | StepStatus::InDoubt) {
                return refused(format!(
                    "step `{step}` is {status}: only one that failed or is in doubt is given an output"
                ));
            }
            match (task_type.steps[at].read_output)(resolution.output.clone().unwrap_or(Value::Null)) {
                Ok(output) => draft.supply(at, output, decision).map(Ok),
                Err(error) => Ok(Err(OperatorError::Output(error))),
            }
        }
        (TaskStatus::DeadLettered, SettledAs::Undone | SettledAs::Skipped) => refused(format!(
            "the task is parked going forward, where a step can only be settled as `done`: retry it with the direction \
             `undo` to have step `{step}` undone, or resolve the whole task"
        )),
        (_, SettledAs::Done) => refused(
            "the task is being undone, so no step of it is done any more: settle the step as `undone` or `skipped`"
                .to_owned(),
        ),
        (_, SettledAs::Undone | SettledAs::Skipped) if resolution.output.is_some() => {
            refused("an output goes with `done` only: leave it out".to_owned())
        }
        (_, SettledAs::Undone | SettledAs::Skipped) if status != StepStatus::CompensationFailed => refused(format!(
            "step `{step}` is {status}: only one whose undo gave up is settled; the others follow by themselves"
        )),
        (_, SettledAs::Undone | SettledAs::Skipped) => draft.resolve_undo(at, resolution.settled, decision).map(Ok),
    }
}

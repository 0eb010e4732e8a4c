//! One execution of a step's code, or of its undo's: with its time limit, its cancel token, and a
//! net under panics. Decides nothing about what follows.

use super::code::{self, NotDone};
use super::scratch_use::ScratchUse;
use super::step_body::{forward, may_write, undo};
use super::watch::{Watched, watch};
use crate::admission::heavy::RoomInCode;
use crate::admission::limits::LimitPermit;
use crate::call::ReadOnly;
use crate::cancel::{CancelReason, CancelToken};
use crate::context::{Execution, StepContext};
use crate::engine::Engine;
use crate::engine::faults::{BreakOff, Fault, FaultKind, services_amid, work_amid};
use crate::error::{ErrorClass, StepError, StepResult};
use crate::payloads::in_log;
use crate::plan;
use crate::ports::{CodeLabel, CodePart, IsolatedCode, LogRow, StepProcesses};
use crate::sql::Sql;
use crate::status::progress::Meter;
use crate::status::task_log::AttemptLog;
use crate::status::traces;
use crate::task::{Inputs, Run, StepCode, TaskFacts, TaskType};
use crate::turn::attempt_heartbeats::Liveness;
use counterstep_contracts::{Attempt, Direction, LogPart, Outcome, TaskId, UndoDecl};
use counterstep_steps::times::TimeLeft;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tracing::{Instrument, Span};

/// What is to be executed.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) at: usize,
    pub(crate) execution: Execution,
    pub(crate) inputs: Inputs,
    pub(crate) own_output: Option<Value>,
    /// Whether the step's fallback runs in its place.
    pub(crate) fallback: bool,
    pub(crate) limit: Duration,
    pub(crate) cancel: CancelToken,
    /// What the code sees of its task.
    pub(crate) facts: TaskFacts,
    /// For what it says of its progress.
    pub(crate) meter: Meter,
    /// When it has last said that it is alive.
    pub(crate) beats: Option<Arc<Liveness>>,
    /// For what it logs.
    pub(crate) log: AttemptLog,
    /// Room for a heavy step.
    pub(crate) room: Option<LimitPermit>,
    /// Of the step's limit.
    pub(crate) permit: Option<LimitPermit>,
}

/// How an execution ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) at: usize,
    /// The step's output; `Null` for an undo.
    pub(crate) result: StepResult<Value>,
    /// Its outcome is unknown, since this has stopped it.
    pub(crate) in_doubt: Option<StoppedBy>,
    /// It was a call that provably was never sent.
    pub(crate) unsent: bool,
    /// Objects were stored.
    pub(crate) stored: bool,
    /// Written together with the success, and only then.
    pub(crate) sql: Vec<Sql>,
    /// What it has logged and the store has not. Belongs to the task however the attempt ended.
    pub(crate) log: Option<LogRow>,
}

/// What has stopped an attempt whose outcome is unknown. It uses up no retry, and says nothing of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoppedBy {
    /// Its process shuts down.
    Shutdown,
    /// The lease is lost, or over.
    LeaseLost,
    /// The permit of its limit is lost: another process may have it.
    PermitLost,
}

impl StoppedBy {
    /// `None`: the step has failed, since the task is undone.
    pub(super) const fn of(reason: CancelReason) -> Option<Self> {
        match reason {
            CancelReason::Shutdown => Some(Self::Shutdown),
            CancelReason::LeaseLost => Some(Self::LeaseLost),
            CancelReason::Requested | CancelReason::Sibling => None,
        }
    }

    pub(super) const fn why(self) -> &'static str {
        match self {
            Self::Shutdown => plan::SHUTS_DOWN,
            Self::LeaseLost => {
                "it was stopped when its lease was over: the database did not answer"
            }
            Self::PermitLost => {
                "it was stopped when the permit of its limit was lost: it could not be renewed for a lease"
            }
        }
    }
}

impl Ended {
    /// How the journal will have it, unless the commit is refused.
    pub(super) fn outcome(&self) -> Outcome {
        match &self.result {
            _ if self.in_doubt.is_some() => Outcome::InDoubt,
            Ok(_) => Outcome::Succeeded,
            Err(error) if error.class == ErrorClass::Cancelled => Outcome::Cancelled,
            Err(_) => Outcome::Failed,
        }
    }
}

/// Runs an order to its end.
pub(crate) async fn execute(engine: &Engine, task_type: &TaskType, order: Box<Order>) -> Ended {
    if let Some(permit) = &order.permit {
        permit.started().await;
    }
    let (prepared, work) = prepare(engine, task_type, *order);
    let ran = prepared.run(engine, work).await;
    prepared.conclude(engine, ran)
}

/// An attempt from its start to its end.
struct Prepared {
    task_type: TaskType,
    at: usize,
    task: TaskId,
    step: String,
    direction: Direction,
    attempt: Attempt,
    code: StepCode,
    limit: Duration,
    cancel: CancelToken,
    beats: Option<Arc<Liveness>>,
    log: AttemptLog,
    permit: Option<Arc<LimitPermit>>,
    context: Arc<StepContext>,
    scratch: ScratchUse,
    /// What the author's code logs, and what the process logs of its panic, names the execution by it.
    span: Span,
    traced: Span,
}

/// What its run uses up.
struct CodeRun {
    inputs: Inputs,
    own_output: Option<Value>,
    isolated: Option<(Arc<dyn StepProcesses>, CodePart)>,
    fault: Option<Fault>,
    room: Option<LimitPermit>,
}

/// How its code ended, and what has stopped it.
struct Ran {
    result: StepResult<Value>,
    stopped_by: Option<StoppedBy>,
}

fn prepare(engine: &Engine, task_type: &TaskType, order: Order) -> (Prepared, CodeRun) {
    let Order {
        at,
        execution,
        inputs,
        own_output,
        fallback,
        limit,
        cancel,
        mut facts,
        meter,
        beats,
        log,
        room,
        permit,
    } = order;
    let permit = permit.map(Arc::new);
    let traced = engine.attempt_span(&execution, &mut facts);
    let mut code = task_type.steps[at];
    if let Some(instead) = code.fallback.filter(|_| fallback) {
        code.run = Run::Custom(instead);
    }
    let (task, step, direction, attempt) = (
        execution.task,
        execution.step.clone(),
        execution.direction,
        execution.attempt,
    );
    let settings = &engine.settings;
    let fault = settings.fault_at(&step, LogPart::of(direction), attempt);
    let ports = &engine.ports;
    let objects = match fault.as_ref().map(|fault| fault.kind) {
        Some(FaultKind::FailHalfWay) => Arc::new(BreakOff(ports.objects.clone())),
        _ => ports.objects.clone(),
    };
    let services = match task_type.decl.steps[at].undo {
        UndoDecl::Pure => Arc::new(ReadOnly(ports.services.clone())),
        UndoDecl::BuiltIn | UndoDecl::Function { .. } | UndoDecl::Waived { .. } => {
            ports.services.clone()
        }
    };
    let services = services_amid(fault.as_ref(), services);
    let span = tracing::error_span!(
        "attempt",
        %task,
        task_type = facts.task_type,
        step,
        %direction,
        %attempt,
        trace_id = facts.trace_id(),
    );
    let context = StepContext::new(execution, cancel.clone(), objects, ports.scratch.clone())
        .with_services(services)
        .of_task(facts)
        .limited_by(time_left(engine, limit))
        .measured_by(meter)
        .logged_by(log.for_code());
    // Undo and fallback have no scratch quota: the failed step's files must not make them fail.
    let is_bounded = direction == Direction::Forward && !fallback;
    let most = task_type.decl.steps[at].scratch.filter(|_| is_bounded);
    let work = CodeRun {
        inputs,
        own_output,
        isolated: engine
            .processes_of(task_type, at)
            .zip(own_code(code, direction, fallback)),
        fault,
        room,
    };
    let prepared = Prepared {
        task_type: *task_type,
        at,
        task,
        direction,
        attempt,
        code,
        limit,
        cancel,
        beats,
        log,
        permit,
        context: Arc::new(context),
        scratch: ScratchUse::of(engine, task, &step, most),
        step,
        span,
        traced,
    };
    (prepared, work)
}

impl CodeRun {
    /// Runs the code, and holds something for as long as the code is there, also when nothing waits for it any more.
    fn holding(
        self,
        held: impl Send + 'static,
        prepared: &Prepared,
    ) -> BoxFuture<'static, StepResult<Value>> {
        Box::pin(self.of(prepared).inspect(move |_| drop(held)))
    }

    /// Runs the code, and checks what it hands in.
    fn of(self, prepared: &Prepared) -> impl Future<Output = StepResult<Value>> + Send + use<> {
        let Self {
            inputs,
            own_output,
            isolated,
            fault,
            room: _,
        } = self;
        let &Prepared {
            task_type,
            at,
            task,
            direction,
            code,
            ..
        } = prepared;
        let (context, scratch) = (prepared.context.clone(), prepared.scratch.clone());
        let work = async move {
            let output = match isolated {
                Some((processes, part)) => {
                    let code = IsolatedCode {
                        task_type,
                        at,
                        part,
                        inputs,
                        own_output,
                        context: context.clone(),
                    };
                    processes.run(code).await
                }
                None => match direction {
                    Direction::Forward => forward(code, &context, &inputs).await,
                    Direction::Undo => undo(code, &context, own_output, &inputs).await,
                },
            }?;
            if context.has_sql() {
                may_write(&task_type, at, task, direction, &output)?;
            }
            scratch.check_result().await.map(|()| output)
        };
        work_amid(fault, work)
            .instrument(prepared.span.clone())
            .instrument(prepared.traced.clone())
    }
}

impl Prepared {
    async fn run(&self, engine: &Engine, mut work: CodeRun) -> Ran {
        let label = CodeLabel {
            task: self.task,
            step: self.step.clone(),
            part: part(self.direction),
            attempt: self.attempt,
        };
        let heartbeat = match self.direction {
            Direction::Forward => self.task_type.decl.steps[self.at].heartbeat,
            Direction::Undo => None,
        };
        if let Some(beats) = &self.beats {
            beats.beat();
        }
        let room = work.room.take();
        let room = room.map(|permit| RoomInCode::new(&engine.heavy, permit));
        let in_code = room.as_ref().map(Arc::downgrade);
        let body = work.holding((room, self.permit.clone()), self);
        let watched = Watched {
            limit: self.limit,
            cancel: &self.cancel,
            permit: self.permit.as_deref(),
            heartbeat: heartbeat.zip(self.beats.as_deref()),
            scratch: &self.scratch,
        };
        let over = watch(engine, watched);
        let (result, stopped_by) = match code::run(engine, label, body, over).await {
            Ok(result) => (result, None),
            Err(NotDone::Panicked(panic)) => (Err(StepError::panicked("the code", panic)), None),
            Err(NotDone::Late(late)) => {
                if let Some(room) = in_code.and_then(|room| room.upgrade()) {
                    room.abandon();
                }
                (Err(late.error), late.stopped_by)
            }
        };
        Ran { result, stopped_by }
    }

    fn conclude(self, engine: &Engine, Ran { result, stopped_by }: Ran) -> Ended {
        let Self {
            task,
            step,
            direction,
            attempt,
            context,
            ..
        } = self;
        context.meter().end();
        if let Err(error) = &result {
            let error = in_log(&engine.ports.store, error);
            tracing::warn!(%task, step, %direction, %attempt, error, "attempt ended with an error");
        }
        // An error after the token was cancelled is the cancel's doing, whatever the step calls it.
        let reason = self.cancel.reason();
        let in_doubt = match &result {
            Ok(_) => None,
            Err(_) => reason.and_then(StoppedBy::of).or(stopped_by),
        };
        let result = match (result, reason) {
            (Err(_), Some(_)) => Err(StepError::cancelled()),
            (result, _) => result,
        };
        // The author's own code may have done more than its last call.
        let is_call = direction == Direction::Forward && matches!(self.code.run, Run::BuiltIn(_));
        let unsent = is_call && result.is_err() && context.is_unsent();
        let ended = Ended {
            at: self.at,
            result,
            in_doubt,
            unsent,
            stored: context.objects().written(),
            sql: context.take_sql(),
            log: self.log.end(),
        };
        traces::attempt_ended(&self.traced, ended.outcome(), &ended.result);
        ended
    }
}

/// What is left of a limit that begins now.
pub(super) fn time_left(engine: &Engine, limit: Duration) -> TimeLeft {
    let clock = engine.ports.clock.clone();
    let until = clock.monotonic().saturating_add(limit);
    TimeLeft::read_by(move || until.saturating_sub(clock.monotonic()))
}

/// What a run of code is called in the log.
const fn part(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "run",
        Direction::Undo => "undo",
    }
}

/// Which function of the author's is to run; `None`: the engine does the work.
const fn own_code(code: StepCode, direction: Direction, fallback: bool) -> Option<CodePart> {
    match (direction, code.run, code.undo) {
        (Direction::Forward, Run::Custom(_), _) if fallback => Some(CodePart::Fallback),
        (Direction::Forward, Run::Custom(_), _) => Some(CodePart::Run),
        (Direction::Undo, _, Some(_)) => Some(CodePart::Undo),
        (Direction::Forward, Run::BuiltIn(_), _) | (Direction::Undo, _, None) => None,
    }
}

//! A task: its cancel, what was handed in and put out, and whether its audit is as it was written.

use super::command::{FROM, NOTE, PATCH, REQUEST};
use super::examples::{CHANGED, TASK};
use super::shown::{Cell, Shown, View};
use super::{
    About, Access, BadTarget, Chapter, Operation, OtherAnswer, Param, TASK_ID, TASK_LINKS, Target,
    text,
};
use crate::access::Role;
use crate::http::{
    Accepted, CancelAnswer, CancelOutcome, ChainView, Payloads, SignalAnswer, StepOutput,
};
use crate::run_again::RunAgainRequest;
use crate::{ProblemCode, TaskId, TaskStatus};
use serde_json::{Value, json};

/// A signal of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalOfTask {
    /// The task.
    pub task: TaskId,
    /// The name of the signal, which is that of the step that waits for it.
    pub name: String,
}

impl Target for SignalOfTask {
    const PARAMS: &'static [Param] = &[
        TASK_ID,
        Param {
            name: "name",
            about: "The name of the step that waits",
            schema: text,
            example: "approval",
            ids: None,
        },
    ];

    fn parse(segments: &[&str]) -> Result<Self, BadTarget> {
        let (task, name) = segments.split_at(1);
        Ok(Self {
            task: TaskId::parse(task)?,
            name: name.concat(),
        })
    }

    fn segments(&self) -> Vec<String> {
        vec![self.task.to_string(), self.name.clone()]
    }
}

/// Cancel a task.
#[derive(Debug)]
pub struct CancelTask;
/// Answer a step that waits for a signal.
#[derive(Debug)]
pub struct SendSignal;
/// Run a task that has ended again.
#[derive(Debug)]
pub struct RunTaskAgain;
/// Show what was handed in with a task, and what its steps have put out.
#[derive(Debug)]
pub struct GetPayloads;
/// Check that the audit of a task is as it was written.
#[derive(Debug)]
pub struct CheckAudit;

impl Operation for CancelTask {
    type Target = TaskId;
    type Input = ();
    type Output = CancelAnswer;
    const ABOUT: About = About::delete("cancelTask", "/api/tasks/{id}", Access::Role(Role::Submit))
        .summary(Chapter::Tasks, "Cancel a task: what it has done is undone")
        .preview("/api/tasks/{id}/plan")
        .answers(202, "It will be undone")
        .problems(&[
            ProblemCode::MalformedParameter,
            ProblemCode::NoSuchTask,
            ProblemCode::AlreadyCompleted,
            ProblemCode::AlreadyFailed,
            ProblemCode::BeingUndone,
            ProblemCode::AlreadyResolved,
            ProblemCode::Parked,
            ProblemCode::NotCancellable,
        ])
        .as_client()
        .command(["tasks", "cancel"], &[]);
    const OTHER: Option<OtherAnswer<CancelAnswer>> = Some(OtherAnswer {
        status: 200,
        answers: "It had been cancelled before",
        is_it: |answer| answer.outcome == CancelOutcome::AlreadyCancelled,
        example: || CancelAnswer {
            task_id: TASK,
            status: TaskStatus::Cancelled,
            outcome: CancelOutcome::AlreadyCancelled,
            will_undo: Vec::new(),
        },
        schemas: None,
    });
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(cancelled));

    fn example() -> ((), CancelAnswer) {
        let stopping = CancelAnswer {
            task_id: TASK,
            status: TaskStatus::Running,
            outcome: CancelOutcome::Stopping,
            will_undo: vec!["upload_source_files".to_owned()],
        };
        ((), stopping)
    }
}

impl Operation for SendSignal {
    type Target = SignalOfTask;
    /// Of the type that the step declares.
    type Input = Value;
    type Output = SignalAnswer;
    const ABOUT: About = About::post(
        "sendSignal",
        "/api/tasks/{id}/signals/{name}",
        Access::Role(Role::Submit),
    )
    .summary(Chapter::Tasks, "Answer a step that waits for a signal")
    .answers(202, "The signal is accepted; the same for each repetition")
    .problems(&[
        ProblemCode::MalformedParameter,
        ProblemCode::NoSuchTask,
        ProblemCode::NoSuchSignal,
        ProblemCode::SignalTooLate,
        ProblemCode::SignalTaken,
    ])
    .as_client()
    .command_with_body(["tasks", "signal"], "--body");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(accepted));

    fn example() -> (Value, SignalAnswer) {
        let answer = SignalAnswer {
            task_id: TASK,
            signal: "approval".to_owned(),
            received_at: CHANGED.to_owned(),
        };
        (json!({ "approved": true, "by": "kim" }), answer)
    }
}

impl Operation for RunTaskAgain {
    type Target = TaskId;
    type Input = RunAgainRequest;
    type Output = Accepted;
    const ABOUT: About = About::post(
        "runTaskAgain",
        "/api/tasks/{id}/run-again",
        Access::Role(Role::Operate),
    )
    .summary(
        Chapter::Deciding,
        "Run a task that has ended again, as a new task",
    )
    .answers(202, "The new task is accepted")
    .links(TASK_LINKS)
    .problems(&[
        ProblemCode::MalformedParameter,
        ProblemCode::MalformedIdempotencyKey,
        ProblemCode::InProgress,
        ProblemCode::IdempotencyMismatch,
        ProblemCode::NoSuchTask,
        ProblemCode::NoSuchStep,
        ProblemCode::NotEnded,
        ProblemCode::DeclarationChanged,
        ProblemCode::EffectsUndone,
        ProblemCode::StepNotCompleted,
        ProblemCode::ScratchRead,
        ProblemCode::TasksSubmitted,
        ProblemCode::PayloadErased,
        ProblemCode::FilesGone,
        ProblemCode::TypeDisabled,
        ProblemCode::InvalidLabel,
    ])
    .command(["tasks", "run-again"], &[FROM, REQUEST, PATCH, NOTE])
    .more("its id is printed");
    const SHOWN: Option<Shown<Self::Output>> = Some(Shown::by(super::schedules::accepted));

    fn example() -> (RunAgainRequest, Accepted) {
        let request = RunAgainRequest {
            from: Some("charge".to_owned()),
            request: None,
            patch: Some(json!({ "card": "tok_2" })),
            note: "the client has another card".to_owned(),
            actor: Some("kim".to_owned()),
        };
        let accepted = Accepted {
            task_id: TASK,
            status: TaskStatus::Dispatched,
        };
        (request, accepted)
    }
}

fn accepted(signal: &SignalAnswer) -> View {
    let at = Cell::Time(signal.received_at.clone());
    View::Lines(vec![Cell::Parts(vec!["accepted at ".into(), at])])
}

impl Operation for GetPayloads {
    type Target = TaskId;
    type Input = ();
    type Output = Payloads;
    const ABOUT: About = About::get(
        "getPayloads",
        "/api/tasks/{id}/payloads",
        Access::Role(Role::Read),
    )
    .summary(
        Chapter::Tasks,
        "Show what was handed in with a task, and what its steps have put out",
    )
    .answers(200, "The request and the outputs")
    .problems(&[ProblemCode::MalformedParameter, ProblemCode::NoSuchTask])
    .no_store();

    fn example() -> ((), Payloads) {
        let reserved = StepOutput {
            step: "reserve".to_owned(),
            output: json!({ "reservation": "r-17" }),
        };
        let payloads = Payloads {
            task_id: TASK,
            request: json!({ "seat": "4A" }),
            earlier_requests: Vec::new(),
            outputs: vec![reserved],
        };
        ((), payloads)
    }
}

impl Operation for CheckAudit {
    type Target = TaskId;
    type Input = ();
    type Output = ChainView;
    const ABOUT: About = About::get(
        "checkAudit",
        "/api/tasks/{id}/audit/chain",
        Access::Role(Role::Read),
    )
    .summary(
        Chapter::Tasks,
        "Check that the audit of a task is as it was written",
    )
    .answers(200, "Whether each row is bound to the one before it")
    .problems(&[ProblemCode::MalformedParameter, ProblemCode::NoSuchTask]);

    fn example() -> ((), ChainView) {
        let chain = ChainView {
            task_id: TASK,
            whole: true,
            changes: 5,
            erased: 0,
            head: "6f1c0b5c1d0e8a3f6f1c0b5c1d0e8a3f6f1c0b5c1d0e8a3f6f1c0b5c1d0e8a3f".to_owned(),
        };
        ((), chain)
    }
}

fn cancelled(answer: &CancelAnswer) -> View {
    let undo = match answer.will_undo.is_empty() {
        true => "nothing".to_owned(),
        false => answer.will_undo.join(", "),
    };
    View::Lines(vec![
        format!("{}; will be undone: {undo}", answer.status).into(),
    ])
}

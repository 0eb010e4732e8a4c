//! Why a client's request about one task is refused: a cancellation, a signal, another run of it, a request that is to be
//! changed. Owns which refusal of the engine becomes which code.

use crate::{Refused, invalid, no_such_task, unknown_type};
use counterstep_contracts::{ProblemCode, TaskStatus};
use counterstep_kernel::client::request_edit::EditError;
use counterstep_kernel::client::{AgainError, CannotKeep, Refusal, SignalRefusal, SubmitError};

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        let (code, detail) = match refusal {
            Refusal::Gone => return no_such_task(),
            Refusal::Change(error) => return error.into(),
            Refusal::UnknownType => return unknown_type(),
            Refusal::NotCancellable => (
                ProblemCode::NotCancellable,
                "the declaration of its type does not allow it: wait for the task to end",
            ),
            Refusal::TooLate(status) => match status {
                TaskStatus::Completed => (
                    ProblemCode::AlreadyCompleted,
                    "it is too late to cancel it: its result is there",
                ),
                TaskStatus::Failed => (
                    ProblemCode::AlreadyFailed,
                    "there is nothing left to cancel",
                ),
                TaskStatus::Resolved => (
                    ProblemCode::AlreadyResolved,
                    "there is nothing left to cancel",
                ),
                TaskStatus::CompensationFailed | TaskStatus::DeadLettered => (
                    ProblemCode::Parked,
                    "an operator has to decide what becomes of it",
                ),
                TaskStatus::Compensating => (
                    ProblemCode::BeingUndone,
                    "it failed and is being undone already",
                ),
                // These can all be cancelled, so the kernel never says that it is too late for them.
                TaskStatus::Submitted
                | TaskStatus::Dispatched
                | TaskStatus::Running
                | TaskStatus::Waiting
                | TaskStatus::Cancelled => return Refused::internal("cancelling", &refusal),
            },
        };
        Refused::new(code, detail)
    }
}

impl From<AgainError> for Refused {
    fn from(error: AgainError) -> Self {
        let detail = error.to_string();
        match error {
            AgainError::Gone => no_such_task(),
            AgainError::UnknownType => unknown_type(),
            AgainError::NotEnded(status) if status.is_parked() => Self::new(
                ProblemCode::NotEnded,
                format!(
                    "the task is {status}, and goes on from where it stands: retry it, or resolve it first"
                ),
            ),
            AgainError::NotEnded(_) => Self::new(ProblemCode::NotEnded, detail),
            AgainError::ParentOpen { .. } => Self::new(ProblemCode::NotEnded, detail).at("from"),
            AgainError::Kept(why) => {
                let code = match why {
                    CannotKeep::NoSuchStep(_) => ProblemCode::NoSuchStep,
                    CannotKeep::DeclarationChanged => ProblemCode::DeclarationChanged,
                    CannotKeep::Undone { .. } => ProblemCode::EffectsUndone,
                    CannotKeep::NotCompleted { .. } => ProblemCode::StepNotCompleted,
                    CannotKeep::Submitted(_) => ProblemCode::TasksSubmitted,
                    CannotKeep::Scratch { .. } => ProblemCode::ScratchRead,
                    CannotKeep::Erased(_) => ProblemCode::PayloadErased,
                    CannotKeep::KeyAlone(_) => ProblemCode::FilesGone,
                };
                Self::new(code, detail).at("from")
            }
            AgainError::Edit(error) => error.into(),
            AgainError::Erased => Self::new(ProblemCode::PayloadErased, detail),
            AgainError::FilesGone { .. } => Self::new(ProblemCode::FilesGone, detail),
            // No client sends it now: it fits no type that is there, or a type that has changed.
            AgainError::Submit(SubmitError::Invalid(error)) => {
                invalid(error.message).at(in_request(&error.pointer))
            }
            AgainError::Submit(error) => error.into(),
        }
    }
}

impl From<SignalRefusal> for Refused {
    fn from(refusal: SignalRefusal) -> Self {
        let said = refusal.to_string();
        match refusal {
            SignalRefusal::Gone => no_such_task(),
            SignalRefusal::Change(error) => error.into(),
            SignalRefusal::UnknownType => {
                let detail = "this server does not know the task's type: ask one that runs the program it was submitted to";
                Refused::new(ProblemCode::Unavailable, detail).retry_after(10)
            }
            SignalRefusal::NoSuchSignal { known } if known.is_empty() => Refused::new(
                ProblemCode::NoSuchSignal,
                "tasks of its type wait for no signal",
            )
            .at("name"),
            SignalRefusal::NoSuchSignal { known } => {
                let detail = format!(
                    "tasks of its type wait for {}: a signal has the name of its step",
                    known.join(", ")
                );
                Refused::new(ProblemCode::NoSuchSignal, detail).at("name")
            }
            SignalRefusal::Invalid(error) => {
                Refused::new(ProblemCode::InvalidRequest, error.message).at(error.pointer)
            }
            SignalRefusal::Taken => {
                let detail = "a signal is accepted once, and the same body again gets the same answer: look at the task";
                Refused::new(ProblemCode::SignalTaken, detail)
            }
            SignalRefusal::TooLate { .. } => Refused::new(ProblemCode::SignalTooLate, said),
        }
    }
}

/// A field of the field `request`.
fn in_request(pointer: &str) -> String {
    match pointer {
        "" | "." => "request".to_owned(),
        pointer => format!("request.{pointer}"),
    }
}

impl From<EditError> for Refused {
    fn from(error: EditError) -> Self {
        match error {
            EditError::Invalid(error) => {
                invalid(error.message).at(in_request(&error.pointer.replace(".?", "")))
            }
            EditError::Files => invalid(error.to_string()).at("request"),
        }
    }
}

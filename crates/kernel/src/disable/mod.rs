//! Task types that take no more submissions, because too many of their tasks failed in a row or
//! because an operator disabled them. The rules are in `judge`; `gate` stands before a submission;
//! `keep` writes what follows from failures, from a probe's end, and from what people say. Nothing
//! here touches a task that was accepted: it goes on, or is undone.

mod gate;
mod judge;
mod keep;

pub(crate) use gate::Gate;
pub use gate::Refusal;
pub use judge::{
    Admission, COUNTED, ProbeState, ProbeTimes, TypeStep, TypeVerdict, admit, settle, weigh,
};
pub use keep::{SwitchError, TypeReport};

//! Task types that take no more submissions, because too many of their tasks failed in a row or
//! because an operator disabled them. The rules are in `judge`; `admission` stands before a
//! submission; `switch` writes what follows from failures, from a probe's end, and from what people
//! say. Nothing here touches a task that was accepted: it goes on, or is undone.

pub(crate) mod admission;
mod judge;
mod refusal;
mod switch;

pub use judge::{
    Admission, COUNTED, ProbeState, ProbeTimes, TypeStep, TypeVerdict, admit, settle, weigh,
};
pub use refusal::Refusal;
pub(crate) use switch::weigh_failure;
pub use switch::{TypeDecision, TypeReport, disable_type, enable_type, plan_types, run_types};

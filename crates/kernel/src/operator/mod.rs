//! What people who look after tasks ask of the engine: settle, retry, plan, why. A decision is a
//! change of the task like any other; the two views are worked out from the rows and
//! change nothing.

pub(crate) mod amounts;
mod deploy;
mod known_records;
mod moves;
mod open_effects;
mod set_recoveries;
mod settle;
mod undo_plan;
mod why;

pub use deploy::check_deploy;
pub(crate) use known_records::known_records;
pub use moves::{Taken, taken};
pub use open_effects::{
    STATES as OPEN_EFFECT_STATES, list_open_effects, open_effects, sum_open_effects,
    sum_parked_open_effects,
};
pub use set_recoveries::{Recount, recount, set_recoveries};
pub use settle::{OfBulk, OperatorError, Resolution, Retrial, go_on, resolve, retry, settle};
pub use undo_plan::undo_plan;
pub use why::{
    BreakerFound, ChildrenFound, Surroundings, children_found, surroundings, why, why_among,
    why_unreadable,
};

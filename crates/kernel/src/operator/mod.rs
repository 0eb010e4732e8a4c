//! What people who look after tasks ask of the engine: settle, retry, plan, why. A decision is a
//! change of the task like any other; the two views are worked out from the rows and
//! change nothing.

mod deploy;
mod set_recoveries;
mod settle;
mod undo_plan;
mod why;
mod why_around;
mod why_children;
mod why_facts;
mod why_fetch;
mod why_held;
mod why_hosts;
mod why_moves;
mod why_places;
mod why_reason;
mod why_rows;
mod why_seen;
mod why_step;
mod why_unreadable;

pub use deploy::check_deploy;
pub use set_recoveries::{Recount, set_recoveries};
pub use settle::{OfBulk, OperatorError, Resolution, Retrial, resolve, retry};
pub use undo_plan::undo_plan;
pub use why::{why, why_among};
pub use why_around::surroundings;
pub use why_children::children_found;
pub use why_seen::{BreakerFound, ChildrenFound, Surroundings};
pub use why_unreadable::why_unreadable;

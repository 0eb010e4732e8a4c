//! A turn: claim a task, run what is to be run on this host, commit each result, and stop where the
//! task rests, waits, or goes to another host. The loop around it is trivial (`host`).
//!
//! A turn never runs a step inside a transaction, and nothing drops it half-way.

mod apply;
mod ask_gates;
mod attempt;
mod attempt_ended;
pub(crate) mod attempt_heartbeats;
mod breakers;
mod claim;
mod claimable;
mod code;
mod cut_off;
mod db_time;
mod facts;
mod lease_heartbeat;
mod lease_state;
mod likely;
mod lock;
mod offer;
mod permit_before_claim;
mod permits;
mod probe;
mod read_at;
mod resume;
mod scratch_use;
mod step_body;
mod tokens;
mod turn_end;
mod turn_loop;
pub(crate) mod turn_time;
mod version;
mod wake;
mod watch;

pub(crate) use attempt::{Ended, Order, execute};
pub(crate) use breakers::breaker_of;
#[cfg(test)]
pub(crate) use claim::sizes;
pub(crate) use claim::turn_when;
pub use claim::{turn, turn_for};
pub(crate) use likely::likely_next;
pub use offer::Offer;
pub(crate) use resume::resume;
pub use turn_end::TurnEnd;

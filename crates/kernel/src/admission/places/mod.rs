//! Places among the tasks of a type or a key: how many are under way at a time, over all hosts. A place is held
//! by a task and stands in its row, so that no crash loses one. What is decided is in `decide`; who reads and
//! writes is here and beside. Must not start a task.

mod ask;
mod decide;
mod key;
mod name;
mod replace;
mod standing;
mod wake;

pub(crate) use ask::{Asked, ask};
pub(crate) use decide::free_numbers;
pub(crate) use key::{key_of, named};
pub(crate) use name::limit_name;
pub use name::{TYPE_PREFIX, type_of};
pub(crate) use replace::give_way;
pub use standing::PlaceFound;
pub(crate) use standing::{PlaceWait, standing as place_found};
pub use wake::not_woken;
pub(crate) use wake::wake_after;

use crate::admission::limits;
use crate::engine::Engine;
use counterstep_contracts::Beyond;
use std::time::Duration;

/// How many tasks of a key may be under way, and what becomes of a further one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowed {
    pub(crate) at_once: u32,
    pub(crate) beyond: Beyond,
    /// How long a task waits for another submission of its key, which replaces it.
    pub(crate) debounce: Option<Duration>,
}

/// What is allowed now to tasks of a type: as a person has set it, or as its newest version declares it. `None`:
/// that one counts no tasks.
// Tasks of all versions have places of the same keys. With a number of each version, those that sleep by one number
// would be woken by the other, again and again.
pub(crate) async fn allowed(engine: &Engine, task_type: &str) -> Option<Allowed> {
    let declared = engine.registry.newest(task_type)?.decl.flow.concurrency?;
    let set = limits::set_values_of(engine, &limit_name(task_type)).await;
    Some(Allowed {
        at_once: set.and_then(|set| set.at_once).unwrap_or(declared.at_once),
        beyond: declared.beyond,
        debounce: declared.debounce,
    })
}

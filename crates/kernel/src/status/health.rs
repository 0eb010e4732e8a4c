//! What a process can say of itself without asking a server: for probes, which must not wait.

use crate::engine::Engine;
pub use crate::host::loop_watch::Late;

/// How a process stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// A loop of it hangs.
    pub late: Option<Late>,
    /// Abandoned code occupies as many threads as a part of it has slots: that part takes no task until
    /// some of it returns.
    pub jammed: bool,
    /// The store has taken its last entry in the worker registry. Also where it makes none.
    pub store: bool,
}

/// How this process stands.
#[must_use]
pub fn of(engine: &Engine) -> Health {
    let now = engine.ports.clock.monotonic();
    let late = engine.vitals.late(now, engine.settings.hung_after);
    let registration = engine.registration.known();
    let slots = registration.parts.values().map(|part| part.concurrency);
    let fewest = slots.filter(|slots| *slots > 0).min();
    Health {
        late,
        jammed: fewest.is_some_and(|slots| engine.isolation.abandoned() >= slots),
        store: registration.parts.is_empty()
            || registration.started_at.is_some() && !registration.failing,
    }
}

//! What a process notes on the way of its tasks, in memory alone: turns, and tasks that come to queues and leave them. It is apart from
//! the registry, which reads the notes, as that knows breakers and requests.

use crate::change::transition::Transition;
use crate::engine::Engine;
use crate::workers::queue_window::moved;
use crate::workers::turns::TurnNote;
use counterstep_contracts::TaskId;
use counterstep_contracts::workers::TurnOutcome;
use std::sync::Arc;

/// Notes what a change that this process has written is for the queue of its task.
pub(crate) fn note_change(engine: &Engine, transition: &Transition) {
    if let (Some(write), Some(moved)) = (&transition.task, moved(&transition.audit)) {
        let now = engine.ports.clock.monotonic();
        let mut known = engine.registration.known();
        known.queues.note(&write.row.queue, moved, now);
    }
}

/// Notes a turn of a task of this type that begins.
pub(crate) fn note_turn(engine: &Engine, task: TaskId, task_type: &'static str) -> Arc<TurnNote> {
    let note = TurnNote::of(task, task_type, engine.ports.clock.monotonic());
    engine.registration.known().turns.begin(&note);
    note
}

/// Notes how it has ended.
pub(crate) fn note_turn_end(engine: &Engine, note: &TurnNote, outcome: TurnOutcome) {
    let now = engine.ports.clock.monotonic();
    engine.registration.known().turns.end(note, outcome, now);
}

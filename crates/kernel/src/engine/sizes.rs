//! Sizes of the futures of a task's path: each is moved and dropped once a call, and many are on the heap. The bounds are what
//! was found, rounded up; what makes a future larger is most often a rare call that belongs in a box of its own.

use crate::change::announce::announce;
use crate::change::queue_wait::QueueWait;
use crate::change::transition::Transition;
use crate::draft::Draft;
use crate::engine::Engine;
use crate::record::TaskRecord;
use crate::store::Store;
use crate::turn;
use std::sync::Arc;

/// Bytes of the future that a call returns; the call is never made.
pub(crate) fn bytes<F: Future>(_: impl FnOnce() -> F) -> usize {
    size_of::<F>()
}

/// An argument of a call that is never made.
pub(crate) fn never<T>() -> T {
    unreachable!("no call is made")
}

#[test]
fn futures_of_a_tasks_path_are_small() {
    let engine = || never::<&'static Engine>();
    let store = || never::<&'static Store>();
    let calls = [
        ("load", 256, bytes(|| store().load_for(never(), never()))),
        (
            "commit",
            256,
            bytes(|| store().commit(never(), never::<Arc<Transition>>())),
        ),
        (
            "change",
            1_024,
            bytes(|| {
                let record = never::<Arc<TaskRecord>>();
                engine().change(never(), never(), record, |_| Ok(()))
            }),
        ),
        (
            "announce",
            1_024,
            bytes(|| announce(engine(), never(), never(), QueueWait::Full)),
        ),
        (
            "submission",
            512,
            bytes(|| engine().commit_new(never(), QueueWait::Full)),
        ),
        (
            "attempt",
            3_072,
            bytes(|| turn::execute(engine(), never(), never())),
        ),
    ];
    let values = [
        ("a record", 128, size_of::<TaskRecord>()),
        ("a draft", 1_024, size_of::<Draft>()),
        ("a transition", 1_024, size_of::<Transition>()),
    ];
    let found = [&calls[..], &turn::sizes(), &values].concat();
    for (what, _, bytes) in &found {
        println!("{what:>24} {bytes:>6} bytes");
    }
    let large: Vec<_> = found
        .iter()
        .filter(|(_, most, bytes)| bytes > most)
        .collect();
    assert!(large.is_empty(), "larger than their bounds: {large:?}");
}

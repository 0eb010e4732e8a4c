//! Each fault of a sweep finds the mistake that it is there to find: of each kind of step a type whose code is wrong just
//! there fails its run, and one whose code is right passes the sweep.

mod types;

use counterstep_steps::error::panic_message;
use counterstep_steps::{DistributedTask, Registry};
use counterstep_testkit::Form;
use counterstep_testkit::sweep::{every_fault_amid, faults_amid, one_fault_amid};
use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use types::{
    Calls, DeadLetter, Fails, Falls, Grouped, OnlyIf, Outside, Parent, Plain, Scratches, Waits,
    Writes, Wrong,
};

/// Strikes the type with this fault, or with all of them.
async fn sweep<T: DistributedTask>(wrong: Wrong, fault: Option<&str>) -> Result<(), String> {
    let outside = Outside::of::<T>(wrong);
    let swept = async {
        match fault {
            Some(fault) => one_fault_amid(outside, types::<T>, form::<T>, fault).await,
            None => every_fault_amid(outside, types::<T>, form::<T>).await,
        }
    };
    let swept = AssertUnwindSafe(swept).catch_unwind().await;
    swept.map_err(|panic| panic_message(panic.as_ref()).to_owned())
}

fn types<T: DistributedTask>() -> Registry {
    match T::NAME {
        "Parent" => Registry::new().with::<T>().with::<Plain>(),
        _ => Registry::new().with::<T>(),
    }
}

fn form<T: DistributedTask>() -> Form {
    match T::NAME {
        "Waits" => Form::to::<T>().answer("act", true),
        _ => Form::to::<T>(),
    }
}

/// Faults, by how their names begin and what they hold besides, and the mistakes that each of them finds, of every
/// kind of step.
const FAULTS: [(&str, &str, &[Wrong]); 19] = [
    ("FailBefore at act", "", &[Wrong::NeedsEffect]),
    ("FailHalfWay at act", "", &[Wrong::Forgets]),
    ("FailAfter at act", "", &[Wrong::Forgets, Wrong::Keeps]),
    ("FailTransiently at act", "", &[Wrong::Repeats]),
    ("Panic at act", "", &[Wrong::SkipsLater]),
    ("HangBefore at act", "", &[Wrong::SkipsLater]),
    ("Hang at act", "", &[Wrong::Repeats]),
    ("NoAnswer at act", "", &[Wrong::TakesSilence]),
    ("a host lost at act", "before", &[Wrong::SkipsLater]),
    ("a host lost at act", "after its", &[Wrong::Repeats]),
    (
        "FailTransiently in the undo of act",
        "",
        &[Wrong::UndoneOnce],
    ),
    (
        "FailTransiently in the undo of act",
        " after tell failed",
        &[Wrong::ResultUndoneOnce],
    ),
    ("Panic in the undo of act", "", &[Wrong::KeepsLater]),
    ("HangBefore in the undo of act", "", &[Wrong::KeepsLater]),
    ("Hang in the undo of act", "", &[Wrong::UndoneOnce]),
    ("NoAnswer in the undo of act", "", &[Wrong::TakesSilence]),
    (
        "a host lost in the undo of act",
        "before",
        &[Wrong::KeepsLater],
    ),
    (
        "a host lost in the undo of act",
        "after its",
        &[Wrong::UndoneOnce],
    ),
    // No code of the undo runs, so none is wrong there: the task is parked, whatever the type.
    ("FailBefore in the undo of act", "", &[]),
];

/// Those of a step that is parked when it gives up.
const OF_PARKED: [(&str, &str, &[Wrong]); 2] = [
    (
        "FailTransiently in the undo of act after a person decided it",
        "",
        &[Wrong::Forgets, Wrong::Keeps],
    ),
    (
        "FailTransiently in the undo of act that has done nothing",
        "",
        &[Wrong::NeedsEffect],
    ),
];

const UNDO: [Wrong; 3] = [Wrong::NeedsEffect, Wrong::Forgets, Wrong::Keeps];

/// Mistakes that a type cannot make under a fault whose name holds this, and why.
const CANNOT: [(&str, &str, &[Wrong], &str); 7] = [
    (
        "Fails",
        " at act, in every attempt",
        &UNDO,
        "its declaration leaves what a step that fails has done",
    ),
    (
        "DeadLetter",
        " at act, in every attempt",
        &UNDO,
        "its undo is struck where a person has it undone",
    ),
    (
        "DeadLetter",
        "that has done nothing",
        &[Wrong::KeepsLater],
        "there is no effect to keep",
    ),
    (
        "Waits",
        "",
        &[Wrong::KeepsLater],
        "a wait has no effect of its own",
    ),
    (
        "Writes",
        " at act",
        &[Wrong::Repeats, Wrong::Forgets, Wrong::Keeps],
        "an attempt that does not succeed has written nothing",
    ),
    (
        "Writes",
        " in the undo of act",
        &[Wrong::UndoneOnce, Wrong::ResultUndoneOnce],
        "an attempt of the undo that does not succeed has written nothing",
    ),
    (
        "Writes",
        " in the undo of act, ",
        &[Wrong::KeepsLater],
        "the attempt that failed has written nothing to keep",
    ),
];

/// That a sweep passes the type where its code is right, and that each fault of it finds the mistakes that it is there
/// to find.
async fn assert_found<T: DistributedTask>() {
    if let Err(panic) = sweep::<T>(Wrong::Nowhere, None).await {
        panic!("the code is right: {panic}");
    }
    let outside = Outside::of::<T>(Wrong::Nowhere);
    let struck = faults_amid(outside, types::<T>, form::<T>).await;
    let of_parked = &OF_PARKED[..if T::NAME == "DeadLetter" { 2 } else { 0 }];
    for (begins, holds, mistakes) in FAULTS.iter().chain(of_parked) {
        let is_one = |fault: &&String| fault.starts_with(begins) && fault.contains(holds);
        let faults: Vec<_> = struck.iter().filter(is_one).collect();
        // A wait runs no code on the way forward.
        let runs = T::NAME != "Waits" || begins.contains("undo");
        assert_eq!(faults.is_empty(), !runs, "{begins}{holds}: {struck:#?}");
        for (fault, wrong) in faults
            .iter()
            .flat_map(|it| mistakes.iter().map(move |wrong| (it, *wrong)))
        {
            let cannot = cannot::<T>(fault, wrong);
            match (sweep::<T>(wrong, Some(fault)).await, cannot) {
                (Err(found), None) => {
                    assert!(found.starts_with(fault.as_str()), "{wrong:?}: {found}")
                }
                (Ok(()), Some(_)) => {}
                (Ok(()), None) => panic!("{fault}: {wrong:?} is not found"),
                (Err(found), Some(why)) => panic!("{wrong:?} is found, although {why}: {found}"),
            }
        }
    }
}

fn cannot<T: DistributedTask>(fault: &str, wrong: Wrong) -> Option<&'static str> {
    if wrong == Wrong::TakesSilence && T::NAME != "Calls" {
        return Some("it calls no service");
    }
    let is_one = |(of, holds, wrongs, _): &&(&str, &str, &[Wrong], &str)| {
        *of == T::NAME && fault.contains(holds) && wrongs.contains(&wrong)
    };
    CANNOT.iter().find(is_one).map(|(.., why)| *why)
}

macro_rules! found {
    ($($test:ident: $type:ty;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $test() {
            assert_found::<$type>().await;
        }
    )*};
}

found! {
    mistakes_of_a_plain_step_are_found: Plain;
    mistakes_of_a_step_that_is_parked_are_found: DeadLetter;
    mistakes_of_a_step_that_fails_without_undo_are_found: Fails;
    mistakes_of_a_step_with_a_fallback_are_found: Falls;
    mistakes_of_a_step_in_a_group_are_found: Grouped;
    mistakes_of_a_step_with_a_condition_are_found: OnlyIf;
    mistakes_of_the_undo_of_a_wait_are_found: Waits;
    mistakes_of_a_step_with_scratch_are_found: Scratches;
    mistakes_of_a_step_that_calls_a_service_are_found: Calls;
    mistakes_of_a_step_with_statements_are_found: Writes;
    mistakes_of_a_step_of_a_child_are_found: Parent;
}

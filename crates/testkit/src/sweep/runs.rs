//! The runs of a sweep: which faults strike a step, and what must come of each.

use super::case::{Case, Prepared, Run, assert_struck};
use super::struck::{Doubt, Expected, Struck, Undoing};
use crate::test_task::RunEnd;
use counterstep_contracts::{OnExhausted, OnLost, TaskStatus};
use counterstep_kernel::engine::faults::{Fault, FaultKind};

pub(super) fn forward(runs: &mut Vec<Run>, case: &Case, struck: &Struck) {
    for kind in [
        FaultKind::FailBefore,
        FaultKind::FailHalfWay,
        FaultKind::FailAfter,
    ] {
        runs.push(fails_for_good(case.clone(), *struck, kind));
    }
    // Once only: whether another attempt follows is the policy's business, the outcome must fit
    // either way.
    for kind in [
        FaultKind::FailTransiently,
        FaultKind::Panic,
        FaultKind::HangBefore,
        FaultKind::Hang,
    ] {
        runs.push(fails_once(case.clone(), *struck, kind));
    }
    if case.has_services() {
        runs.push(gets_no_answer(case.clone(), *struck));
    }
    // A host that is lost after a step was committed is one that is lost before the work of the
    // next one.
    for (kind, when) in LOST {
        runs.push(is_lost(case.clone(), *struck, kind, when));
    }
}

/// A host is lost where an attempt hangs.
const LOST: [(FaultKind, &str); 2] = [
    (FaultKind::HangBefore, "before"),
    (FaultKind::Hang, "after"),
];

fn fails_for_good(case: Case, struck: Struck, kind: FaultKind) -> Run {
    let what = format!("{kind:?} at {}, in every attempt", struck.name());
    Run::new(what.clone(), async move {
        let fault = Fault::at(struck.step.name, kind);
        let harness = case.harness().plant(struck.plant(fault.clone()));
        let (task, end) = case.run(harness).await;
        struck.given_up().assert(&task, &end).await;
        assert_struck(&fault);
        case.check(&task, &end, &what).await;
        // What stands is referred to by its step.
        task.assert_no_orphans().await;
        if struck.step.on_exhausted == OnExhausted::Compensate {
            case.assert_no_objects(&task, &end).await;
        }
    })
}

fn fails_once(case: Case, struck: Struck, kind: FaultKind) -> Run {
    let step = struck.step;
    let follows = step.retry.policy.max_retries > 0 || step.fallback.is_some();
    let expected = if follows {
        Expected::Is(TaskStatus::Completed)
    } else {
        struck.given_up()
    };
    let what = format!("{kind:?} at {}, in attempt 1", struck.name());
    Run::new(what.clone(), async move {
        let (task, end) = case
            .limited(|harness| {
                let fault = Fault::at(step.name, kind).on_attempt(1);
                Prepared(harness.plant(struck.plant(fault.clone())), Some(fault))
            })
            .await;
        expected.assert(&task, &end).await;
        case.check(&task, &end, &what).await;
        task.assert_no_orphans().await;
    })
}

fn gets_no_answer(case: Case, struck: Struck) -> Run {
    let kind = FaultKind::NoAnswer;
    let what = format!("{kind:?} at {}, in attempt 1", struck.name());
    Run::new(what.clone(), async move {
        let fault = Fault::at(struck.step.name, kind).on_attempt(1);
        let harness = case.harness().plant(struck.plant(fault));
        let (task, end) = case.run(harness).await;
        // A step that calls no service does not meet their silence, and what one that does makes of it is
        // its own business.
        if end != RunEnd::Rests(TaskStatus::Completed) {
            struck.given_up().assert(&task, &end).await;
        }
        case.check(&task, &end, &what).await;
        task.assert_no_orphans().await;
    })
}

fn is_lost(case: Case, struck: Struck, kind: FaultKind, when: &'static str) -> Run {
    let expected = if struck.decl.on_lost == OnLost::Fail {
        struck.failed()
    } else {
        Expected::Is(TaskStatus::Completed)
    };
    let what = format!(
        "a host lost at {}, in attempt 1, {when} its work",
        struck.name()
    );
    Run::new(what.clone(), async move {
        // What a sibling had stored and not committed is an orphan once its attempt may not write any
        // more.
        let (task, end) = case
            .limited(|harness| {
                let fault = Fault::at(struck.step.name, kind).on_attempt(1);
                Prepared(harness.lose_host(struck.plant(fault)), None)
            })
            .await;
        expected.assert(&task, &end).await;
        case.check(&task, &end, &what).await;
        task.assert_no_orphans().await;
        case.assert_no_objects(&task, &end).await;
    })
}

/// The step has done its work and is to be undone, and then something goes wrong with its undo. Every fault strikes on
/// the first of the ways to it; on the others, which hand the undo another result, those that have it called again and
/// late.
pub(super) fn backward(runs: &mut Vec<Run>, case: &Case, struck: &Struck) {
    for (at, undoing) in struck.undoings().into_iter().enumerate() {
        let once = [
            FaultKind::FailTransiently,
            FaultKind::Panic,
            FaultKind::HangBefore,
            FaultKind::Hang,
        ];
        let first = at == 0;
        for kind in &once[..if first { 4 } else { 2 }] {
            runs.push(undo_fails_once(
                case.clone(),
                *struck,
                undoing.clone(),
                *kind,
            ));
        }
        for &(kind, when) in &LOST[usize::from(!first)..] {
            let undoing = undoing.clone();
            runs.push(undo_is_lost(case.clone(), *struck, undoing, kind, when));
        }
        if first && case.has_services() {
            runs.push(undo_gets_no_answer(case.clone(), *struck, undoing.clone()));
        }
        if first {
            runs.push(undo_gives_up(case.clone(), *struck, undoing));
        }
    }
}

fn undo_fails_once(case: Case, struck: Struck, undoing: Undoing, kind: FaultKind) -> Run {
    let follows = struck.step.undo_retry.policy.max_retries > 0;
    let expected = if follows {
        undoing.undone
    } else {
        struck.undo_failed()
    };
    let what = format!(
        "{kind:?} in the undo of {}{}, in attempt 1",
        struck.name(),
        undoing.why
    );
    Run::new(what.clone(), async move {
        let (task, end) = case
            .limited(|harness| {
                let fault = Fault::at(struck.step.name, kind).in_undo().on_attempt(1);
                let harness = undoing.in_harness(harness);
                Prepared(harness.plant(struck.plant(fault.clone())), Some(fault))
            })
            .await;
        expected.assert(&task, &end).await;
        case.check(&task, &end, &what).await;
        task.assert_no_orphans().await;
    })
}

fn undo_gets_no_answer(case: Case, struck: Struck, undoing: Undoing) -> Run {
    let kind = FaultKind::NoAnswer;
    let what = format!(
        "{kind:?} in the undo of {}{}, in attempt 1",
        struck.name(),
        undoing.why
    );
    Run::new(what.clone(), async move {
        let fault = Fault::at(struck.step.name, kind).in_undo().on_attempt(1);
        let harness = undoing.in_harness(case.harness());
        let (task, end) = case.run(harness.plant(struck.plant(fault))).await;
        // As on the way forward.
        if !undoing.undone.is(&end) {
            struck.undo_failed().assert(&task, &end).await;
        }
        case.check(&task, &end, &what).await;
        task.assert_no_orphans().await;
    })
}

fn undo_is_lost(
    case: Case,
    struck: Struck,
    undoing: Undoing,
    kind: FaultKind,
    when: &'static str,
) -> Run {
    let what = format!(
        "a host lost in the undo of {}{}, in attempt 1, {when} its work",
        struck.name(),
        undoing.why
    );
    Run::new(what.clone(), async move {
        let fault = Fault::at(struck.step.name, kind).in_undo();
        let fault = struck.plant(fault.on_attempt(1));
        let harness = undoing.in_harness(case.harness()).lose_host(fault);
        let (task, end) = case.run(harness).await;
        undoing.undone.assert(&task, &end).await;
        case.check(&task, &end, &what).await;
        task.assert_no_orphans().await;
        case.assert_no_objects(&task, &end).await;
    })
}

fn undo_gives_up(case: Case, struck: Struck, undoing: Undoing) -> Run {
    let kind = FaultKind::FailBefore;
    let what = format!(
        "{kind:?} in the undo of {}{}, in every attempt",
        struck.name(),
        undoing.why
    );
    Run::new(what.clone(), async move {
        let fault = Fault::at(struck.step.name, kind).in_undo();
        let harness = undoing.in_harness(case.harness());
        let harness = harness.plant(struck.plant(fault.clone()));
        let (task, end) = case.run(harness).await;
        struck.undo_failed().assert(&task, &end).await;
        assert_struck(&fault);
        case.check(&task, &end, &what).await;
    })
}

/// The host is lost behind the work of the step, and then something goes wrong with the probe that
/// finds out how far it came.
pub(super) fn in_doubt(runs: &mut Vec<Run>, case: &Case, struck: &Struck) {
    let follows = struck
        .step
        .probe_retry
        .is_none_or(|retry| retry.policy.max_retries > 0);
    for doubt in struck.doubts() {
        let (settled, unknown) = (doubt.settled, doubt.unknown);
        let transient = if follows { settled } else { unknown };
        let at = |kind| Fault::at(struck.step.name, kind).in_probe();
        let once = |kind| at(kind).on_attempt(1);
        let mut faults = vec![
            (once(FaultKind::FailTransiently), transient),
            (at(FaultKind::FailBefore), unknown),
        ];
        // Without a retry it depends on whether the probe calls a service.
        if follows {
            faults.push((once(FaultKind::NoAnswer), settled));
        }
        for (fault, expected) in faults {
            runs.push(probe_fails(case.clone(), *struck, doubt, fault, expected));
        }
        let lost = once(FaultKind::HangBefore);
        runs.push(probe_is_lost(case.clone(), *struck, doubt, lost));
    }
}

fn probe_fails(case: Case, struck: Struck, doubt: Doubt, fault: Fault, expected: Expected) -> Run {
    let when = fault.attempt.map_or("every try", |_| "try 1");
    let what = format!(
        "{:?} in the probe of {}{}, in {when}",
        fault.kind,
        struck.name(),
        doubt.why
    );
    Run::new(what.clone(), async move {
        let silent = fault.kind == FaultKind::NoAnswer;
        let (task, end) = case
            .limited(|harness| {
                let harness = doubt.in_harness(&struck, harness);
                // A probe that calls no service does not meet their silence.
                let must_strike = (!silent).then(|| fault.clone());
                Prepared(harness.plant(struck.plant(fault.clone())), must_strike)
            })
            .await;
        expected.assert(&task, &end).await;
        struck.assert_probed(&task).await;
        if silent && fault.struck() > 0 {
            struck.assert_unanswered(&task).await;
        }
        case.check(&task, &end, &what).await;
        // What an attempt in doubt has stored is kept while it is unknown whether it happened.
        if expected == doubt.settled {
            task.assert_no_orphans().await;
        }
    })
}

fn probe_is_lost(case: Case, struck: Struck, doubt: Doubt, fault: Fault) -> Run {
    let what = format!(
        "a host lost in the probe of {}{}, in try 1",
        struck.name(),
        doubt.why
    );
    Run::new(what.clone(), async move {
        let (task, end) = case
            .limited(|harness| {
                let harness = doubt.in_harness(&struck, harness);
                Prepared(harness.lose_host(struck.plant(fault.clone())), None)
            })
            .await;
        doubt.settled.assert(&task, &end).await;
        struck.assert_probed(&task).await;
        case.check(&task, &end, &what).await;
        task.assert_no_orphans().await;
        case.assert_no_objects(&task, &end).await;
    })
}

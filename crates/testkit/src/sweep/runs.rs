//! The runs of a sweep: which faults strike a step, and what must come of each.

use super::case::{Case, Prepared, Run, assert_struck, named};
use super::struck::{Doubt, Expected, Struck};
use counterstep_contracts::{OnExhausted, OnLost, TaskStatus};
use counterstep_kernel::faults::{Fault, FaultKind};
use futures::FutureExt;

pub(super) fn forward(runs: &mut Vec<Run>, case: &Case, struck: &Struck) {
    let (struck, step) = (*struck, struck.step);
    for kind in [
        FaultKind::FailBefore,
        FaultKind::FailHalfWay,
        FaultKind::FailAfter,
    ] {
        let case = case.clone();
        runs.push(
            async move {
                let what = format!("{kind:?} at {}, in every attempt", struck.name());
                let run = async {
                    let fault = Fault::at(step.name, kind);
                    let harness = case.harness().plant(struck.plant(fault.clone()));
                    let (task, end) = case.run(harness).await;
                    struck.given_up().assert(&task, &end).await;
                    assert_struck(&fault);
                    case.check(&task, &end, &what).await;
                    // What stands is referred to by its step.
                    task.assert_no_orphans().await;
                    if step.on_exhausted == OnExhausted::Compensate {
                        case.assert_no_objects(&task, &end).await;
                    }
                };
                named(&what, run).await;
            }
            .boxed(),
        );
    }
    // Once only: whether another attempt follows is the policy's business, the outcome must fit
    // either way.
    let follows = step.retry.policy.max_retries > 0 || step.fallback.is_some();
    let expected = if follows {
        Expected::Is(TaskStatus::Completed)
    } else {
        struck.given_up()
    };
    for kind in [
        FaultKind::FailTransiently,
        FaultKind::Panic,
        FaultKind::HangBefore,
        FaultKind::Hang,
    ] {
        let case = case.clone();
        runs.push(
            async move {
                let what = format!("{kind:?} at {}, in attempt 1", struck.name());
                let run = async {
                    let (task, end) = case
                        .limited(|harness| {
                            let fault = Fault::at(step.name, kind).on_attempt(1);
                            Prepared(harness.plant(struck.plant(fault.clone())), Some(fault))
                        })
                        .await;
                    expected.assert(&task, &end).await;
                    case.check(&task, &end, &what).await;
                    task.assert_no_orphans().await;
                };
                named(&what, run).await;
            }
            .boxed(),
        );
    }
    // A host that is lost after a step was committed is one that is lost before the work of the
    // next one.
    let undone = struck.decl.on_lost == OnLost::Fail;
    let expected = if undone {
        struck.failed()
    } else {
        Expected::Is(TaskStatus::Completed)
    };
    for (kind, when) in [
        (FaultKind::HangBefore, "before"),
        (FaultKind::Hang, "after"),
    ] {
        let case = case.clone();
        runs.push(
            async move {
                let what = format!(
                    "a host lost at {}, in attempt 1, {when} its work",
                    struck.name()
                );
                let run = async {
                    // What a sibling had stored and not committed is an orphan once its attempt may
                    // not write any more.
                    let (task, end) = case
                        .limited(|harness| {
                            let fault = Fault::at(step.name, kind).on_attempt(1);
                            Prepared(harness.lose_host(struck.plant(fault)), None)
                        })
                        .await;
                    expected.assert(&task, &end).await;
                    case.check(&task, &end, &what).await;
                    task.assert_no_orphans().await;
                    case.assert_no_objects(&task, &end).await;
                };
                named(&what, run).await;
            }
            .boxed(),
        );
    }
}

/// The step has done its work and is to be undone, and then something goes wrong with its undo.
pub(super) fn backward(runs: &mut Vec<Run>, case: &Case, struck: &Struck) {
    let (struck, step) = (*struck, struck.step);
    let follows = step.undo_retry.policy.max_retries > 0;
    for undoing in struck.undoings() {
        let (why, undone) = (&undoing.why, undoing.undone);
        let expected = if follows {
            undone
        } else {
            struck.undo_failed()
        };
        for kind in [
            FaultKind::FailTransiently,
            FaultKind::Panic,
            FaultKind::Hang,
        ] {
            let (case, undoing) = (case.clone(), undoing.clone());
            let what = format!(
                "{kind:?} in the undo of {}{why}, in attempt 1",
                struck.name()
            );
            runs.push(
                async move {
                    let run = async {
                        let (task, end) = case
                            .limited(|harness| {
                                let fault = Fault::at(step.name, kind).in_undo().on_attempt(1);
                                let harness = undoing.in_harness(harness);
                                Prepared(harness.plant(struck.plant(fault.clone())), Some(fault))
                            })
                            .await;
                        expected.assert(&task, &end).await;
                        case.check(&task, &end, &what).await;
                        task.assert_no_orphans().await;
                    };
                    named(&what, run).await;
                }
                .boxed(),
            );
        }
        let (lost, undone_there) = (case.clone(), undoing.clone());
        let what = format!(
            "a host lost in the undo of {}{why}, in attempt 1",
            struck.name()
        );
        runs.push(
            async move {
                let case = lost;
                let run = async {
                    let fault = Fault::at(step.name, FaultKind::Hang);
                    let fault = struck.plant(fault.in_undo().on_attempt(1));
                    let harness = undone_there.in_harness(case.harness()).lose_host(fault);
                    let (task, end) = case.run(harness).await;
                    undone.assert(&task, &end).await;
                    case.check(&task, &end, &what).await;
                    task.assert_no_orphans().await;
                    case.assert_no_objects(&task, &end).await;
                };
                named(&what, run).await;
            }
            .boxed(),
        );
        let case = case.clone();
        let what = format!(
            "FailBefore in the undo of {}{why}, in every attempt",
            struck.name()
        );
        runs.push(
            async move {
                let run = async {
                    let fault = Fault::at(step.name, FaultKind::FailBefore).in_undo();
                    let harness = undoing.in_harness(case.harness());
                    let harness = harness.plant(struck.plant(fault.clone()));
                    let (task, end) = case.run(harness).await;
                    struck.undo_failed().assert(&task, &end).await;
                    assert_struck(&fault);
                    case.check(&task, &end, &what).await;
                };
                named(&what, run).await;
            }
            .boxed(),
        );
    }
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
            let run = probe_fails(case.clone(), *struck, doubt, (fault, expected));
            runs.push(run.boxed());
        }
        let lost = once(FaultKind::HangBefore);
        runs.push(probe_is_lost(case.clone(), *struck, doubt, lost).boxed());
    }
}

async fn probe_fails(
    case: Case,
    struck: Struck,
    doubt: Doubt,
    (fault, expected): (Fault, Expected),
) {
    let when = fault.attempt.map_or("every try", |_| "try 1");
    let what = format!(
        "{:?} in the probe of {}{}, in {when}",
        fault.kind,
        struck.name(),
        doubt.why
    );
    let run = async {
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
    };
    named(&what, run).await;
}

async fn probe_is_lost(case: Case, struck: Struck, doubt: Doubt, fault: Fault) {
    let what = format!(
        "a host lost in the probe of {}{}, in try 1",
        struck.name(),
        doubt.why
    );
    let run = async {
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
    };
    named(&what, run).await;
}

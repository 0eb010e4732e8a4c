//! A worker that goes on over an outage.

use super::{
    Climb, Convoy, Drive, LEASE, Machine, Outing, Plan, THREE_LEASES, Tour, Walk, sealing,
};
use counterstep_adapters::spool::FileSpool;
use counterstep_contracts::{StepStatus, TaskStatus, WaitReason};
use counterstep_kernel::EngineSettings;
use counterstep_kernel::ports::Spool;
use counterstep_kernel::turn::TurnEnd;
use counterstep_testkit::Form;
use counterstep_testkit::clock::until_works;
use counterstep_testkit::many_tasks::eventually;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn plan(form: Form, plan: &Plan) -> Form {
    form.field("first_s", plan.first_s)
        .field("beside_s", plan.beside_s)
        .field("fails", plan.fails)
}

const COMPLETED: TurnEnd = TurnEnd::Rests(TaskStatus::Completed);

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_goes_on_finishes_without_the_database_and_its_result_is_written_once() {
    let (machine, first_s) = (Machine::new().await, 30);
    let process = machine.process();
    let form = plan(
        Form::to::<Drive>(),
        &Plan {
            first_s,
            ..Plan::default()
        },
    );
    let task = machine.submit(form).await;
    let turn = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    let cut = machine.cut();
    machine.clock.advance(THREE_LEASES);
    assert_eq!(process.spool.stats().entries, 0, "it has not ended yet");
    machine.clock.advance("13s");
    process.until_keeps(1).await;
    // Long after that it is still tried.
    machine.clock.advance(THREE_LEASES);
    drop(cut);

    assert_eq!(turn.await.expect("it ends"), COMPLETED);
    machine
        .assert_trail(task, "drive ok, park ok, completed")
        .await;
    let row = machine.record(task).await;
    assert_eq!((row.task.epoch.0, row.task.response), (1, Some(1.into())));
    assert_eq!((machine.drives(), process.spool.stats().entries), (1, 0));
    assert_eq!(process.observed(), [("committed", 1), ("kept", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_stops_is_in_doubt_and_runs_again() {
    let machine = Machine::new().await;
    let process = machine.process();
    let form = plan(
        Form::to::<Walk>(),
        &Plan {
            first_s: 30,
            ..Plan::default()
        },
    );
    let task = machine.submit(form).await;
    let turn = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    let cut = machine.cut();
    machine.clock.advance(THREE_LEASES);
    assert_eq!(turn.await.expect("it ends"), TurnEnd::Lost);
    drop(cut);

    assert_eq!(machine.take_back().await, [task]);
    let again = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    machine.pass_under_lease(task, 30).await;
    assert_eq!(again.await.expect("it ends"), COMPLETED);
    machine
        .assert_trail(task, "walk in doubt, walk ok, completed")
        .await;
    assert_eq!(process.observed(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ends_under_its_lease_is_kept_too_and_a_failure_like_a_success() {
    let machine = Machine::new().await;
    let process = machine.process();
    let form = plan(
        Form::to::<Drive>(),
        &Plan {
            first_s: 1,
            fails: true,
            ..Plan::default()
        },
    );
    let failing = machine.submit(form).await;
    let form = plan(
        Form::to::<Walk>(),
        &Plan {
            first_s: 1,
            ..Plan::default()
        },
    );
    let walking = machine.submit(form).await;
    let turns = [process.turn(failing), process.turn(walking)];
    for task in [failing, walking] {
        machine.until_run(task, 1).await;
        until_works(task).await;
    }
    let cut = machine.cut();
    machine.clock.advance("1s");
    process.until_keeps(2).await;
    machine.clock.advance(LEASE);
    drop(cut);
    // The second attempt drives for a second.
    until_works(failing).await;
    machine.clock.advance("1s");
    for turn in turns {
        assert_eq!(turn.await.expect("it ends"), COMPLETED);
    }
    machine.assert_trail(walking, "walk ok, completed").await;
    machine
        .assert_trail(failing, "drive retries, drive ok, park ok, completed")
        .await;
    assert_eq!((machine.drives(), process.spool.stats().entries), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_steps_side_by_side_one_goes_on_and_the_other_stops_and_starts_anew() {
    let machine = Machine::new().await;
    let process = machine.process();
    let form = plan(
        Form::to::<Tour>(),
        &Plan {
            first_s: 20,
            beside_s: 25,
            ..Plan::default()
        },
    );
    let task = machine.submit(form).await;
    let turn = process.turn(task);
    machine.until_run(task, 2).await;
    until_works(task).await;
    let cut = machine.cut();
    machine.clock.advance(THREE_LEASES);
    // One of them may have begun to work only now.
    eventually("a result in the spool", || async {
        machine.clock.advance("1s");
        (process.spool.stats().entries == 1).then_some(())
    })
    .await;
    drop(cut);
    eventually("the second attempt", || async {
        let row = machine.record(task).await.steps.swap_remove(1);
        (row.attempts.0 == 2).then_some(())
    })
    .await;
    until_works(task).await;
    machine.pass_under_lease(task, 26).await;
    assert_eq!(turn.await.expect("it ends"), COMPLETED);
    let record = machine.record(task).await;
    assert_eq!(record.task.response, Some(serde_json::json!([1, 2])));
    assert_eq!((record.task.epoch.0, record.task.recovery_attempts), (1, 0));
    assert_eq!(process.spool.stats().entries, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_steps_start_that_were_not_there_to_be_stopped() {
    let machine = Machine::new().await;
    // What is told to stop has time to end by itself.
    let process = machine.process_with(EngineSettings {
        cancel_grace: Duration::from_secs(60),
        ..Machine::settings()
    });
    let form = plan(
        Form::to::<Outing>(),
        &Plan {
            first_s: 40,
            beside_s: 30,
            ..Plan::default()
        },
    );
    let task = machine.submit(form).await;
    let turn = process.turn(task);
    machine.until_run(task, 2).await;
    until_works(task).await;
    let before = machine.record(task).await.task.lease_expires_at;
    let cut = machine.cut();
    // One of the two is told to stop, and sings on.
    machine.clock.advance("8s");
    drop(cut);
    eventually("a heartbeat", || async {
        machine.clock.advance("1s");
        let row = machine.record(task).await.task;
        (row.lease_expires_at != before).then_some(())
    })
    .await;
    machine.pass_under_lease(task, 50).await;
    assert_eq!(turn.await.expect("it ends"), COMPLETED);
    let record = machine.record(task).await;
    assert_eq!((record.task.epoch.0, record.task.recovery_attempts), (1, 0));
    machine
        .assert_trail(task, "sing ok, ride ok, go_home ok, completed")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_the_spool_cannot_take_is_in_doubt_as_without_one() {
    let machine = Machine::new().await;
    let spool = FileSpool::open(&machine.folder.path().join("small"), 1, sealing(), &|_| {
        true
    });
    let mut process = machine.process();
    process.engine = process
        .engine
        .clone()
        .spooled_by(Arc::new(spool.expect("a spool")));
    let form = plan(
        Form::to::<Drive>(),
        &Plan {
            first_s: 30,
            ..Plan::default()
        },
    );
    let task = machine.submit(form).await;
    let turn = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    let cut = machine.cut();
    machine.clock.advance("31s");
    assert_eq!(turn.await.expect("it ends"), TurnEnd::StoreDown);
    drop(cut);
    assert_eq!(process.observed(), [("refused", 1)]);
    assert_eq!(machine.take_back().await, [task]);
    assert_eq!(
        machine.trail(task).await,
        "drive in doubt",
        "it is dispatched again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_result_that_was_not_kept_the_audit_says_that_it_had_ended() {
    let machine = Machine::new().await;
    let mut process = machine.process();
    let small = FileSpool::open(&machine.folder.path().join("small"), 1, sealing(), &|_| {
        true
    })
    .expect("a spool");
    process.engine = process.engine.clone().spooled_by(Arc::new(small));
    let form = plan(
        Form::to::<Convoy>(),
        &Plan {
            first_s: 1,
            beside_s: 20,
            ..Plan::default()
        },
    );
    let task = machine.submit(form).await;
    let turn = process.turn(task);
    machine.until_run(task, 2).await;
    until_works(task).await;
    let cut = machine.cut();
    // In small steps, until the commit was given up and the lease is over: the time of the test must not run ahead.
    let steps = AtomicU32::new(0);
    eventually(
        "a spool that takes nothing, and the end of the lease",
        || async {
            machine.clock.advance("200ms");
            let is_over = steps.fetch_add(1, Ordering::Relaxed) >= 40;
            (is_over && process.observed() == [("refused", 1)]).then_some(())
        },
    )
    .await;
    drop(cut);
    machine.pass_under_lease(task, 60).await;
    assert_eq!(turn.await.expect("it ends"), COMPLETED);
    let history = machine.history(task).await;
    let mut entries = history.audit.iter().map(|row| &row.entry);
    let doubt = entries.find(|entry| entry.event == "step_in_doubt");
    let details = doubt.expect("it is in doubt").details.to_string();
    assert!(
        details.contains("its result could not be kept"),
        "{details}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_loses_its_permit_is_in_doubt_and_starts_again_with_one() {
    let machine = Machine::new().await;
    let process = machine.process();
    let form = plan(
        Form::to::<Climb>(),
        &Plan {
            first_s: 60,
            ..Plan::default()
        },
    );
    let task = machine.submit(form).await;
    let turn = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    // The limit can neither be read nor written, and all else can.
    machine.execute("UPDATE documents SET body = 'x' WHERE kind = 'limit'");
    while !turn.is_finished() {
        let before = machine.record(task).await.task.lease_expires_at;
        machine.clock.advance("2s");
        eventually("a heartbeat, or the end of the turn", || async {
            let beat = machine.record(task).await.task.lease_expires_at != before;
            (beat || turn.is_finished()).then_some(())
        })
        .await;
    }
    assert_eq!(turn.await.expect("it ends"), TurnEnd::GivenBack);
    let record = machine.record(task).await;
    let step = &record.steps[0];
    assert_eq!(
        (step.status, step.attempts.0, step.retries_used),
        (StepStatus::InDoubt, 1, 0)
    );
    assert_eq!(record.task.waiting, Some(WaitReason::Limit));

    machine.execute("DELETE FROM documents WHERE kind = 'limit'");
    machine.clock.advance("30s");
    let again = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    machine.pass_under_lease(task, 60).await;
    assert_eq!(again.await.expect("it ends"), COMPLETED);
    machine
        .assert_trail(task, "climb in doubt, climb ok, completed")
        .await;
}

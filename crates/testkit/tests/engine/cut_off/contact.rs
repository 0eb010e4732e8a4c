//! What other processes make of leases that have run out while the database was away.

use super::{Climb, Drive, Machine, THREE_LEASES, Walk};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_kernel::Engine;
use counterstep_kernel::host::outages::keep_watched;
use counterstep_kernel::turn::TurnEnd;
use counterstep_reconciler::{ReconcilerSettings, pass_until, serve};
use counterstep_steps::{CancelReason, CancelToken, Registry};
use counterstep_testkit::Form;
use counterstep_testkit::clock::until_works;
use counterstep_testkit::many_tasks::eventually;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A reconciler that has been there for more than a lease.
async fn reconciler(machine: &Machine) -> (CancelToken, JoinHandle<()>) {
    let shutdown = CancelToken::new();
    let settings = ReconcilerSettings {
        every: Duration::from_millis(500),
        ..ReconcilerSettings::default()
    };
    let serving = tokio::spawn(serve(machine.other(), settings, shutdown.clone()));
    // It takes back what is lost: it knows.
    let lost = machine
        .submit(Form::to::<Drive>().field("first_s", 600))
        .await;
    lose_host(machine, lost).await;
    machine.clock.advance("7s");
    until_taken_back(machine, lost).await;
    (shutdown, serving)
}

/// The worker that runs the task is killed.
async fn lose_host(machine: &Machine, task: TaskId) {
    let process = machine.process();
    let turn = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    turn.abort();
    let _ = turn.await;
    machine.until_written().await;
}

/// Time passes, less than an outage at a time.
async fn until_taken_back(machine: &Machine, task: TaskId) -> u32 {
    let mut tenths = 0;
    eventually("a take-back", || {
        machine.clock.advance("100ms");
        tenths += 1;
        async { (machine.record(task).await.task.epoch.0 == 2).then_some(()) }
    })
    .await;
    tenths / 10
}

async fn stop((shutdown, serving): (CancelToken, JoinHandle<()>)) {
    shutdown.cancel(CancelReason::Shutdown);
    serving.await.expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_a_task_stays_with_a_worker_that_has_gone_on() {
    let machine = Machine::new().await;
    let reconciler = reconciler(&machine).await;
    let process = machine.process();
    let task = machine
        .submit(Form::to::<Drive>().field("first_s", 60))
        .await;
    let turn = process.turn(task);
    machine.until_run(task, 1).await;
    until_works(task).await;
    let cut = machine.cut();
    machine.clock.advance(THREE_LEASES);
    drop(cut);
    eventually("the end of the turn", || async {
        machine.clock.advance("100ms");
        turn.is_finished().then_some(())
    })
    .await;
    assert_eq!(
        turn.await.expect("it ends"),
        TurnEnd::Rests(TaskStatus::Completed)
    );
    machine
        .assert_trail(task, "drive ok, park ok, completed")
        .await;
    assert_eq!(machine.record(task).await.task.epoch.0, 1);
    stop(reconciler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_outage_the_task_of_a_worker_that_is_gone_is_taken_back_a_lease_later() {
    let machine = Machine::new().await;
    let reconciler = reconciler(&machine).await;
    let task = machine
        .submit(Form::to::<Drive>().field("first_s", 60))
        .await;
    lose_host(&machine, task).await;
    let cut = machine.cut();
    machine.clock.advance(THREE_LEASES);
    drop(cut);
    let waited = until_taken_back(&machine, task).await;
    // Half a lease may have gone by until its contact began.
    assert!(waited >= 3, "after {waited}s");
    stop(reconciler).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_pass_waits_for_hosts_that_may_have_been_cut_off_and_for_no_others() {
    let machine = Machine::new().await;
    let (drives, walks) = (
        machine
            .submit(Form::to::<Drive>().field("first_s", 60))
            .await,
        machine
            .submit(Form::to::<Walk>().field("first_s", 60))
            .await,
    );
    lose_host(&machine, walks).await;
    machine.clock.advance(THREE_LEASES);
    let engine = machine.other();
    let pass = || async {
        let (settings, shutdown) = (ReconcilerSettings::default(), CancelToken::new());
        let pass = pass_until(&engine, &settings, &shutdown);
        keep_watched(&engine, pass).await.expect("a pass")
    };
    // It ends without any time passing.
    assert_eq!(pass().await.taken_back, 1);

    lose_host(&machine, drives).await;
    machine.clock.advance(THREE_LEASES);
    let engine = machine.other();
    let (report, ()) = futures::join!(
        async {
            let (settings, shutdown) = (ReconcilerSettings::default(), CancelToken::new());
            let pass = pass_until(&engine, &settings, &shutdown);
            keep_watched(&engine, pass).await.expect("a pass")
        },
        async {
            until_taken_back(&machine, drives).await;
        }
    );
    assert_eq!(report.taken_back, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_process_of_some_types_those_that_go_on_are_waited_for() {
    let machine = Machine::new().await;
    let registry = Registry::new().with::<Climb>().with::<Drive>();
    let only = registry.only(|name, _| name == "Drive");
    let engine = Engine::new(
        machine.ports.clone(),
        Arc::new(only),
        Machine::settings(),
        "other",
    );
    let asked = Box::pin(async {
        tokio::task::yield_now().await;
        engine.known_lost()
    });
    let (known, not_yet) = keep_watched(&engine, asked).await;
    let not_yet: Vec<_> = not_yet.into_iter().map(|(of, _)| of.name).collect();
    assert_eq!((known, not_yet), (Vec::new(), vec!["Drive".to_owned()]));
}

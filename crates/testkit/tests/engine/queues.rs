//! Paused queues, and how many tasks of a tenant wait.

use crate::errand::{Errand, only};
use counterstep_contracts::{Labels, QueueName, TaskStatus, Tenant};
use counterstep_kernel::admission::paused_queues::{pause_queue, queues, resume_queue};
use counterstep_kernel::admission::paused_workers::{Processes, pause_workers, resume_workers};
use counterstep_kernel::admission::{SettingError, SettingOf};
use counterstep_kernel::client::{Submission, SubmitError, UploadSession};
use counterstep_kernel::status;
use counterstep_testkit::clock::until_works;
use counterstep_testkit::many_tasks::eventually;
use counterstep_testkit::{Form, Harness};
use std::time::Duration;

const KIM: &str = "operator:kim";
const NOTE: &str = "the bank moves";

#[tokio::test]
async fn no_task_of_a_paused_queue_is_claimed_and_a_resumed_one_goes_on() {
    let mut site = Harness::embedded(only::<Errand>()).start().await;
    let engine = site.engine.clone();
    let rows = queues(&engine).await.expect("they are read");
    let of_workers = rows.iter().find(|row| row.name.is_of_workers());
    let queue = of_workers.expect("a queue of workers").name.clone();
    let unknown = pause_queue(&engine, &QueueName("unknown".to_owned()), KIM, NOTE).await;
    assert!(
        matches!(unknown, Err(SettingError::Unknown(SettingOf::Queue))),
        "{unknown:?}"
    );
    pause_queue(&engine, &queue, KIM, NOTE)
        .await
        .expect("it is paused");
    let task = site.submit(Form::new()).await;
    site.serve(4);
    let dispatched = TaskStatus::Dispatched;
    let before = site.all_are(dispatched, &[task]).await[0].task.rev;
    // Looks pass, and the task stays as it is.
    site.clock.advance("10s");
    let other = site.submit(Form::new()).await;
    site.all_are(dispatched, &[other]).await;
    assert_eq!(site.record(task).await.task.rev, before);
    let rows = queues(&engine).await.expect("they are read");
    let row = rows
        .iter()
        .find(|row| row.name == queue)
        .expect("the queue");
    let pause = row.paused.clone().expect("it is paused");
    assert_eq!((pause.by.as_str(), pause.note.as_str()), (KIM, NOTE));
    let waiting = row.tasks.iter().find(|count| count.status == dispatched);
    assert_eq!(waiting.map(|count| count.count), Some(2));
    assert!(
        resume_queue(&engine, &queue, KIM, NOTE)
            .await
            .expect("it is resumed")
    );
    assert!(
        !resume_queue(&engine, &queue, KIM, NOTE)
            .await
            .expect("it is read")
    );
    site.clock.advance("2s");
    site.all_are(TaskStatus::Completed, &[task, other]).await;
    site.assert_invariants(&[task, other]).await;
}

#[tokio::test]
async fn a_paused_process_ends_what_it_runs_and_takes_nothing_until_it_is_resumed_also_over_a_restart()
 {
    let mut site = Harness::embedded(only::<Errand>())
        .settings(|settings| settings.machine = "m1".to_owned())
        .start()
        .await;
    let engine = site.engine.clone();
    let processes = |machine: &str, role: &str| Processes {
        machine: machine.to_owned(),
        role: role.to_owned(),
    };
    let here = processes("m1", "test");
    site.serve(4);
    let first = site.submit(Form::new().field("pick_ms", 5_000)).await;
    until_works(first).await;
    for unknown in [processes("m2", "test"), processes("m1", "reconciler")] {
        let refused = pause_workers(&engine, &unknown, KIM, NOTE).await;
        assert!(
            matches!(refused, Err(SettingError::Unknown(SettingOf::Workers))),
            "{refused:?}"
        );
    }
    pause_workers(&engine, &here, KIM, NOTE)
        .await
        .expect("paused");
    site.clock.advance("6s");
    site.all_are(TaskStatus::Completed, &[first]).await;
    // A host of before may have asked for tasks already. The pause outlasts it.
    site.stop().await;
    site.serve(4);
    let other = site.submit(Form::new()).await;
    // Looks pass, and the task stays as it is.
    site.clock.advance("10s");
    engine.ports.clock.sleep(Duration::from_millis(300)).await;
    let waits = site.record(other).await.task;
    assert_eq!(
        (waits.status, waits.lease_owner),
        (TaskStatus::Submitted, None)
    );
    let seen = status::read(&engine).await.expect("it is read").workers;
    let paused = seen.iter().find_map(|it| it.paused.clone());
    assert_eq!(
        paused.map(|it| (it.by, it.note)),
        Some((KIM.to_owned(), NOTE.to_owned()))
    );
    assert!(
        resume_workers(&engine, &here, KIM, NOTE)
            .await
            .expect("resumed")
    );
    assert!(
        !resume_workers(&engine, &here, KIM, NOTE)
            .await
            .expect("it is read")
    );
    site.clock.advance("2s");
    site.all_are(TaskStatus::Completed, &[other]).await;
    site.assert_invariants(&[first, other]).await;
}

#[tokio::test]
async fn beyond_the_most_waiting_tasks_of_a_type_and_tenant_submissions_are_refused() {
    let site = Harness::embedded(only::<Errand>())
        .settings(|settings| settings.max_waiting = Some(3))
        .start()
        .await;
    let begin = |tenant: &str| {
        let by = Submission {
            tenant: Tenant(tenant.to_owned()),
            actor: "client".to_owned(),
            key: None,
            traceparent: None,
            webhook: None,
            labels: Labels::new(),
        };
        let task_type = *site.engine.registry.iter().next().expect("a type");
        let engine = site.engine.clone();
        async move { UploadSession::begin(&engine, task_type, by).await.map(drop) }
    };
    for _ in 0..3 {
        begin("a").await.expect("it is taken");
    }
    let refused = begin("a").await;
    assert!(
        matches!(refused, Err(SubmitError::TooManyWaiting(3))),
        "{refused:?}"
    );
    begin("b").await.expect("another tenant is not refused");
    // None of them has become a task: the next count finds that.
    site.clock.advance("1s");
    eventually("the next count", || async { begin("a").await.ok() }).await;
}

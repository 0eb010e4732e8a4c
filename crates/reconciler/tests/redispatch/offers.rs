//! Tasks that no host claims: when they are offered again, and how often.

use crate::{SHORT, Scene, engine_on, ports, settings};
use counterstep_contracts::TaskStatus;
use counterstep_reconciler::{pass, plan};
use counterstep_testkit::many_tasks::eventually;
use std::time::Duration;
use tokio::task::JoinHandle;

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_is_due_and_that_nobody_polls_for_is_offered() {
    let mut scene = Scene::new().await;
    scene.hears();
    let task = scene.submit(true).await;
    scene.until(task, TaskStatus::Waiting).await;
    scene.clock.advance("1100ms");
    let (_, offered) = scene.pass_until_completed(&[task], SHORT).await;
    assert!(offered >= 1);
    assert_eq!(scene.record(task).await.steps[0].attempts.0, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_comes_for_is_offered_less_and_less_often_by_however_many() {
    const AFTER: Duration = Duration::from_millis(50);
    let scene = Scene::new().await;
    let (first, second) = (scene.submit(false).await, scene.submit(false).await);
    let mut passing = Vec::new();
    for number in 0..3 {
        let (ports, nats) = ports(scene.folder.path(), &scene.prefix, &scene.clock).await;
        let engine = engine_on(ports, &format!("reconciler{number}"));
        passing.push(tokio::spawn(async move {
            let _nats = nats;
            loop {
                pass(&engine, &settings(AFTER)).await.expect("a pass");
            }
        }));
    }
    eventually("five offers of each", || async {
        let few = scene
            .offers(first)
            .await
            .len()
            .min(scene.offers(second).await.len());
        (few >= 5).then_some(())
    })
    .await;
    passing.iter().for_each(JoinHandle::abort);
    for task in [first, second] {
        let offers = scene.offers(task).await;
        for at in 1..offers.len() {
            let (before, now) = (offers[at - 1], offers[at]);
            let least = before.after(offers[0]).clamp(AFTER, AFTER * 16);
            assert!(
                now.after(before) >= least,
                "{at}: {:?} is less than {least:?}",
                now.after(before)
            );
        }
    }
    let server = scene.nats.server_info().expect("a server");
    assert!(server.jetstream);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_what_would_be_offered_and_what_waits_to_be_published() {
    let scene = Scene::new().await;
    let task = scene.submit(false).await;
    let said = plan(&scene.engine, &settings(Duration::ZERO))
        .await
        .expect("a plan")
        .to_string();
    assert!(
        said.contains(&format!(
            "offer task {task} again: it is dispatched, and no host has claimed it"
        )),
        "{said}"
    );
    assert_eq!(scene.offers(task).await.len(), 0, "a plan changes nothing");
    let counts = pass(&scene.engine, &settings(Duration::ZERO))
        .await
        .expect("a pass")
        .counts();
    assert_eq!(counts["offered_again"], 1);
}

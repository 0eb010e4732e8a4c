//! One process, and what comes to queues and leaves them, as people look at both over HTTP.

use crate::site::{Site, eventually};
use crate::workers::{serve, talkative, worker_of};
use counterstep_contracts::http::{Accepted, Page};
use counterstep_contracts::queue::QueueView;
use counterstep_contracts::workers::{FailureShare, TurnOutcome, WorkerDetails};
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_steps::{CancelReason, CancelToken};
use std::time::Duration;

async fn plain(site: &Site, script: &'static str) -> TaskId {
    let accepted: Accepted = site.post("/api/tasks/plain", script).await.json(202);
    accepted.task_id
}

async fn details(
    site: &Site,
    id: &str,
    what: &str,
    so: impl Fn(&WorkerDetails) -> bool,
) -> WorkerDetails {
    eventually(what, || async {
        let found: WorkerDetails = site.get(&format!("/api/workers/{id}")).await.json(200);
        if so(&found) {
            Ok(found)
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_what_it_runs_its_last_turns_and_the_failures_of_those_beside_it() {
    let site = talkative(Duration::ZERO).await;
    site.get("/api/workers/worker:000000000000")
        .await
        .problem(404, "no-such-workers");
    let (engine, stop) = (worker_of(&site), CancelToken::new());
    let serving = serve(&engine, stop.clone());
    let completed = plain(&site, r#"{"finish":["ok"]}"#).await;
    site.until(completed, TaskStatus::Completed).await;
    let failed = plain(&site, r#"{"make":["broken"]}"#).await;
    site.until(failed, TaskStatus::Failed).await;
    let hangs = plain(&site, r#"{"finish":["hang"]}"#).await;
    let found = details(&site, &engine.id, "it runs the last", |it| {
        it.recent.len() == 2 && it.running.iter().any(|task| task.step.is_some())
    })
    .await;
    let [running] = &found.running[..] else {
        panic!("{found:?}");
    };
    assert_eq!(
        (running.task_id, running.task_type.as_deref()),
        (hangs, Some("Plain"))
    );
    let since = running.since.as_deref().expect("a time");
    assert!(since > &*found.recent[0].ended_at, "{found:?}");
    let turns: Vec<_> = found
        .recent
        .iter()
        .map(|it| (it.task_id, it.outcome, it.failed_attempts))
        .collect();
    assert_eq!(
        turns,
        [
            (failed, TurnOutcome::Failed, 1),
            (completed, TurnOutcome::Completed, 0)
        ]
    );
    let share = |failed, turns| FailureShare { failed, turns };
    assert_eq!(found.failures, share(1, 2));
    assert_eq!(
        (found.neighbours.processes, found.neighbours.failures),
        (0, share(0, 0))
    );

    // What the first one gives back, the next one runs: it hangs once.
    stop.cancel(CancelReason::Shutdown);
    serving.await.expect("it stops");
    let next = worker_of(&site);
    let serving = serve(&next, CancelToken::new());
    site.until(hangs, TaskStatus::Completed).await;
    let found = details(&site, &engine.id, "the other has ended a turn", |it| {
        it.neighbours.failures.turns == 1
    })
    .await;
    assert_eq!(
        (found.running.len(), found.failures.failed),
        (0, 1),
        "what it ran last is there once it has stopped: {found:?}"
    );
    assert_eq!(
        (found.recent[0].task_id, found.recent[0].outcome),
        (hangs, TurnOutcome::GivenBack)
    );
    assert_eq!(found.neighbours.processes, 1);
    let found = details(&site, &next.id, "it has ended one", |it| {
        it.recent.len() == 1
    })
    .await;
    assert_eq!(found.failures, share(0, 1));
    assert_eq!(
        found.neighbours.processes, 0,
        "the first one is not alive: {found:?}"
    );
    serving.abort();
}

async fn queue(site: &Site, what: &str, so: impl Fn(&QueueView) -> bool) -> QueueView {
    eventually(what, || async {
        let page: Page<QueueView> = site.get("/api/queues").await.json(200);
        let found = page.items.into_iter().find(|it| it.name == "plain");
        let found = found.expect("it is listed");
        if so(&found) {
            Ok(found)
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_has_its_depth_the_age_of_the_oldest_its_rates_and_when_it_is_empty() {
    let site = talkative(Duration::ZERO).await;
    let note = r#"{"note":"why"}"#;
    site.post("/api/queues/plain/pause", note).await;
    // Four at a time.
    site.run_worker();
    for _ in 0..6 {
        plain(&site, r#"{"finish":["hang"]}"#).await;
    }
    let grows = queue(&site, "six came", |it| it.in_per_minute > 5.9).await;
    assert_eq!(
        (grows.depth, grows.in_per_minute, grows.out_per_minute),
        (6, 6.0, 0.0)
    );
    assert_eq!(grows.empty_in_seconds, None, "none of them leaves");
    site.clock.advance("10m");
    let old = queue(&site, "they came long ago", |it| it.in_per_minute == 0.0).await;
    assert!(old.depth == 6 && old.oldest_seconds >= Some(600), "{old:?}");
    site.post("/api/queues/plain/resume", note).await;
    let shrinks = queue(&site, "four are claimed", |it| {
        it.depth == 2 && it.out_per_minute > 0.79
    })
    .await;
    // Four within the last four to five minutes: two more are gone in half that time.
    assert!(
        shrinks.in_per_minute == 0.0 && shrinks.out_per_minute <= 1.0,
        "{shrinks:?}"
    );
    let empty_in = shrinks.empty_in_seconds.expect("an end");
    assert!((120..=152).contains(&empty_in), "{shrinks:?}");
}

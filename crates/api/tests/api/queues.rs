//! Queues over HTTP: which there are, that a paused one is left alone, and that too many waiting tasks are
//! refused.

use crate::reply::Reply;
use crate::site::Site;
use counterstep_contracts::TaskStatus;
use counterstep_contracts::gate::{GateKind, GateView};
use counterstep_contracts::http::{Accepted, BatchAnswer, BatchOutcome, Page};
use counterstep_contracts::queue::QueueView;
use counterstep_contracts::schedule::ScheduleView;

async fn queue(site: &Site, name: &str) -> QueueView {
    let page: Page<QueueView> = site.get("/api/queues").await.json(200);
    let mut items = page.items.into_iter();
    items.find(|it| it.name == name).expect("it is listed")
}

async fn change(site: &Site, name: &str, what: &str) -> Reply {
    let body = r#"{"note":"the bank moves","actor":"ada"}"#;
    site.post(&format!("/api/queues/{name}/{what}"), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_is_left_alone_until_it_is_resumed() {
    let site = Site::start().await;
    let none = queue(&site, "notes").await;
    assert_eq!((none.paused, none.tasks.len()), (None, 0));
    queue(&site, "uploads.api").await;

    let paused: QueueView = change(&site, "notes", "pause").await.json(200);
    let pause = paused.paused.clone().expect("it is paused");
    assert_eq!(
        (pause.by.as_str(), pause.note.as_str()),
        ("operator", "the bank moves (by ada)")
    );
    assert_eq!(queue(&site, "notes").await, paused);
    let waits = site.submit("/api/tasks/write-note").await;
    site.run_worker();
    // A task of another queue that came later.
    let other = site.submit("/api/tasks/charge-card").await;
    site.until(other, TaskStatus::Completed).await;
    let view = queue(&site, "notes").await;
    assert_eq!(view.tasks, [(TaskStatus::Dispatched, 1)].into());
    let gates: Page<GateView> = site.get("/api/gates").await.json(200);
    let gate = gates.items.into_iter().find(|it| it.name == "notes");
    let gate = gate.expect("it is shut");
    assert_eq!(
        (gate.gate, &*gate.opens, gate.note.as_deref()),
        (
            GateKind::Queue,
            "queues resume notes --note WHY",
            Some("the bank moves (by ada)")
        )
    );
    // Once more is no other pause but a newer word on it.
    let again: QueueView = change(&site, "notes", "pause").await.json(200);
    assert!(again.paused.is_some());

    let resumed: QueueView = change(&site, "notes", "resume").await.json(200);
    assert_eq!(resumed.paused, None);
    site.until(waits, TaskStatus::Completed).await;
    let gates: Page<GateView> = site.get("/api/gates").await.json(200);
    assert!(gates.items.iter().all(|it| it.name != "notes"), "{gates:?}");
    let again: QueueView = change(&site, "notes", "resume").await.json(200);
    assert_eq!(again.paused, None, "one that is not paused stays so");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_queue_and_no_note_is_refused() {
    let site = Site::start().await;
    for what in ["pause", "resume"] {
        for name in ["unheard-of", "notes~backlog", "a%2Fb", "%00", "write-note"] {
            change(&site, name, what)
                .await
                .problem(404, "no-such-queue");
        }
        for (body, pointer) in [
            ("{}", "."),
            (r#"{"note":"x","until":"later"}"#, "until"),
            (r#"{"note":5}"#, "note"),
        ] {
            let refused = site.post(&format!("/api/queues/notes/{what}"), body).await;
            let problem = refused.problem(422, "invalid-request");
            assert_eq!(problem["pointer"], pointer, "{body}");
        }
        let reply = site.get(&format!("/api/queues/notes/{what}")).await;
        reply.problem(405, "method-not-allowed");
        assert_eq!(reply.header("allow"), Some("POST"));
    }
    let page: Page<QueueView> = site.get("/api/queues").await.json(200);
    assert!(page.items.iter().all(|it| it.paused.is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_waiting_tasks_than_may_be_are_429_with_retry_after() {
    let site = Site::with(|_, engine| engine.max_waiting = Some(2)).await;
    let note = r#"{"text":"a"}"#;
    let keyed = async |key: &str| {
        let request = site
            .request("POST", "/api/tasks/write-note")
            .header("content-type", "application/json")
            .header("idempotency-key", key);
        site.send(request.body(note)).await
    };
    for key in ["a", "b"] {
        keyed(key).await.json::<Accepted>(202);
    }
    let refused = keyed("c").await;
    refused.problem(429, "too-many-waiting");
    assert_eq!(refused.header("retry-after"), Some("5"));
    // A repetition is no new task; another type has a count of its own.
    let again = keyed("b").await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    site.submit("/api/tasks/charge-card").await;
    let batch = format!(r#"[{{"request":{note}}}]"#);
    let reply = site.post("/api/tasks/write-note/batch", batch).await;
    let [
        BatchOutcome::Refused {
            problem,
            retry_after,
        },
    ] = &reply.json::<BatchAnswer>(200).items[..]
    else {
        panic!("one that is refused");
    };
    assert_eq!(
        (problem.code.as_str(), *retry_after),
        ("too-many-waiting", Some(5))
    );
    let schedule = r#"{"type":"write-note","cron":"@yearly","request":{"text":"a"}}"#;
    let put = site
        .request("PUT", "/api/schedules/nightly")
        .header("content-type", "application/json")
        .body(schedule);
    site.send(put).await.json::<ScheduleView>(201);
    site.post("/api/schedules/nightly/run", "")
        .await
        .json::<Accepted>(202);
    assert_eq!(site.tasks().await, 4, "a schedule is not held back");
    // The key that was refused is free, once there is room.
    site.run_worker();
    let accepted = crate::site::eventually("there is room", || async {
        let reply = keyed("c").await;
        match reply.status {
            202 => Ok(reply.json::<Accepted>(202)),
            status => Err(status),
        }
    })
    .await;
    site.until(accepted.task_id, TaskStatus::Completed).await;
}

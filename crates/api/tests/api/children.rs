//! Tasks that submit others: what a parent shows of its children, and a child of its parent.

use crate::site::{Site, eventually};
use counterstep_contracts::children::{ParentView, StepChildren};
use counterstep_contracts::http::{
    Accepted, AuditTrail, AuditView, CancelAnswer, ChildSummary, Page, TaskView,
};
use counterstep_contracts::operator::{Why, WhyCode, WhyReason};
use counterstep_contracts::{Host, StepNo, TaskId, TaskStatus, WaitReason};
use counterstep_kernel::turn::turn;
use counterstep_macros::distributed_task;
use counterstep_steps::{
    CancelToken, ForEach, Registry, StepContext, StepError, StepResult, UndoResult,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

pub(crate) fn types(registry: Registry) -> Registry {
    registry.with::<Seat>().with::<Rows>()
}

/// What becomes of a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Act {
    Book,
    /// Waits until it is told to stop.
    Hang,
    /// Gives up for a person to decide.
    Park,
    /// Is booked, and cannot be given back.
    Keep,
}

#[derive(Debug, Serialize, Deserialize)]
struct Booking {
    act: Act,
}

/// A child: its request says what becomes of it.
struct Seat;

#[distributed_task(name = "Seat", version = 1, queue = "seats", cancellable)]
impl Seat {
    type Request = Booking;
    type Response = u8;

    #[step(1, host = "worker", undo = give_back, on_exhausted = "dead_letter")]
    async fn book(ctx: &StepContext, seat: &Booking) -> StepResult<u8> {
        match seat.act {
            Act::Book | Act::Keep => Ok(1),
            Act::Park => Err(StepError::permanent("which seat?")),
            Act::Hang => {
                ctx.cancel().cancelled().await;
                Err(StepError::cancelled())
            }
        }
    }

    async fn give_back(seat: &Booking, _out: Option<u8>) -> UndoResult {
        match seat.act {
            Act::Keep => Err(StepError::permanent("the seat is gone")),
            Act::Book | Act::Hang | Act::Park => Ok(()),
        }
    }

    fn respond(book: &u8) -> u8 {
        *book
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Plan {
    front: Vec<Booking>,
    #[serde(default)]
    back: Vec<Booking>,
    #[serde(default)]
    fails_later: bool,
}

/// A parent with two steps that submit tasks.
struct Rows;

#[distributed_task(name = "Rows", version = 1, queue = "rows", cancellable)]
impl Rows {
    type Request = Plan;
    type Response = usize;

    #[step(1, host = "worker")]
    fn front(plan: &Plan) -> ForEach<Seat> {
        ForEach::of(&plan.front)
    }

    #[step(2, host = "worker")]
    fn back(plan: &Plan) -> ForEach<Seat> {
        ForEach::of(&plan.back)
    }

    #[step(3, host = "worker", no_undo = "it only counts")]
    async fn count(plan: &Plan) -> StepResult<usize> {
        if plan.fails_later {
            return Err(StepError::permanent("the house is closed"));
        }
        Ok(plan.front.len() + plan.back.len())
    }

    fn respond(count: &usize) -> usize {
        *count
    }
}

fn seats(acts: &[Act]) -> Value {
    acts.iter().map(|act| json!({"act": act})).collect()
}

async fn submit(site: &Site, body: Value) -> TaskId {
    let reply = site.post("/api/tasks/rows", body.to_string()).await;
    reply.json::<Accepted>(202).task_id
}

async fn children(site: &Site, parent: TaskId, query: &str) -> Page<ChildSummary> {
    let path = format!("/api/tasks/{parent}/children{query}");
    site.get(&path).await.json(200)
}

async fn view(site: &Site, task: TaskId) -> TaskView {
    site.get(&format!("/api/tasks/{task}")).await.json(200)
}

/// Waits until the given number of children is in each state.
async fn until_they_are(
    site: &Site,
    parent: TaskId,
    counts: &[(&str, TaskStatus, u32)],
) -> TaskView {
    let mut expected: Vec<StepChildren> = Vec::new();
    for &(step, status, tasks) in counts {
        match expected.iter_mut().find(|of| of.step == step) {
            Some(of) => drop(of.by_status.insert(status, tasks)),
            None => expected.push(StepChildren {
                step: step.to_owned(),
                by_status: BTreeMap::from([(status, tasks)]),
            }),
        }
    }
    eventually("the children", || async {
        let view = view(site, parent).await;
        if view.children == expected {
            Ok(view)
        } else {
            Err(format!("{view:?}"))
        }
    })
    .await
}

/// Waits until `why` gives such a reason.
async fn until_because(
    site: &Site,
    task: TaskId,
    of: impl Fn(&WhyReason) -> bool,
) -> (Why, WhyReason) {
    let path = &format!("/api/tasks/{task}/why");
    eventually("the reason", || {
        let of = &of;
        async move {
            let why: Why = site.get(path).await.json(200);
            let found = why.because.iter().find(|because| of(because)).cloned();
            found
                .map(|because| (why.clone(), because))
                .ok_or_else(|| format!("{why:?}"))
        }
    })
    .await
}

fn is(code: WhyCode, end: impl fmt::Display) -> impl Fn(&WhyReason) -> bool {
    let end = end.to_string();
    move |because| because.code == code && because.detail.ends_with(&end)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_shows_its_children_and_a_child_its_parent() {
    let site = Site::start().await;
    site.run_worker();
    let body = json!({"front": seats(&[Act::Book]), "back": seats(&[Act::Hang, Act::Book])});
    let parent = submit(&site, body).await;
    let shown = until_they_are(
        &site,
        parent,
        &[
            ("front", TaskStatus::Completed, 1),
            ("back", TaskStatus::Running, 1),
            ("back", TaskStatus::Completed, 1),
        ],
    )
    .await;
    assert_eq!(shown.parent, None);
    let raw: Value = site.get(&format!("/api/tasks/{parent}")).await.json(200);
    assert_eq!(
        raw["children"],
        json!([
            {"step": "front", "by_status": {"completed": 1}},
            {"step": "back", "by_status": {"completed": 1, "running": 1}},
        ])
    );

    let all = children(&site, parent, "").await.items;
    let hangs = &all[1];
    let of_child: Value = site
        .get(&format!("/api/tasks/{}", hangs.task_id))
        .await
        .json(200);
    assert_eq!(
        of_child["parent"],
        json!({"task_id": parent, "step": 2, "place": 0})
    );
    assert!(of_child.get("children").is_none(), "{of_child}");

    let said = "back waits for tasks that it has submitted: 1 of 2 have ended";
    let of_both = |because: &WhyReason| {
        let (detail, id) = (&because.detail, hangs.task_id);
        // The one that has not ended is named, with what holds it.
        let other = format!("; {id} is running: ");
        because.code == WhyCode::Tasks && detail.starts_with(&format!("{said}{other}"))
    };
    let (why, because) = until_because(&site, parent, of_both).await;
    assert_eq!(why.because.len(), 1, "{why:?}");
    assert_eq!(
        (because.waiting_for, because.steps, because.tasks),
        (
            Some(WaitReason::Children),
            vec!["back".to_owned()],
            vec![hangs.task_id]
        )
    );
    let of_child: Why = site
        .get(&format!("/api/tasks/{}/why", hangs.task_id))
        .await
        .json(200);
    let expected = ParentView {
        task_id: parent,
        step: StepNo(2),
        place: 0,
    };
    assert_eq!((why.parent, of_child.parent), (None, Some(expected)));

    // What a client does to a child is as with any task.
    let booked = format!("/api/tasks/{}", all[0].task_id);
    site.send(site.request("DELETE", &booked))
        .await
        .problem(409, "already-completed");
    let running = format!("/api/tasks/{}", hangs.task_id);
    let answer = site.send(site.request("DELETE", &running)).await;
    answer.json::<CancelAnswer>(202);
    site.until(hangs.task_id, TaskStatus::Cancelled).await;
    let failed = site.until(parent, TaskStatus::Failed).await;
    let failure = failed.failure.expect("a failure");
    assert_eq!(failure.step.as_deref(), Some("back"));
    // Its completed children are undone with it, and both audits tell of it.
    for child in &all {
        site.until(child.task_id, TaskStatus::Cancelled).await;
    }
    let trail = |task: TaskId| {
        let (site, path) = (&site, format!("/api/tasks/{task}/audit"));
        async move { site.get(&path).await.json::<AuditTrail>(200).entries }
    };
    let find = |entries: Vec<AuditView>, event: &str| {
        let found = entries.into_iter().find(|entry| entry.event == event);
        found.unwrap_or_else(|| panic!("no {event}"))
    };
    let submitted = find(trail(parent).await, "children_submitted");
    assert_eq!(submitted.step.as_deref(), Some("front"));
    assert_eq!(
        submitted.details,
        json!({"from": 0, "count": 1, "tasks": [all[0].task_id]})
    );
    let undone = find(trail(all[0].task_id).await, "parent_undone");
    assert_eq!(
        (undone.actor, undone.details),
        (format!("task {parent}"), json!({"parent": parent}))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ends_changes_the_etag_of_its_parent() {
    let site = Site::start().await;
    let parent = submit(&site, json!({"front": seats(&[Act::Book, Act::Book])})).await;
    let stop = CancelToken::new();
    turn(&site.engine, Host::Worker, parent, &stop).await;
    let path = format!("/api/tasks/{parent}");
    let before = site.get(&path).await;
    let (etag, before): (_, TaskView) =
        (before.header("etag").unwrap().to_owned(), before.json(200));
    let again = || site.send(site.request("GET", &path).header("if-none-match", &*etag));
    assert_eq!(again().await.status, 304);
    let child = children(&site, parent, "?limit=1").await.items[0].task_id;
    turn(&site.engine, Host::Worker, child, &stop).await;
    let after: TaskView = again().await.json(200);
    assert_eq!(after.revision, before.revision);
    assert_eq!(
        after.children[0].by_status,
        BTreeMap::from([(TaskStatus::Dispatched, 1), (TaskStatus::Completed, 1)])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn children_are_listed_in_pages_by_step_and_place() {
    let site = Site::start().await;
    site.run_worker();
    let acts = [Act::Park, Act::Hang, Act::Park];
    let body = json!({"front": seats(&[Act::Book, Act::Book]), "back": seats(&acts)});
    let parent = submit(&site, body).await;
    until_they_are(
        &site,
        parent,
        &[
            ("front", TaskStatus::Completed, 2),
            ("back", TaskStatus::Running, 1),
            ("back", TaskStatus::DeadLettered, 2),
        ],
    )
    .await;
    let of = |lines: &[ChildSummary]| -> Vec<(String, u32, TaskStatus)> {
        let line = |line: &ChildSummary| (line.step.clone(), line.place, line.status);
        lines.iter().map(line).collect()
    };
    let line = |step: &str, place, status| (step.to_owned(), place, status);
    let expected = [
        line("front", 0, TaskStatus::Completed),
        line("front", 1, TaskStatus::Completed),
        line("back", 0, TaskStatus::DeadLettered),
        line("back", 1, TaskStatus::Running),
        line("back", 2, TaskStatus::DeadLettered),
    ];
    let all = children(&site, parent, "").await;
    assert_eq!((of(&all.items), all.next_cursor), (expected.to_vec(), None));
    assert_eq!(all.items[2].task_type, "Seat");
    let failure = all.items[2].failure.as_ref().expect("a failure");
    assert_eq!(
        (failure.step.as_deref(), failure.message.as_str()),
        (Some("book"), "which seat?")
    );

    let (mut seen, mut query) = (Vec::new(), "?limit=2".to_owned());
    let cursor = loop {
        let page = children(&site, parent, &query).await;
        seen.push(of(&page.items));
        let Some(cursor) = page.next_cursor else {
            break query.split_once("cursor=").expect("a cursor").1.to_owned();
        };
        query = format!("?limit=2&cursor={cursor}");
    };
    let pages: Vec<_> = expected.chunks(2).map(<[_]>::to_vec).collect();
    assert_eq!(seen, pages);

    for (query, from) in [
        ("?step=back", 2..5),
        ("?status=running", 3..4),
        ("?status=running&status=completed", 0..0),
        ("?step=front&status=dead_lettered", 0..0),
        ("?step=count", 0..0),
    ] {
        let found = of(&children(&site, parent, query).await.items);
        if query.contains("&status=completed") {
            assert_eq!(found, [&expected[..2], &expected[3..4]].concat());
        } else {
            assert_eq!(found, expected[from].to_vec(), "{query}");
        }
    }
    // A task that has submitted none has an empty page.
    let none = children(&site, all.items[0].task_id, "").await;
    assert_eq!((none.items.len(), none.next_cursor), (0, None));

    let path = format!("/api/tasks/{parent}/children");
    for (query, pointer) in [
        ("step=middle", "step"),
        ("step=1", "step"),
        ("step=back&step=back", "step"),
        ("status=done", "status"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("state=running", "state"),
    ] {
        let problem = site.get(&format!("{path}?{query}")).await;
        let problem = problem.problem(422, "invalid-request");
        assert_eq!(problem["pointer"], pointer, "{query}");
    }
    // The cursor of another list, and of other filters.
    for query in [
        "cursor=",
        "cursor=2.0.00",
        &format!("step=back&cursor={cursor}"),
    ] {
        site.get(&format!("{path}?{query}"))
            .await
            .problem(400, "malformed-parameter");
    }
    let other = format!(
        "/api/tasks/{}/children?cursor={cursor}",
        all.items[0].task_id
    );
    site.get(&other).await.problem(400, "malformed-parameter");

    let head = site.send(site.request("HEAD", &path)).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    let unknown = format!("/api/tasks/{}/children", uuid::Uuid::from_u128(1));
    site.get(&unknown).await.problem(404, "no-such-task");
    site.get("/api/tasks/rows/children")
        .await
        .problem(400, "malformed-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn why_names_the_children_for_which_a_person_has_to_decide() {
    let site = Site::start().await;
    site.run_worker();
    let body = json!({"front": seats(&[Act::Book, Act::Park, Act::Park, Act::Park, Act::Park])});
    let parent = submit(&site, body).await;
    let (_, because) = until_because(&site, parent, is(WhyCode::Tasks, ", 1 more")).await;
    let parked = children(&site, parent, "?status=dead_lettered&limit=3").await;
    let parked: Vec<TaskId> = parked.items.iter().map(|line| line.task_id).collect();
    assert_eq!(because.tasks, parked);
    assert_eq!(
        because.detail,
        format!(
            "front waits for tasks that it has submitted: 1 of 5 have ended; a person has to decide about {} \
             (dead_lettered), {} (dead_lettered), {} (dead_lettered), 1 more",
            parked[0], parked[1], parked[2]
        )
    );

    let body = json!({"front": seats(&[Act::Book, Act::Keep]), "fails_later": true});
    let parent = submit(&site, body).await;
    let gave_up = is(WhyCode::Tasks, "(compensation_failed)");
    let (why, because) = until_because(&site, parent, gave_up).await;
    assert_eq!(why.status, TaskStatus::Compensating);
    let line = &children(&site, parent, "?status=compensation_failed")
        .await
        .items[0];
    assert_eq!((line.place, &because.tasks), (1, &vec![line.task_id]));
    // The other one may still be on its way.
    let said = format!(
        "tasks that front has submitted are being undone: 1 of 2 have ended; a person has to decide about {} \
         (compensation_failed)",
        line.task_id
    );
    let (why, _) = until_because(&site, parent, is(WhyCode::Tasks, said)).await;
    assert!(
        why.because
            .iter()
            .all(|because| because.code != WhyCode::Due),
        "{why:?}"
    );

    // Once a person has decided, the parent goes on.
    let settled = r#"{"as":"undone","note":"given back by hand"}"#;
    let resolve = format!("/api/tasks/{}/resolve", line.task_id);
    assert_eq!(site.post(&resolve, settled).await.status, 200);
    site.until(parent, TaskStatus::Failed).await;
}

//! Dead letters in numbers over HTTP: their groups, operations on many of them, and each refusal.

use crate::access::{NOTE, ask, key, locked};
use crate::site::{Site, eventually};
use counterstep_contracts::access::Role;
use counterstep_contracts::bulk::{BulkAction, BulkPreview, BulkStatus, BulkView};
use counterstep_contracts::groups::DeadLetterGroups;
use counterstep_contracts::http::{Accepted, AuditTrail, Page, TaskView};
use counterstep_contracts::open_effects::{OpenEffectKind, OpenEffectSums, OpenEffects};
use counterstep_contracts::pace::{BulkTask, PausedFor};
use counterstep_contracts::{Host, TaskId, TaskStatus};
use std::collections::BTreeSet;
use std::time::Duration;

const OPERATIONS: &str = "/api/bulk-operations";

async fn with_dead_letters(count: usize) -> (Site, Vec<TaskId>) {
    let site = Site::start().await;
    site.run_worker();
    let mut tasks = Vec::new();
    for _ in 0..count {
        tasks.push(site.submit("/api/tasks/asks-a-person").await);
    }
    for task in &tasks {
        site.until(*task, TaskStatus::DeadLettered).await;
    }
    // Ids of one millisecond are in no order of time, and lists go by id.
    tasks.sort_unstable();
    (site, tasks)
}

async fn groups(site: &Site, query: &str) -> DeadLetterGroups {
    let path = format!("/api/dead-letters/groups{query}");
    site.get(&path).await.json(200)
}

async fn ended(site: &Site, id: &str) -> BulkView {
    eventually("the operation has ended", || async {
        let view: BulkView = site.get(&format!("{OPERATIONS}/{id}")).await.json(200);
        if view.status.has_ended() {
            Ok(view)
        } else {
            Err(format!("{view:?}"))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_counted_looked_at_and_settled() {
    let (site, tasks) = with_dead_letters(3).await;
    let other = site.submit("/api/tasks/cannot-undo").await;
    site.until(other, TaskStatus::CompensationFailed).await;
    let found = groups(&site, "").await;
    assert_eq!(
        (found.groups.len(), found.counted, found.complete),
        (2, 4, true)
    );
    let group = &found.groups[0];
    assert_eq!((group.count, group.step.as_deref()), (3, Some("judge")));
    assert_eq!(group.text, "only a person can judge this");
    assert_eq!(group.cause.to_string(), "judge: permanent");
    assert_eq!(
        found.groups[1].cause.to_string(),
        "undo of reserve: permanent"
    );
    assert_eq!(group.by_status[&TaskStatus::DeadLettered], 3);
    assert_eq!(
        groups(&site, "?status=compensation_failed").await.counted,
        1
    );
    assert_eq!(
        groups(&site, "?type=asks-a-person").await.groups,
        found.groups[..1]
    );
    assert_eq!(groups(&site, "?label=order=1").await.counted, 0);

    let body = |more: &str| {
        format!(
            r#"{{"action":"resolve","as":"skipped","group":"{}","note":"not needed","actor":"kim"{more}}}"#,
            group.id
        )
    };
    let counted: BulkPreview = site
        .post(OPERATIONS, body(r#","preview":true"#))
        .await
        .json(200);
    assert_eq!(
        (counted.count, counted.complete, counted.tasks.len()),
        (3, true, 3)
    );
    assert_eq!((counted.causes.len(), &counted.causes[0]), (1, group));
    assert_eq!(
        (counted.group.as_ref(), counted.undo),
        (Some(&group.id), None)
    );
    let none: Page<BulkView> = site.get(OPERATIONS).await.json(200);
    assert!(none.items.is_empty(), "a preview starts nothing");
    let started: BulkView = site.post(OPERATIONS, body("")).await.json(202);
    assert_eq!(
        (started.status, started.left),
        (BulkStatus::Running, Some(3))
    );
    let view = ended(&site, &started.id).await;
    assert_eq!(
        (view.status, view.done, view.left),
        (BulkStatus::Done, 3, Some(0))
    );
    for task in tasks {
        let view: TaskView = site.get(&format!("/api/tasks/{task}")).await.json(200);
        assert_eq!(view.status, TaskStatus::Resolved);
        let trail: AuditTrail = site
            .get(&format!("/api/tasks/{task}/audit"))
            .await
            .json(200);
        let last = trail.entries.last().expect("an entry");
        assert_eq!(last.details["note"], "not needed (by kim)");
        assert_eq!(last.details["bulk_operation"], started.id);
    }
    let listed: Page<BulkView> = site.get(OPERATIONS).await.json(200);
    assert_eq!(listed.items.len(), 1);
    let results = view.results.clone().expect("of one alone");
    assert_eq!(results.by_status, [(TaskStatus::Resolved, 3)].into());
    let of_list = BulkView {
        results: None,
        ..view.clone()
    };
    assert_eq!(listed.items[0], of_list);
    let stop = format!("{OPERATIONS}/{}/stop", view.id);
    let again: BulkView = site.post(&stop, "").await.json(200);
    assert_eq!(
        again.status,
        BulkStatus::Done,
        "one that has ended stays as it is"
    );
    assert_eq!(groups(&site, "").await.counted, 1);
}

/// The group of the tasks of `asks-a-person` by type, step, class and text alone.
const FORMER_GROUP: &str = "6184593006e8cef8";

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_an_older_program_named_is_answered_with_its_ids_of_now() {
    let (site, _) = with_dead_letters(1).await;
    let found = groups(&site, "").await;
    let id = &found.groups[0].id;
    assert_ne!(id, FORMER_GROUP);
    for preview in [true, false] {
        let body = format!(
            r#"{{"action":"redrive","group":"{FORMER_GROUP}","note":"x","preview":{preview}}}"#
        );
        let problem = site.post(OPERATIONS, body).await;
        let problem = problem.problem(410, "group-renamed");
        let detail = problem["detail"].as_str().expect("a detail");
        assert!(detail.contains(id.as_str()), "{detail}");
        assert_eq!(problem["pointer"], "group");
    }
    let none: Page<BulkView> = site.get(OPERATIONS).await.json(200);
    assert!(none.items.is_empty(), "nothing was started");
    let body = r#"{"action":"redrive","group":"0123456789abcdef","note":"x","preview":true}"#;
    let unknown: BulkPreview = site.post(OPERATIONS, body).await.json(200);
    assert_eq!(unknown.count, 0, "one that is no group has no tasks");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_operation_is_refused_with_the_field() {
    let site = Site::start().await;
    for (body, code, pointer) in [
        (
            r#"{"action":"redrive","note":"x"}"#,
            "invalid-request",
            "group",
        ),
        (
            r#"{"action":"redrive","group":"x","note":"x"}"#,
            "invalid-request",
            "group",
        ),
        (
            r#"{"action":"redrive","filter":{},"note":" "}"#,
            "invalid-request",
            "note",
        ),
        (
            r#"{"action":"redrive","filter":{},"as":"done","note":"x"}"#,
            "invalid-request",
            "as",
        ),
        (
            r#"{"action":"resolve","filter":{},"note":"x"}"#,
            "invalid-request",
            "as",
        ),
        (
            r#"{"action":"redrive","filter":{"status":["failed"]},"note":"x"}"#,
            "invalid-request",
            "filter.status",
        ),
        (
            r#"{"action":"redrive","filter":{"labels":{"A":"x"}},"note":"x"}"#,
            "invalid-label",
            "filter.labels",
        ),
        (
            r#"{"action":"redrive","filter":{"failure_class":"x"},"note":"x"}"#,
            "invalid-request",
            "filter.failure_class",
        ),
        (
            r#"{"action":"redrive","filter":{"failure_text":""},"note":"x"}"#,
            "invalid-request",
            "filter.failure_text",
        ),
        (
            r#"{"action":"redrive","filter":{"tenant":"umbra"},"note":"x"}"#,
            "invalid-request",
            "filter.tenant",
        ),
        (
            r#"{"action":"delete","filter":{},"note":"x"}"#,
            "invalid-request",
            "action",
        ),
    ] {
        let problem = site.post(OPERATIONS, body).await.problem(422, code);
        assert_eq!(problem["pointer"], pointer, "{body}: {problem}");
    }
    site.get(&format!("{OPERATIONS}/x"))
        .await
        .problem(404, "no-such-bulk-operation");
    site.post(&format!("{OPERATIONS}/x/stop"), "")
        .await
        .problem(404, "no-such-bulk-operation");
    site.get("/api/dead-letters/groups?with=all")
        .await
        .problem(422, "invalid-request");
    site.get("/api/dead-letters/groups?status=completed")
        .await
        .problem(422, "invalid-request");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_parked_tasks_have_done_is_listed_by_kind() {
    let (site, parked) = with_dead_letters(2).await;
    let stuck = site.submit("/api/tasks/cannot-undo").await;
    site.until(stuck, TaskStatus::CompensationFailed).await;
    let sums: OpenEffectSums = site.get("/api/open-effects/sums").await.json(200);
    assert_eq!((sums.tasks, sums.unknown, sums.complete), (3, 0, true));
    let of = |kind| {
        let rows = sums.sums.iter().filter(|it| it.kind == kind);
        rows.map(|it| (&*it.step, it.effects)).collect::<Vec<_>>()
    };
    assert_eq!(of(OpenEffectKind::Parked), [("reserve", 2)]);
    assert_eq!(of(OpenEffectKind::UndoFailed), [("reserve", 1)]);

    let metrics = String::from_utf8(site.get("/metrics").await.body).expect("a text");
    for (kind, task_type, count) in [
        ("parked", "AsksAPerson", 2),
        ("undo_failed", "CannotUndo", 1),
    ] {
        let line = format!(
            "counterstep_open_effects{{kind=\"{kind}\",task_type=\"{task_type}\",service=\"\"}} {count}.0\n"
        );
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }

    let path = "/api/open-effects?kind=undo_failed";
    let found: Page<OpenEffects> = site.get(path).await.json(200);
    let tasks: Vec<_> = found.items.iter().map(|it| it.task_id).collect();
    assert_eq!((tasks, found.next_cursor), (vec![stuck], None));
    assert!(
        found.items[0].effects[0]
            .reason
            .starts_with("its undo gave up: ")
    );

    let first: Page<OpenEffects> = site
        .get("/api/open-effects?kind=parked&limit=1")
        .await
        .json(200);
    assert_eq!(first.items[0].task_id, parked[1]);
    let cursor = first.next_cursor.expect("there is more");
    let path = format!("/api/open-effects?kind=parked&limit=1&cursor={cursor}");
    let second: Page<OpenEffects> = site.get(&path).await.json(200);
    assert_eq!(second.items[0].task_id, parked[0]);
    // Another list, or the same with other kinds, does not take its cursor.
    let path = format!("/api/open-effects?limit=1&cursor={cursor}");
    site.get(&path).await.problem(400, "malformed-parameter");
    let refused = site.get("/api/open-effects?kind=lost").await;
    assert_eq!(refused.problem(422, "invalid-request")["pointer"], "kind");
}

#[cfg(feature = "ui")]
#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_open_effects_leads_to_the_tasks_of_a_kind() {
    let (site, parked) = with_dead_letters(2).await;
    let stuck = site.submit("/api/tasks/cannot-undo").await;
    site.until(stuck, TaskStatus::CompensationFailed).await;
    let page = site.get("/ui/effects?kind=undo_failed").await;
    page.assert_status(200);
    let page = String::from_utf8_lossy(&page.body);
    let leads_to = |task: TaskId| page.contains(&format!("/ui/tasks/{task}"));
    assert!(leads_to(stuck) && page.contains("All kinds"), "{page}");
    // Nor is it the one that its row names: that is the newest.
    assert!(!leads_to(parked[0]), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_with_a_pace_waits_for_a_person_and_lists_its_tasks_page_by_page() {
    let (site, tasks) = with_dead_letters(7).await;
    let body = |pace: &str| {
        format!(r#"{{"action":"resolve","as":"skipped","filter":{{}},"note":"x","pace":{pace}}}"#)
    };
    for (pace, field) in [
        (r#"{"sample":0}"#, "pace.sample"),
        (r#"{"per_minute":60001}"#, "pace.per_minute"),
        (r#"{"max_failures":0}"#, "pace.max_failures"),
    ] {
        let refused = site.post(OPERATIONS, body(pace)).await;
        let problem = refused.problem(422, "invalid-request");
        assert_eq!(problem["pointer"], field, "{pace}");
    }
    let started: BulkView = site
        .post(OPERATIONS, body(r#"{"sample":2}"#))
        .await
        .json(202);
    let path = format!("{OPERATIONS}/{}", started.id);
    let paused = eventually("its pause", || async {
        let view: BulkView = site.get(&path).await.json(200);
        match view.status {
            BulkStatus::Paused => Ok(view),
            _ => Err(format!("{view:?}")),
        }
    })
    .await;
    assert_eq!(
        (paused.done, paused.paused_for),
        (2, Some(PausedFor::Sample))
    );
    site.post(&format!("{path}/resume"), "")
        .await
        .assert_status(200);
    let all = ended(&site, &started.id).await.done as usize;
    assert_eq!(all, tasks.len());
    let (mut listed, mut next) = (BTreeSet::new(), "?limit=3".to_owned());
    loop {
        let page: Page<BulkTask> = site.get(&format!("{path}/tasks{next}")).await.json(200);
        listed.extend(page.items.iter().map(|it| it.task_id));
        match page.next_cursor {
            Some(cursor) => next = format!("?limit=3&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(listed.len(), all);
    let forged = site
        .get(&format!("{path}/tasks?cursor=3.0011223344556677"))
        .await;
    forged.problem(400, "malformed-parameter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_has_its_first_task_and_the_program_that_ran_it_while_the_registry_has_the_process()
{
    let site = Site::start().await;
    let worker = site.run_host(Host::Worker);
    let first = site.submit("/api/tasks/asks-a-person").await;
    site.until(first, TaskStatus::DeadLettered).await;
    let second = site.submit("/api/tasks/asks-a-person").await;
    site.until(second, TaskStatus::DeadLettered).await;
    worker.stop().await;
    let group = || async { groups(&site, "?with=decisions").await.groups.remove(0) };
    let program = Some(site.engine.settings.program.clone());
    let found = group().await;
    assert_eq!((found.first, found.first_program), (Some(first), program));
    let plain = groups(&site, "").await.groups.remove(0);
    assert_eq!((plain.first, plain.first_program), (Some(first), None));
    let ids = [site.engine.id.to_string()];
    let forgotten = site.engine.ports.store.forget_workers(&ids, Duration::ZERO);
    assert_eq!(forgotten.await.expect("an answer"), 1);
    let found = group().await;
    assert_eq!((found.first, found.first_program), (Some(first), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_of_one_tenant_sees_no_version_of_a_program() {
    let site = locked().await;
    let _worker = site.run_host(Host::Worker);
    let path = "/api/dead-letters/groups?with=decisions";
    for (tenant, sees) in [("acme", false), ("default", true)] {
        let (key, _) = key(&site, tenant, Role::Admin).await;
        let sent = ask(&site, &key, "POST", "/api/tasks/asks-a-person", NOTE).await;
        let task = sent.json::<Accepted>(202).task_id;
        let found = eventually("it is parked", || async {
            let found: DeadLetterGroups = ask(&site, &key, "GET", path, "").await.json(200);
            found.groups.into_iter().next().ok_or("none yet".to_owned())
        });
        let found = found.await;
        assert_eq!(found.first, Some(task), "{tenant}");
        assert_eq!(found.first_program.is_some(), sees, "{tenant}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_says_what_was_decided_last_time_and_how_that_ended() {
    let (site, _) = with_dead_letters(3).await;
    let group = groups(&site, "?with=decisions").await.groups.remove(0);
    assert_eq!(group.last_decision, None);
    let body = format!(
        r#"{{"action":"redrive","group":"{}","note":"asked again","actor":"kim"}}"#,
        group.id
    );
    let started: BulkView = site.post(OPERATIONS, body).await.json(202);
    assert_eq!(ended(&site, &started.id).await.done, 3);
    // A person still has to judge them.
    let last = eventually("they are parked again", || async {
        let found = groups(&site, "?with=decisions").await;
        let last = found.groups.into_iter().find(|it| it.count == 3);
        last.and_then(|it| it.last_decision)
            .ok_or("not all of them")
    })
    .await;
    assert_eq!(
        (&last.operation, last.action),
        (&started.id, BulkAction::Redrive)
    );
    assert_eq!(
        (&*last.note, last.results.tasks),
        ("asked again (by kim)", 3)
    );
    assert_eq!(
        last.results.by_status,
        [(TaskStatus::DeadLettered, 3)].into()
    );
    let failed = groups(&site, "?status=failed").await;
    assert_eq!(failed.counted, 0);
}

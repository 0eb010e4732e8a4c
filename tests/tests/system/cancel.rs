//! `counterstep tasks …` against services in other processes: what an operator sees, and a cancel
//! that reaches a step on another host.

use counterstep_contracts::http::{
    AuditTrail, CancelAnswer, CancelOutcome, Page, TaskSummary, TaskView,
};
use counterstep_contracts::{StepStatus, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{SOON, until};
use serde_json::from_str;

fn tasks(place: &Place, api: &Api, arguments: &[&str]) -> Ended {
    run(
        place.path(),
        &[&["tasks", "--url", api.url()], arguments].concat(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_reaches_a_step_that_hangs_in_another_process_and_everything_is_undone() {
    let place = Place::new();
    let served = services::api(&place, QUICK);
    // Its limit of an attempt is far away: only the cancel can end it. A worker that gets no processor for two seconds keeps its lease.
    let hangs = [
        "--lease",
        "6s",
        "--test-time",
        "cancel_grace=500ms",
        "--plant-fault",
        "create_zip_archive=hang",
    ];
    let (worker, _) = services::worker(&place, &hangs);
    let task = served.api.submit(&Sample::pair(6, 50_000)).await;
    until("the step that hangs", SOON, || async {
        (served.api.task(task).await.steps[1].status == StepStatus::Running).then_some(())
    })
    .await;
    let id = task.to_string();
    let cancelled = tasks(&place, &served.api, &["cancel", &id, "--json"]);
    let answer: CancelAnswer = from_str(&cancelled.assert_code(0).stdout).expect("JSON");
    assert_eq!(
        (answer.task_id, answer.outcome),
        (task, CancelOutcome::Stopping)
    );

    let view = served.api.at_rest(task).await;
    assert_eq!(view.status, TaskStatus::Cancelled, "{view:#?}");
    let again = tasks(&place, &served.api, &["cancel", &id]);
    assert!(
        again
            .assert_code(0)
            .stdout
            .starts_with("cancelled; will be undone: nothing"),
        "{again:#?}"
    );
    let rows = Rows::of(&place).await;
    let known = rows.task(task).await;
    known.assert_sound();
    assert!(
        known
            .trail()
            .ends_with("create_zip_archive waived, upload_source_files undone, cancelled"),
        "{}",
        known.trail()
    );
    assert_eq!(rows.objects().await, [], "objects of a cancelled task");
    assert!(worker.stop().success());
    assert!(served.process.stop().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_listed_shown_and_audited_as_tables_and_as_json() {
    let place = Place::new();
    let dev = services::dev(&place, QUICK);
    let mut ids = Vec::new();
    for seed in 0..3 {
        let task = dev.api.submit(&Sample::pair(seed, 1_000)).await;
        assert_eq!(dev.api.at_rest(task).await.status, TaskStatus::Completed);
        ids.push(task);
    }
    let said = |arguments: &[&str]| {
        tasks(&place, &dev.api, arguments)
            .assert_code(0)
            .stdout
            .clone()
    };

    let list = said(&["list"]);
    assert!(
        ids.iter().all(|id| list.contains(&id.to_string())),
        "{list}"
    );
    let page: Page<TaskSummary> =
        from_str(&said(&["list", "--json", "--limit", "2"])).expect("JSON");
    assert_eq!(
        page.items
            .iter()
            .map(|task| task.task_id)
            .collect::<Vec<_>>(),
        [ids[2], ids[1]],
        "the newest first"
    );
    let cursor = page.next_cursor.expect("there is another page");
    let page: Page<TaskSummary> = from_str(&said(&[
        "list", "--json", "--limit", "2", "--cursor", &cursor,
    ]))
    .expect("JSON");
    assert_eq!(
        page.items
            .iter()
            .map(|task| task.task_id)
            .collect::<Vec<_>>(),
        [ids[0]]
    );
    let failed: Page<TaskSummary> =
        from_str(&said(&["list", "--json", "--status", "failed"])).expect("JSON");
    assert_eq!(failed.items, []);

    let id = ids[0].to_string();
    let shown = said(&["show", &id]);
    for text in [
        &id,
        "CreateZipFromFiles",
        "completed",
        "upload_source_files",
        "create_zip_archive",
        "upload_zip",
    ] {
        assert!(shown.contains(text), "`{text}` is not in\n{shown}");
    }
    let view: TaskView = from_str(&said(&["show", &id, "--json"])).expect("JSON");
    assert_eq!((view.task_id, view.status), (ids[0], TaskStatus::Completed));

    let audit = said(&["audit", &id]);
    for text in [
        "submitted",
        "claimed",
        "step_succeeded",
        "upload_zip: running → completed",
    ] {
        assert!(audit.contains(text), "`{text}` is not in\n{audit}");
    }
    let trail: AuditTrail = from_str(&said(&["audit", &id, "--json"])).expect("JSON");
    assert_eq!(trail, dev.api.audit(ids[0]).await);

    let unknown = "00000000-0000-7000-8000-000000000000";
    for command in ["show", "audit", "cancel"] {
        tasks(&place, &dev.api, &[command, unknown])
            .assert_code(1)
            .assert_says("no-such-task");
    }
    tasks(&place, &dev.api, &["cancel", &id])
        .assert_code(1)
        .assert_says("already-completed");
    tasks(&place, &dev.api, &["show", "not-a-uuid"]).assert_code(2);
    assert!(dev.process.stop().success());
}

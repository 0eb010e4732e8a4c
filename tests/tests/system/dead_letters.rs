//! The commands for many parked tasks: `dead-letters groups | redrive | resolve` and `bulk list | show | stop`.

use counterstep_contracts::bulk::{BulkPreview, BulkStatus, BulkView};
use counterstep_contracts::groups::DeadLetterGroups;
use counterstep_contracts::http::Page;
use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK, Served};
use counterstep_tests::wait::{SOON, until};
use serde::de::DeserializeOwned;
use serde_json::from_str;

/// With tasks whose undo gave up.
async fn with_parked(place: &Place, count: u64) -> (Served, Vec<TaskId>) {
    let planted = [
        "--plant-fault",
        "upload_zip=fail",
        "--plant-fault",
        "upload_source_files:undo=fail",
    ];
    let served = services::dev(place, &[QUICK, &planted[..]].concat());
    let mut tasks = Vec::new();
    for number in 0..count {
        tasks.push(served.api.submit(&Sample::pair(number, 1_000)).await);
    }
    for task in &tasks {
        let status = served.api.at_rest(*task).await.status;
        assert_eq!(status, TaskStatus::CompensationFailed);
    }
    (served, tasks)
}

fn type_in(place: &Place, served: &Served, arguments: &[&str]) -> Ended {
    let url = ["--url", served.api.url()];
    let all = [&arguments[..1], &url, &arguments[1..]].concat();
    run(place.path(), &all)
}

fn json<T: DeserializeOwned>(ended: &Ended) -> T {
    from_str(&ended.assert_code(0).stdout).expect("JSON")
}

async fn done(place: &Place, served: &Served, id: &str) -> BulkView {
    until("the operation is done", SOON, || async {
        let shown = type_in(place, served, &["bulk", "--json", "show", id]);
        let view: BulkView = json(&shown);
        (view.status == BulkStatus::Done).then_some(view)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn parked_tasks_are_counted_by_cause_redriven_and_settled_from_the_command_line() {
    let place = Place::new();
    let (served, tasks) = with_parked(&place, 3).await;
    let type_in = |arguments: &[&str]| type_in(&place, &served, arguments);

    let groups: DeadLetterGroups = json(&type_in(&["dead-letters", "--json", "groups"]));
    let [group] = &groups.groups[..] else {
        panic!("one cause: {groups:?}");
    };
    assert_eq!((group.count, groups.counted), (3, 3));
    let shown = type_in(&["dead-letters", "groups", "--type", "CreateZipFromFiles"]);
    for part in [&*group.id, "3", &*group.example.to_string()] {
        assert!(shown.assert_code(0).stdout.contains(part), "{shown:#?}");
    }
    let none = type_in(&["dead-letters", "groups", "--status", "dead_lettered"]);
    assert_eq!(none.assert_code(0).stdout, "No dead letters match\n");

    let signed = ["--note", "the store is back", "--actor", "kim"];
    let redrive = [
        &["dead-letters", "redrive", "--group", &*group.id],
        &signed[..],
    ]
    .concat();
    let preview = type_in(&[&redrive[..], &["--preview"]].concat());
    assert!(
        preview
            .assert_code(0)
            .stdout
            .starts_with("3 tasks; nothing was changed\n"),
        "{preview:#?}"
    );
    // A part of the group's id is enough to look; a change needs the whole one, or a confirmation.
    let by_part = [
        &["dead-letters", "redrive", "--group", &group.id[8..]],
        &signed[..],
    ]
    .concat();
    type_in(&by_part)
        .assert_code(2)
        .assert_says(&group.id)
        .assert_says("give the whole id, or --yes");
    let preview: BulkPreview = json(&type_in(&[&by_part[..], &["--preview", "--json"]].concat()));
    assert_eq!((preview.count, preview.complete), (3, true));
    let empty = type_in(&["bulk", "list"]);
    assert_eq!(empty.assert_code(0).stdout, "No bulk operations\n");

    let started: BulkView = json(&type_in(&[&redrive[..], &["--json"]].concat()));
    let view = done(&place, &served, &started.id).await;
    assert_eq!((view.done, view.failed, view.left), (3, 0, Some(0)));
    // Their undo gives up once more: what is planted is planted.
    for task in &tasks {
        let status = served.api.at_rest(*task).await.status;
        assert_eq!(status, TaskStatus::CompensationFailed);
    }
    let stopped = type_in(&["bulk", "stop", &started.id]);
    let line = format!(
        "{} redrive done: 3 done, 0 failed, 0 skipped, 0 left\n",
        started.id
    );
    assert_eq!(stopped.assert_code(0).stdout, line, "it had ended");
    let shown = format!("{line}  of 3 that were done first, now: 3 compensation_failed\n");
    assert_eq!(
        type_in(&["bulk", "show", &started.id])
            .assert_code(0)
            .stdout,
        shown
    );
    let (start, end) = (&started.id[..24], &started.id[28..]);
    for part in [start, end] {
        let said = type_in(&["bulk", "show", part]);
        assert_eq!(said.assert_code(0).stdout, shown, "{part}");
        type_in(&["bulk", "stop", part])
            .assert_code(2)
            .assert_says(&format!("{part} is {} (redrive, done, ", started.id))
            .assert_says("give the whole id, or --yes");
    }
    let stopped = type_in(&["bulk", "stop", end, "--yes"]);
    assert_eq!(stopped.assert_code(0).stdout, line);
    let listed = type_in(&["bulk", "list"]);
    for part in [&*started.id, "the store is back", "operator"] {
        assert!(listed.assert_code(0).stdout.contains(part), "{listed:#?}");
    }

    let resolve = ["dead-letters", "resolve", "--as", "undone", "--all"];
    let settled = type_in(&[&resolve[..], &signed].concat());
    let id = settled
        .assert_code(0)
        .stdout
        .split(' ')
        .next()
        .expect("an id");
    assert_eq!(done(&place, &served, id).await.done, 3);
    for task in &tasks {
        assert_eq!(served.api.task(*task).await.status, TaskStatus::Resolved);
    }
    let all: Page<BulkView> = json(&type_in(&["bulk", "--json", "list"]));
    assert_eq!(all.items.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_for_many_that_names_none_or_two_things_is_refused() {
    let place = Place::new();
    let served = services::dev(&place, QUICK);
    for arguments in [
        &["dead-letters", "redrive", "--note", "x"][..],
        &["dead-letters", "redrive", "--all"],
        &[
            "dead-letters",
            "redrive",
            "--all",
            "--group",
            "0123456789abcdef",
            "--note",
            "x",
        ],
        &["dead-letters", "resolve", "--all", "--note", "x"],
        &[
            "dead-letters",
            "resolve",
            "--all",
            "--as",
            "lost",
            "--note",
            "x",
        ],
        &["dead-letters", "redrive", "--label", "order", "--note", "x"],
        &[
            "dead-letters",
            "redrive",
            "--failure-class",
            "odd",
            "--note",
            "x",
        ],
        &["dead-letters", "groups", "--status", "odd"],
        &["bulk", "show"],
        &["bulk", "--all"],
        &["bulk", "show", "unheard-of"],
        &["bulk", "stop", "../../x"],
        &[
            "dead-letters",
            "redrive",
            "--group",
            "unheard-of",
            "--note",
            "x",
        ],
    ] {
        type_in(&place, &served, arguments).assert_code(2);
    }
    let unknown = "01930d2c-6c4b-7d5e-8f00-0123456789ac";
    for (arguments, code) in [
        (&["bulk", "show", unknown][..], "no-such-bulk-operation"),
        (
            &["bulk", "stop", &unknown[28..]],
            "no bulk operation has an id that begins or ends with 456789ac",
        ),
        (
            &[
                "dead-letters",
                "redrive",
                "--group",
                "01234567-9abcdef",
                "--note",
                "x",
            ],
            "invalid-request",
        ),
        (
            &["dead-letters", "redrive", "--all", "--note", " "],
            "invalid-request",
        ),
    ] {
        type_in(&place, &served, arguments)
            .assert_code(1)
            .assert_says(code);
    }
}

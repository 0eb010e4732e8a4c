//! `fsck`, on the files of services.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use serde_json::Value;

fn fsck(place: &Place, arguments: &[&str]) -> Ended {
    let data = place.data();
    let settings = ["--data-dir", data.to_str().expect("UTF-8"), "--log", "warn"];
    run(place.path(), &[&["fsck"], arguments, &settings].concat())
}

/// What is wrong with a task, as JSON has it.
fn damage_of(place: &Place, task: TaskId, flags: &[&str]) -> Vec<Value> {
    let task = task.to_string();
    let ended = fsck(
        place,
        &[&["--task", &task, "--format", "json"], flags].concat(),
    );
    let lines = ended.assert_code(1).stdout.lines();
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let (summary, found) = lines.split_last().expect("a summary");
    assert_eq!(summary["summary"]["findings"], found.len());
    assert!(
        found.iter().all(|finding| finding["task"] == task),
        "{found:?}"
    );
    found
        .iter()
        .map(|finding| finding["damage"].clone())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_disagree_and_objects_that_are_gone_are_found() {
    let place = Place::new();
    fsck(&place, &[])
        .assert_code(78)
        .assert_says("there is no database file");
    let served = services::dev(&place, QUICK);
    let mut tasks = Vec::new();
    for seed in [3, 5, 7] {
        let task = served.api.submit(&Sample::pair(seed, 1_000)).await;
        assert_eq!(served.api.at_rest(task).await.status, TaskStatus::Completed);
        tasks.push(task);
    }
    let [row, journal, object] = tasks[..] else {
        panic!("three tasks")
    };
    // Beside the services.
    let whole = fsck(&place, &["--with-objects"]);
    assert!(
        whole
            .assert_code(0)
            .stdout
            .contains("3 tasks: nothing was found\nlooked for "),
        "{whole:#?}"
    );
    assert!(served.process.stop().success());

    let file = place.database();
    let mut rows =
        SqliteConnection::establish(file.to_str().expect("UTF-8")).expect("the database opens");
    let mut run_sql = |sql: &str| {
        rows.batch_execute(&format!("PRAGMA busy_timeout = 5000; {sql}"))
            .expect("it is changed")
    };
    run_sql(&format!(
        "UPDATE tasks SET queue = 'another', residue = TRUE, due_at = 0 WHERE id = '{row}'"
    ));
    assert_eq!(damage_of(&place, row, &[]), ["row_differs"]);
    let text = fsck(&place, &["--task", &row.to_string()]);
    let text = &text.assert_code(1).stdout;
    assert!(
        text.contains(r#"row differs (fields): queue is "another" in the task's row and "#),
        "{text}"
    );
    assert!(
        text.contains("; residue is true in the task's row and false in its journal; "),
        "{text}"
    );
    let due =
        "due_at is 1970-01-01T00:00:00.000000Z in the task's row and nothing in its journal\n";
    assert!(text.contains(due), "{text}");

    run_sql(&format!(
        "DELETE FROM journal WHERE task = '{journal}' AND rev = 2"
    ));
    assert_eq!(damage_of(&place, journal, &[]), ["illegal", "missing"]);

    let of_task = Rows::of(&place).await.objects().await;
    let key = &of_task
        .iter()
        .find(|listed| listed.key.contains(&object.to_string()))
        .expect("an object")
        .key;
    let path = place.data().join("objects");
    let path = walk(&path).into_iter().find(|path| {
        path.to_str()
            .is_some_and(|path| path.ends_with(key.as_str()))
    });
    std::fs::remove_file(path.expect("the object's file")).expect("it is removed");
    fsck(&place, &["--task", &object.to_string()]).assert_code(0);
    assert_eq!(
        damage_of(&place, object, &["--with-objects"]),
        ["object_missing"]
    );

    let all = fsck(&place, &["--with-objects"]);
    assert!(
        all.assert_code(1)
            .assert_says("4 findings")
            .stdout
            .contains(" of 3 tasks: 4 findings\n"),
        "{all:#?}"
    );
    // What was handed in may be erased: its digests stay.
    let erased = format!("UPDATE journal SET data = NULL WHERE task = '{object}'");
    run_sql(&erased);
    let erased = fsck(&place, &["--task", &object.to_string(), "--with-objects"]);
    assert!(
        erased.assert_code(0).stdout.contains(" was erased; "),
        "{erased:#?}"
    );
    let missing = "00000000-0000-7000-8000-000000000000";
    fsck(&place, &["--task", missing])
        .assert_code(1)
        .assert_says("there is no task");
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

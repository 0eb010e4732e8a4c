//! `audit verify` and `audit heads`, on the file of services that run.

use counterstep_contracts::TaskStatus;
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::sample::Sample;
use counterstep_tests::services::{self, QUICK};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use serde_json::Value;

fn audit(place: &Place, arguments: &[&str]) -> Ended {
    let data = place.data();
    let settings = ["--data-dir", data.to_str().expect("UTF-8"), "--log", "warn"];
    run(place.path(), &[&["audit"], arguments, &settings].concat())
}

fn lines(ended: &Ended) -> Vec<Value> {
    ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_entry_is_named_and_a_copy_of_the_ends_tells_of_an_audit_that_was_written_anew() {
    let place = Place::new();
    audit(&place, &["verify"])
        .assert_code(78)
        .assert_says("there is no database file");
    let served = services::dev(&place, QUICK);
    let task = served.api.submit(&Sample::pair(3, 1_000)).await;
    let other = served.api.submit(&Sample::pair(5, 1_000)).await;
    for task in [task, other] {
        assert_eq!(served.api.at_rest(task).await.status, TaskStatus::Completed);
    }
    let id = task.to_string();
    let whole = audit(&place, &["verify"]);
    assert!(
        whole
            .assert_code(0)
            .stdout
            .contains("2 tasks: nothing was found"),
        "{whole:#?}"
    );

    let heads = audit(&place, &["heads"]).assert_code(0).stdout.clone();
    assert_eq!(heads.lines().count(), 2);
    let copy = place.path().join("heads.txt");
    std::fs::write(&copy, &heads).expect("a copy");
    let copy = copy.to_str().expect("UTF-8");
    audit(&place, &["verify", "--heads", copy]).assert_code(0);
    audit(&place, &["verify", "--heads", "missing.txt"])
        .assert_code(2)
        .assert_says("missing.txt");

    // A worker would run on with a task whose row is moved back, and write behind the rows that are
    // cut off.
    assert!(served.process.stop().success());
    let file = place.database();
    let mut rows =
        SqliteConnection::establish(file.to_str().expect("UTF-8")).expect("the database opens");
    let mut run_sql = |sql: &str| {
        rows.batch_execute(&format!("PRAGMA busy_timeout = 5000; {sql}"))
            .expect("it is changed")
    };
    run_sql(&format!(
        "UPDATE journal SET actor = 'another' WHERE task = '{id}' AND rev = 2"
    ));
    let found = audit(&place, &["verify", "--format", "json"]);
    let found = lines(found.assert_code(1).assert_says("1 finding"));
    assert_eq!(found.len(), 2);
    assert_eq!(
        (&found[0]["task"], &found[0]["rev"], &found[0]["damage"]),
        (&id.into(), &2.into(), &"changed".into())
    );
    assert_eq!(
        (
            &found[1]["summary"]["tasks"],
            &found[1]["summary"]["findings"]
        ),
        (&2.into(), &1.into())
    );
    let text = audit(&place, &["verify", "--task", &task.to_string()]);
    assert!(
        text.assert_code(1)
            .stdout
            .contains("row 2: changed (text): "),
        "{text:#?}"
    );
    audit(&place, &["verify", "--task", &other.to_string()]).assert_code(0);
    let missing = "00000000-0000-7000-8000-000000000000";
    audit(&place, &["verify", "--task", missing])
        .assert_code(1)
        .assert_says("there is no task");

    // A writer of every table can also cut the end of a chain off and move the task's row back to
    // it; not in the copy.
    run_sql(&format!(
        "DELETE FROM journal WHERE task = '{other}' AND rev > 1;
         UPDATE tasks SET rev = 1, status = 'dispatched',
           audit_seal = (SELECT seal FROM journal WHERE task = tasks.id AND rev = 1) WHERE id = '{other}'"
    ));
    audit(&place, &["verify", "--task", &other.to_string()]).assert_code(0);
    audit(
        &place,
        &["verify", "--task", &other.to_string(), "--heads", copy],
    )
    .assert_code(1)
    .assert_says("1 finding");
}

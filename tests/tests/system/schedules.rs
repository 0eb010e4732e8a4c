//! What an operator's commands say about task types, and about schedules: `schedules list`, `show`,
//! `next`, `set`, `pause`, `resume`, `run`, `delete`, beside a running API, and the reconciler that
//! fires one.

use counterstep_contracts::schedule::ScheduleView;
use counterstep_tests::api::Api;
use counterstep_tests::cluster::Cluster;
use counterstep_tests::command::{Ended, run};
use counterstep_tests::place::Place;
use counterstep_tests::rows::Rows;
use counterstep_tests::sample::Chance;
use counterstep_tests::services::{self, QUICK};
use counterstep_tests::wait::{LATER, until};
use diesel::connection::SimpleConnection;
use diesel::{Connection, SqliteConnection};
use serde_json::from_str;
use std::time::Duration;

fn schedules(place: &Place, api: &Api, arguments: &[&str]) -> Ended {
    run(
        place.path(),
        &[&["schedules", "--url", api.url()], arguments].concat(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_looks_at_pauses_and_deletes_a_schedule() {
    let place = Place::new();
    let served = services::api(&place, QUICK);
    let ask = |arguments: &[&str]| schedules(&place, &served.api, arguments);
    let zip = [
        "set",
        "nightly",
        "--type",
        "create-zip-from-files",
        "--cron",
        "0 3 * * *",
        "--zone",
        "Europe/Berlin",
    ];
    ask(&zip).assert_code(1).assert_says("begin with an upload");
    ask(&[&zip[..], &["--request", "{"]].concat())
        .assert_code(2)
        .assert_says("--request: `{` cannot be read")
        .assert_says("it is no JSON either");
    std::fs::write(place.path().join("request"), "{").expect("a file");
    ask(&[&zip[..], &["--request", "request"]].concat())
        .assert_code(2)
        .assert_says("--request is not JSON");
    ask(&["set", "nightly", "--type", "x"])
        .assert_code(2)
        .assert_says("--cron");
    ask(&["show", "nightly"])
        .assert_code(1)
        .assert_says("no-such-schedule");

    // The shipped types begin with uploads, so another program has made this one.
    let file = place.data().join("counterstep.db");
    let mut rows =
        SqliteConnection::establish(file.to_str().expect("UTF-8")).expect("the database opens");
    rows.batch_execute(
        r#"PRAGMA busy_timeout = 5000; INSERT INTO documents VALUES ('schedule', 'default', 'nightly', 1,
        '{"origin":"api","spec":{"type":"Report","cron":"0 3 1 1 *","zone":"Europe/Berlin","request":{"days":1}},
          "paused":false,"next_due_at":32503687200000000,"last_due_at":null,"last_fired_at":null,"last_task":null,"created_at":0}',
        32503687200000000, 0)"#,
    )
    .expect("it is written");
    let list = ask(&["list"]);
    assert!(list.assert_code(0).stdout.contains("nightly"), "{list:#?}");
    let shown = ask(&["show", "nightly"]);
    assert!(
        shown
            .assert_code(0)
            .stdout
            .contains("Report at 0 3 1 1 * Europe/Berlin"),
        "{shown:#?}"
    );
    let next = ask(&["next", "nightly", "--count", "2"]);
    assert_eq!(
        next.assert_code(0).stdout,
        "3000-01-01T02:00:00.000000Z\n3001-01-01T02:00:00.000000Z\n"
    );
    let paused = ask(&["pause", "nightly"]);
    assert!(
        paused.assert_code(0).stdout.contains("next due: paused"),
        "{paused:#?}"
    );
    assert_eq!(ask(&["next", "nightly"]).assert_code(0).stdout, "paused\n");
    let resumed: ScheduleView =
        from_str(&ask(&["resume", "nightly", "--json"]).assert_code(0).stdout).expect("JSON");
    assert!(
        resumed
            .next_due_at
            .is_some_and(|due| due.contains("-01-01T02:00:00")),
        "from now on, in Berlin"
    );
    ask(&["run", "nightly"])
        .assert_code(1)
        .assert_says("there is no task type `Report` here");
    ask(&["delete", "nightly"]).assert_code(0);
    ask(&["delete", "nightly"])
        .assert_code(1)
        .assert_says("no-such-schedule");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_disables_and_enables_a_type() {
    let place = Place::new();
    let served = services::api(&place, QUICK);
    let ask = |arguments: &[&str]| {
        run(
            place.path(),
            &[&["types", "--url", served.api.url()], arguments].concat(),
        )
    };
    ask(&["disable", "CreateZipFromFiles"])
        .assert_code(2)
        .assert_says("--note");
    ask(&["disable", "Nothing", "--note", "x"])
        .assert_code(1)
        .assert_says("no-such-task-type");
    let disabled = ask(&[
        "disable",
        "CreateZipFromFiles",
        "--note",
        "the bucket moves",
        "--actor",
        "ada",
    ]);
    let said = &disabled.assert_code(0).stdout;
    assert!(
        said.contains("CreateZipFromFiles is disabled")
            && said.contains("by operator (ada): the bucket moves"),
        "{said}"
    );
    let list = ask(&["list"]);
    let lines: Vec<_> = list
        .assert_code(0)
        .stdout
        .lines()
        .filter(|line| line.contains("CreateZip"))
        .collect();
    assert!(lines.len() == 1 && lines[0].contains("no"), "{list:#?}");
    let refused = served.api.try_submit(&[], None).await.expect("an answer");
    assert!(
        format!("{refused:?}").contains("TypeDisabled"),
        "{refused:?}"
    );
    ask(&["enable", "create-zip-from-files", "--note", "moved"]).assert_code(0);
    let list = ask(&["list", "--json"]);
    assert!(
        !list.assert_code(0).stdout.contains("disabled_since"),
        "{list:#?}"
    );
}

/// Number of due times, one a second.
const DUE_TIMES: i64 = 60;

/// How many times a reconciler is killed, about every two seconds: nearly to the last due time, and then no
/// more.
const KILLS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn of_three_reconcilers_that_are_killed_again_and_again_each_due_time_fires_once() {
    let cluster = Cluster::start(QUICK);
    let served = cluster.api();
    let ask = |arguments: &[&str]| schedules(&cluster.place, &served.api, arguments);
    let request = r#"{"account":"anna","item":"lamp","quantity":1,"amount_cents":100}"#;
    let each_second = [
        "--cron",
        "* * * * * *",
        "--misfire",
        "catch_up",
        "--overlap",
        "allow",
        "--request",
        request,
    ];
    let set = [
        &["set", "each-second", "--type", "PlaceOrder", "--json"],
        &each_second[..],
    ]
    .concat();
    let set: ScheduleView = from_str(&ask(&set).assert_code(0).stdout).expect("JSON");
    let first = micros(&set.next_due_at.expect("a due time"));
    let last = first + (DUE_TIMES - 1) * 1_000_000;

    let mut reconcilers = vec![
        cluster.reconciler(),
        cluster.reconciler(),
        cluster.reconciler(),
    ];
    let mut chance = Chance::new(60);
    for _ in 0..KILLS {
        // Not a wait for anything: it chooses the moment, between passes and in the middle of them.
        tokio::time::sleep(Duration::from_millis(chance.within(1_000, 3_500))).await;
        reconcilers
            .swap_remove(usize::try_from(chance.within(0, 3)).expect("small"))
            .kill();
        reconcilers.push(cluster.reconciler());
    }
    until("the last due time", LATER, || async {
        let shown: ScheduleView = from_str(
            &ask(&["show", "each-second", "--json"])
                .assert_code(0)
                .stdout,
        )
        .expect("JSON");
        shown.last_due_at.filter(|due| micros(due) >= last)
    })
    .await;
    ask(&["pause", "each-second"]).assert_code(0);
    let view: ScheduleView = from_str(
        &ask(&["show", "each-second", "--json"])
            .assert_code(0)
            .stdout,
    )
    .expect("JSON");
    let end = micros(&view.last_due_at.expect("it has fired"));

    let rows = Rows::of_cluster(&cluster).await;
    // A firing that was under way when the schedule was paused is refused by its revision.
    let due = until("one task for each due time", LATER, || async {
        let mut due: Vec<_> = rows.tasks().await.iter().map(due_of).collect();
        due.sort_unstable();
        (due.len() as i64 >= DUE_TIMES).then_some(due)
    })
    .await;
    let expected: Vec<_> = (0..=(end - first) / 1_000_000)
        .map(|second| first + second * 1_000_000)
        .collect();
    assert_eq!(due, expected);
    println!(
        "{KILLS} reconcilers were killed, {} due times fired",
        due.len()
    );
}

fn micros(rfc3339: &str) -> i64 {
    let at: jiff::Timestamp = rfc3339.parse().expect("a time");
    at.as_microsecond()
}

/// The due time of a scheduled task, as its first audit entry says it.
fn due_of(known: &counterstep_tests::rows::Known) -> i64 {
    micros(
        known.history.audit[0].entry.details["scheduled"]["due"]
            .as_str()
            .expect("a due time"),
    )
}

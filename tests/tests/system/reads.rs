//! What people and passes read costs the same among few tasks and among many.

use counterstep_tests::api::Api;
use counterstep_tests::cluster::Cluster;
use counterstep_tests::command::run;
use counterstep_tests::place::Place;
use counterstep_tests::process::Process;
use std::time::Duration;

/// The fiftieth task that the database was filled with.
const TASK: &str = "01900000-0000-7000-8000-000000000032";

/// What a process reads of itself and the others meanwhile: as often as its time allows.
const SLACK: i64 = 2_000;

/// Every route that only reads, with the filters that it has.
fn routes() -> Vec<String> {
    let mut routes: Vec<String> = [
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/workers",
        "/api/task-types",
        "/api/schedules",
    ]
    .map(str::to_owned)
    .into();
    for part in ["", "/events", "/audit", "/children", "/plan", "/why"] {
        routes.push(format!("/api/tasks/{TASK}{part}"));
    }
    for list in ["tasks", "dead-letters"] {
        for of_type in ["", "&type=Zip", "&type=Rare", "&type=create-zip-from-files"] {
            let statuses: &[&str] = match list {
                "tasks" => &[
                    "",
                    "&status=completed",
                    "&status=cancelled",
                    "&status=dead_lettered",
                    "&status=running",
                ],
                _ => &["", "&status=dead_lettered", "&status=compensation_failed"],
            };
            for status in statuses {
                routes.push(format!("/api/{list}?limit=50{of_type}{status}"));
            }
        }
    }
    routes
}

async fn ask(api: &Api, path: &str) {
    let answer = api
        .request(reqwest::Method::GET, path)
        .timeout(Duration::from_secs(30))
        .send()
        .await;
    let answer = answer.unwrap_or_else(|error| panic!("{path}: {error:?}"));
    // The program does not know the types of these tasks, and says so where a plan would need them.
    assert!(
        !answer.status().is_server_error() || path.contains(TASK),
        "{path}: {}",
        answer.status()
    );
    // Events do not end by themselves.
    if !path.ends_with("/events") {
        answer
            .bytes()
            .await
            .unwrap_or_else(|error| panic!("{path}: {error:?}"));
    }
}

fn commands(place: &Place, url: &str) {
    for command in [
        &["tasks", "--url", url, "list"][..],
        &["tasks", "--url", url, "list", "--status", "cancelled"],
        &["tasks", "--url", url, "list", "--type", "Rare"],
        &["tasks", "--url", url, "dead-letters"],
        &["tasks", "--url", url, "show", TASK],
        &["tasks", "--url", url, "audit", TASK],
        &["tasks", "--url", url, "children", TASK],
        &["workers", "--url", url],
        &["types", "--url", url, "list"],
        &["schedules", "--url", url, "list"],
    ] {
        let ended = run(place.path(), command);
        assert!(matches!(ended.code, Some(0 | 1)), "{command:?}: {ended:#?}");
    }
}

/// How many rows all of them read together, and one pass of a reconciler.
async fn cost(cluster: &Cluster) -> i64 {
    let before = cluster.servers.postgres.rows_read(&cluster.database);
    let served = cluster.api();
    for route in routes() {
        ask(&served.api, &route).await;
    }
    commands(&cluster.place, served.api.url());
    let check_deploy = ["check-deploy", "--database", &cluster.database];
    for mut process in [
        cluster.process(&["reconciler", "--once"]),
        Process::start(&cluster.place, &check_deploy),
        cluster.process(&["doctor"]),
    ] {
        let code = process.ended().code();
        assert!(matches!(code, Some(0 | 1)), "{process:?}: {code:?}");
    }
    assert!(served.process.stop().success());
    cluster.servers.postgres.rows_read(&cluster.database) - before
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_only_reads_costs_the_same_among_a_hundred_thousand_tasks() {
    let cluster = Cluster::start(&[]);
    cluster
        .servers
        .postgres
        .add_tasks(&cluster.database, 1..10_000);
    let few = cost(&cluster).await;
    cluster
        .servers
        .postgres
        .add_tasks(&cluster.database, 10_000..100_000);
    let many = cost(&cluster).await;
    println!("{few} rows among ten thousand tasks, {many} among a hundred thousand");
    assert!(
        few > 0 && many <= few + SLACK,
        "{few} rows among ten thousand tasks, {many} among a hundred thousand"
    );
}

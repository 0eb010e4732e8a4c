//! Limits of steps over three workers on real servers, where the called service counts; and shares of tenants
//! whose tasks wait.

use counterstep_contracts::{TaskId, TaskStatus};
use counterstep_tests::api::Api;
use counterstep_tests::own_program::OwnProgram;
use counterstep_tests::wait::{LATER, until};
use futures::future::join_all;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

/// The lease of a task and of a permit.
const LEASE: Duration = Duration::from_secs(2);

const TIMES: &[&str] = &[
    "--lease",
    "2s",
    "--test-time",
    "cancel_grace=500ms",
    "--drain",
    "500ms",
];

/// What the called service has seen.
#[derive(Debug, Default)]
struct Calls {
    now: usize,
    most: usize,
    starts: Vec<Instant>,
    /// Since when it could take more calls; `None`: it is full.
    free_since: Option<Instant>,
    longest_free: Duration,
}

/// A service that counts its calls.
#[derive(Debug, Clone)]
struct Service {
    address: String,
    calls: Arc<Mutex<Calls>>,
}

impl Service {
    /// Each call takes this long. `full`: the number of calls that fill it.
    async fn start(takes: Duration, full: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let calls: Arc<Mutex<Calls>> = Arc::default();
        let seen = calls.clone();
        tokio::spawn(async move {
            while let Ok((mut caller, _)) = listener.accept().await {
                let seen = seen.clone();
                {
                    let mut calls = seen.lock().unwrap();
                    calls.now += 1;
                    calls.most = calls.most.max(calls.now);
                    calls.starts.push(Instant::now());
                    if calls.now >= full
                        && let Some(since) = calls.free_since.take()
                    {
                        calls.longest_free = calls.longest_free.max(since.elapsed());
                    }
                }
                tokio::spawn(async move {
                    // Over at its time, or when the caller is gone.
                    let mut byte = [0];
                    let _ = tokio::time::timeout(takes, caller.read(&mut byte)).await;
                    let mut calls = seen.lock().unwrap();
                    calls.now -= 1;
                    calls.free_since.get_or_insert_with(Instant::now);
                });
            }
        });
        Self { address, calls }
    }

    fn seen<T>(&self, with: impl FnOnce(&mut Calls) -> T) -> T {
        with(&mut self.calls.lock().unwrap())
    }
}

async fn submit(api: &Api, route: &str, tasks: u32) -> Vec<TaskId> {
    let mut submitted = Vec::new();
    for batch in 0..tasks.div_ceil(500) {
        let items = (batch * 500..tasks.min((batch + 1) * 500)).map(|no| json!({"request": no}));
        let answer = api
            .request(Method::POST, &format!("/api/tasks/{route}/batch"))
            .json(&items.collect::<Vec<_>>())
            .send()
            .await
            .expect("an answer");
        let status = answer.status();
        let answer: Value = answer.json().await.expect("JSON");
        assert!(status.is_success(), "{status}: {answer}");
        let items = answer["items"].as_array().expect("items");
        submitted.extend(items.iter().map(|item| {
            let id = item["task_id"].as_str().expect("an id");
            id.parse::<TaskId>().expect("an id")
        }));
    }
    submitted
}

/// The number of tasks of a type that are not at rest.
async fn open(api: &Api, name: &str) -> usize {
    let path =
        format!("/api/tasks?type={name}&status=dispatched&status=running&status=waiting&limit=200");
    let answer = api.request(Method::GET, &path).send().await;
    let page: Value = answer.expect("an answer").json().await.expect("JSON");
    page["items"].as_array().expect("items").len()
}

async fn all_completed(api: &Api, tasks: &[TaskId]) {
    for some in tasks.chunks(50) {
        let views = join_all(some.iter().map(|task| api.at_rest_within(*task, LATER))).await;
        for view in views {
            assert_eq!(view.status, TaskStatus::Completed, "{view:?}");
        }
    }
}

/// When these tasks came to rest.
async fn ends(api: &Api, tasks: &[TaskId]) -> Vec<Timestamp> {
    let mut ends = Vec::new();
    for task in tasks {
        let end = api.task(*task).await.updated_at;
        ends.push(end.parse().expect("a time"));
    }
    ends
}

/// Tasks under the limit of ten, with three workers of which two are killed again and again. Returns the
/// longest time with fewer than ten calls.
async fn under_kills(tasks: u32, kills: usize) -> Duration {
    let service = Service::start(Duration::from_millis(50), 10).await;
    let program = OwnProgram::start(env!("CARGO_BIN_EXE_limited"), TIMES)
        .variable("SERVICE", &service.address);
    let (_api, api) = program.api();
    let _reconciler = program.reconciler();
    let mut submitted = submit(&api, "call-ten", tasks).await;
    let mut workers = vec![program.worker(), program.worker(), program.worker()];
    until("calls in all permits", LATER, || async {
        (service.seen(|calls| calls.now) == 10).then_some(())
    })
    .await;
    for kill in 0..kills {
        // Between 1.0 and 1.5 leases: within a wait for the permits of the one before, or after it.
        let pause = LEASE.mul_f64(1.0 + 0.1 * (kill % 6) as f64);
        // A busy machine takes longer for all of this, and the tasks go on meanwhile.
        if open(&api, "CallTen").await < 200 {
            submitted.extend(submit(&api, "call-ten", 1_000).await);
        }
        tokio::time::sleep(pause).await;
        assert!(
            open(&api, "CallTen").await > 20,
            "too few tasks for {kills} kills"
        );
        workers.remove(1 + kill % 2).kill();
        workers.push(program.worker());
    }
    // From here on tasks may run out.
    let (most, longest_free) = service.seen(|calls| (calls.most, calls.longest_free));
    all_completed(&api, &submitted).await;
    println!(
        "{tasks} tasks, {kills} kills: at most {most} at a time, {longest_free:?} below 10 at the longest; {} calls",
        service.seen(|calls| calls.starts.len())
    );
    assert_eq!(most.max(service.seen(|calls| calls.most)), 10);
    program.assert_sound();
    longest_free
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_calls_at_a_time_than_the_limit_while_workers_are_killed() {
    under_kills(1_800, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes; run by hand: cargo test -p counterstep-tests -- --ignored two_minutes_of_kills --nocapture"]
async fn two_minutes_of_kills() {
    let longest_free = under_kills(24_000, 50).await;
    // The permits of two that were killed one after the other are missed for two leases at most, and
    // the machine may have other things to do.
    assert!(longest_free < 3 * LEASE, "{longest_free:?}");
}

/// Most starts in a second, wherever it begins.
fn most_in_a_second(starts: &[Instant]) -> usize {
    let in_second = |from: usize| {
        let rest = starts[from..].iter();
        rest.take_while(|start| **start - starts[from] < Duration::from_secs(1))
            .count()
    };
    (0..starts.len()).map(in_second).max().unwrap_or(0)
}

/// Tasks under a rate of 50 a second. Returns the time from the first start to the last, and the most in
/// a second.
async fn under_rate(tasks: u32) -> (Duration, usize) {
    let service = Service::start(Duration::from_millis(50), 50).await;
    let program = OwnProgram::start(env!("CARGO_BIN_EXE_limited"), TIMES)
        .variable("SERVICE", &service.address);
    let (_api, api) = program.api();
    let submitted = submit(&api, "call-fifty", tasks).await;
    let _workers = [program.worker(), program.worker(), program.worker()];
    all_completed(&api, &submitted).await;
    let starts = service.seen(|calls| calls.starts.clone());
    assert_eq!(starts.len(), tasks as usize);
    let took = starts[starts.len() - 1] - starts[0];
    let most = most_in_a_second(&starts);
    println!("{tasks} starts in {took:?}, at most {most} in a second");
    program.assert_sound();
    (took, most)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_one_over_three_workers() {
    let (took, _) = under_rate(200).await;
    // 199 starts after the first: four seconds, less what the first call took.
    assert!(took > Duration::from_millis(3_500), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute, and needs an idle machine; run by hand: cargo test -p counterstep-tests -- --ignored a_minute_of_a_rate --nocapture"]
async fn a_minute_of_a_rate() {
    let (took, most) = under_rate(3_000).await;
    let expected = Duration::from_secs(60);
    assert!(
        took > expected.mul_f64(0.95) && took < expected.mul_f64(1.05),
        "{took:?}"
    );
    assert!(most <= 55, "{most} in a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_high_priority_overtake_and_those_of_a_low_one_are_overtaken() {
    let service = Service::start(Duration::from_millis(50), 16).await;
    let program = OwnProgram::start(env!("CARGO_BIN_EXE_limited"), TIMES)
        .variable("SERVICE", &service.address);
    let (_api, api) = program.api();
    let last = submit(&api, "call-last", 80).await;
    let freely = submit(&api, "call-freely", 80).await;
    let first = submit(&api, "call-first", 10).await;
    let _worker = program.worker_with(&["--concurrency", "2"]);
    all_completed(&api, &first).await;
    all_completed(&api, &freely).await;
    all_completed(&api, &last).await;
    // By the database's clock: a look at what waits comes late on a busy machine.
    let urgent = ends(&api, &first).await.into_iter().max();
    let after = |ends: Vec<Timestamp>| ends.iter().filter(|end| Some(**end) > urgent).count();
    let waited = after(ends(&api, &freely).await);
    let low = after(ends(&api, &last).await);
    println!(
        "{waited} of 80 that were before 10 urgent tasks ended after them, and {low} of 80 of a low priority"
    );
    assert!(waited >= 40 && low >= 40, "{waited}, {low}");
    program.assert_sound();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_for_one_type_leaves_the_others_to_others() {
    let service = Service::start(Duration::from_millis(1), 16).await;
    let program = OwnProgram::start(env!("CARGO_BIN_EXE_limited"), TIMES)
        .variable("SERVICE", &service.address);
    let (_api, api) = program.api();
    let freely = submit(&api, "call-freely", 3).await;
    let first = submit(&api, "call-first", 3).await;
    let _some = program.worker_with(&["--task-types", "CallFirst@1"]);
    all_completed(&api, &first).await;
    assert_eq!(open(&api, "CallFreely").await, 3);
    let _all = program.worker();
    all_completed(&api, &freely).await;
    program.assert_sound();

    let refused = std::process::Command::new(env!("CARGO_BIN_EXE_limited"))
        .args(["worker", "--task-types", "CallFirst@2"])
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(78), "{said}");
    assert!(
        said.contains("`CallFirst@2`: known are CallFifty@1,"),
        "{said}"
    );
}

/// The API as a caller of this tenant sees it.
fn of_tenant(program: &OwnProgram, api: &Api, tenant: &str) -> Api {
    let database = program.cluster.database.as_str();
    let arguments = [
        "keys",
        "--database",
        database,
        "create",
        "--subject",
        "shop",
        "--role",
        "submit",
        "--tenant",
        tenant,
    ];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_limited"))
        .args(arguments)
        .output()
        .expect("the program runs");
    assert!(output.status.success(), "{output:?}");
    let key = String::from_utf8(output.stdout).expect("UTF-8");
    let address = api.url().trim_start_matches("http://");
    Api::at(address).with_key(key.trim())
}

/// How long each task waited for its claim, the middle of them.
async fn median_wait(api: &Api, tasks: &[TaskId]) -> Duration {
    let mut waits = Vec::new();
    for task in tasks {
        let trail = api.audit(*task).await;
        let at = |event: &str| {
            let entry = trail.entries.iter().find(|entry| entry.event == event);
            let at = &entry.unwrap_or_else(|| panic!("{event}: {trail:?}")).at;
            at.parse::<jiff::Timestamp>().expect("a time")
        };
        let waited = at("claimed").duration_since(at("submitted"));
        waits.push(waited.unsigned_abs());
    }
    waits.sort();
    waits[waits.len() / 2]
}

/// Tenant `a` submits `tasks` tasks, then tenant `b` ten. Returns the median waits of ten tasks of `b` before
/// and beside those of `a`, and how many of `a` were open when those of `b` had ended.
async fn beside_a_large_tenant(tasks: u32) -> (Duration, Duration, usize) {
    let service = Service::start(Duration::from_millis(50), 16).await;
    let program = OwnProgram::start(env!("CARGO_BIN_EXE_limited"), TIMES)
        .variable("SERVICE", &service.address);
    let (_api, api) = program.api_with(&["--auth", "keys"]);
    let (a, b) = (
        of_tenant(&program, &api, "a"),
        of_tenant(&program, &api, "b"),
    );
    let _worker = program.worker();
    let first = submit(&b, "call-freely", 10).await;
    all_completed(&b, &first).await;
    let idle = median_wait(&b, &first).await;
    let of_a = submit(&a, "call-freely", tasks).await;
    let of_b = submit(&b, "call-freely", 10).await;
    all_completed(&b, &of_b).await;
    let open = open(&a, "CallFreely").await;
    let beside = median_wait(&b, &of_b).await;
    all_completed(&a, &of_a).await;
    println!("{tasks} tasks of another tenant: median wait {beside:?}, idle {idle:?}");
    program.assert_sound();
    (idle, beside, open)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_with_many_waiting_tasks_does_not_keep_another_one_waiting() {
    let (_, _, open) = beside_a_large_tenant(1_000).await;
    assert!(
        open >= 200,
        "only {open} of the other tenant's tasks still wait"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute, and needs an idle machine; run by hand: cargo test -p counterstep-tests -- --ignored beside_five_thousand --nocapture"]
async fn beside_five_thousand() {
    let (idle, beside, _) = beside_a_large_tenant(5_000).await;
    assert!(beside <= 3 * idle, "{beside:?}, idle {idle:?}");
}

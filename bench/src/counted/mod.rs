//! What a task costs, counted, and compared with the files of `bench/golden`: a feature that adds to the way of a
//! task that does not use it changes one of them, and the commit says why.
//!
//! One task at a time, in processes whose clocks stand still: what they do now and then (polls,
//! heartbeats, the worker registry) is no cost of a task, and so it does not happen.

mod golden;
mod postgres;
mod roles;
mod sqlite;
mod wal;
mod work_messages;

use golden::{About, Costs, Counters, compare};
use roles::Roles;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::future::Future;
use tokio::sync::Mutex;

/// Counts what all that runs in this process allocates: the client, the API, the worker, the adapters.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test at a time: what is counted is that of the process.
static ALONE: Mutex<()> = Mutex::const_new(());

/// How often each task goes before it is counted: connections are open then, and statements prepared.
const WARM_UP: usize = 3;

/// The costs of each request and of all that it causes, by what it is.
async fn count(roles: &Roles, counters: &mut impl Counters) -> Vec<(&'static str, Costs)> {
    let json = || roles.submit_json();
    let zip = || roles.submit_zip();
    let at_rest = roles.submit_json().await;
    let look = || async {
        roles.look(&at_rest).await;
        at_rest.clone()
    };
    vec![
        (
            "POST /api/tasks/bench?wait=60s, three steps of 200 bytes",
            counted(roles, counters, json).await,
        ),
        (
            "POST /api/tasks/create-zip-from-files?wait=60s, two files",
            counted(roles, counters, zip).await,
        ),
        (
            "GET /api/tasks/{id} of a task at rest",
            counted(roles, counters, look).await,
        ),
    ]
}

async fn counted<F: Future<Output = String>>(
    roles: &Roles,
    counters: &mut impl Counters,
    request: impl Fn() -> F,
) -> Costs {
    for _ in 0..WARM_UP {
        request().await;
        roles.idle().await;
    }
    counters.begin().await;
    let allocated = Region::new(ALLOCATOR);
    request().await;
    roles.idle().await;
    let allocations = allocated.change().allocations as u64;
    let mut costs = counters.end().await;
    // Their bytes differ by a tenth from run to run, with the buffers of connections.
    costs.about.push(About {
        kind: "allocations",
        // How many pieces a file comes in depends on the threads.
        within: 10,
        figure: allocations,
    });
    costs
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_on_postgresql_and_nats_costs_what_the_golden_file_says() {
    let _alone = ALONE.lock().await;
    let (roles, mut counters) = postgres::start().await;
    compare("postgres", count(&roles, &mut counters).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_on_sqlite_costs_what_the_golden_file_says() {
    let _alone = ALONE.lock().await;
    let (roles, mut counters) = sqlite::start().await;
    compare("sqlite", count(&roles, &mut counters).await);
}

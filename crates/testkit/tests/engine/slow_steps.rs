//! How long the steps of a type take: of the newest tasks of one tenant, from the change that started an attempt to the one that
//! ended it.

use crate::errand::only;
use counterstep_contracts::{Host, TaskId, TaskStatus, Tenant};
use counterstep_kernel::ports::TaskQuery;
use counterstep_kernel::status::slow_steps::slow_steps;
use counterstep_kernel::turn::{TurnEnd, turn};
use counterstep_macros::distributed_task;
use counterstep_steps::{CancelToken, StepContext, StepResult};
use counterstep_testkit::clock::{until_works, work_for};
use counterstep_testkit::{Form, Harness, Site};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Serialize, Deserialize)]
struct Leg {
    seconds: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Loaded(u32);

struct Haul;

#[distributed_task(name = "Haul", queue = "hauls")]
impl Haul {
    type Request = Leg;
    type Response = u32;

    #[step(1, host = "worker", no_undo = "test")]
    async fn load(_ctx: &StepContext) -> StepResult<Loaded> {
        Ok(Loaded(1))
    }

    #[step(2, host = "worker", no_undo = "test")]
    async fn drive(ctx: &StepContext, leg: &Leg, loaded: &Loaded) -> StepResult<u32> {
        work_for(ctx.task_id(), Duration::from_secs(leg.seconds)).await;
        Ok(loaded.0)
    }

    fn respond(drive: &u32) -> u32 {
        *drive
    }
}

/// A task that has driven for as many seconds.
async fn driven(site: &Site, tenant: &str, seconds: u64) -> TaskId {
    let form = Form::new().field("seconds", seconds).tenant(tenant);
    let id = site.submit(form).await;
    let shutdown = CancelToken::new();
    let works = async {
        until_works(id).await;
        site.clock.advance_by(Duration::from_secs(seconds));
    };
    let (end, ()) = futures::join!(turn(&site.engine, Host::Worker, id, &shutdown), works);
    assert_eq!(end, TurnEnd::Rests(TaskStatus::Completed));
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_slowest_step_comes_first_with_its_slowest_task() {
    let site = Harness::embedded(only::<Haul>()).start().await;
    let mut ids = Vec::new();
    for seconds in [2, 8, 4] {
        ids.push(driven(&site, "acme", seconds).await);
    }
    driven(&site, "umbra", 16).await;
    let of = |tasks: u32| TaskQuery {
        tenant: Some(Tenant("acme".to_owned())),
        task_type: Some("Haul".to_owned()),
        limit: tasks,
        ..TaskQuery::default()
    };
    let store = &site.engine.ports.store;
    let found = slow_steps(store, &of(100)).await.expect("it is read");
    assert_eq!((found.tasks, found.complete), (3, true));
    let [drive, load] = &found.items[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&*drive.step, drive.count), ("drive", 3));
    assert_eq!((&*load.step, load.count), ("load", 3));
    assert_eq!(drive.slowest, ids[1]);
    assert!((4_000..8_000).contains(&drive.median_ms), "{drive:?}");
    assert!((8_000..16_000).contains(&drive.max_ms), "{drive:?}");
    assert_eq!(drive.p95_ms, drive.max_ms);
    assert!(load.max_ms < 2_000, "{load:?}");
    // The newest one alone.
    let found = slow_steps(store, &of(1)).await.expect("it is read");
    assert_eq!((found.tasks, found.items[0].count), (1, 1));
    assert_eq!(found.items[0].slowest, ids[2]);
}

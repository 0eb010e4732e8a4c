//! Databases that an older commit has written: this program opens them, reads them, finds them whole and goes on with
//! them. `tests/fixtures/README.md` says what they hold and how the next one is made.

mod opened;
mod types;
mod written;

use counterstep_adapters::embedded::{self, EmbeddedPaths};
use counterstep_adapters::postgres::{PostgresOptions, PostgresStore};
use counterstep_contracts::{TaskId, TaskStatus, WaitReason};
use counterstep_kernel::ports::Ports;
use counterstep_kernel::record::TaskRecord;
use counterstep_kernel::turn::turn;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::{CancelToken, Registry};
use counterstep_testkit::{LossyQueue, TestClock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What a fixture says of itself.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Contents {
    /// When it was complete, by its database, in microseconds since 1970.
    pub(crate) at: i64,
    /// The secret of the API key in it.
    pub(crate) api_key: String,
    /// Its tasks, by what each is there for.
    pub(crate) tasks: BTreeMap<String, Expected>,
}

/// A task as it was left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) id: TaskId,
    pub(crate) status: TaskStatus,
    pub(crate) waiting: Option<WaitReason>,
}

/// Where the fixtures are.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// The ports on the files of a folder, and on the PostgreSQL database of a URL, where there is one.
pub(crate) async fn ports(folder: &Path, postgres: Option<&str>, clock: &TestClock) -> Ports {
    let paths = EmbeddedPaths {
        database: folder.join("tasks.db"),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    let mut ports = embedded::open(paths, clock.embedded())
        .await
        .expect("the adapters open");
    ports.queue = Arc::<LossyQueue>::default();
    if let Some(url) = postgres {
        let options = PostgresOptions {
            connections: 4,
            ..PostgresOptions::default()
        };
        let store = PostgresStore::open(url, options).await;
        ports.store = store.expect("the store opens").into();
    }
    ports
}

/// An engine whose answers to idempotency keys outlive the fixture.
pub(crate) async fn engine(ports: &Ports, mut registry: Registry, events: bool) -> Engine {
    let made = registry.make_states().await;
    made.unwrap_or_else(|error| panic!("{error}"));
    let settings = EngineSettings {
        events,
        alerts: true,
        idempotency_ttl: Duration::from_secs(10 * 365 * 86_400),
        cancel_grace: Duration::from_millis(100),
        machine: "fixture".to_owned(),
        ..EngineSettings::default()
    };
    Engine::new(ports.clone(), Arc::new(registry), settings, "fixture")
}

pub(crate) async fn load(engine: &Engine, task: TaskId) -> TaskRecord {
    let loaded = engine.ports.store.load(task).await;
    loaded.expect("the store answers").expect("the task exists")
}

/// Gives a task turns until it rests, waits for a time or for another task, or belongs to a host.
pub(crate) async fn go(engine: &Engine, task: TaskId) -> TaskRecord {
    for _ in 0..100 {
        let before = load(engine, task).await;
        let row = &before.task;
        if row.status.is_at_rest() || row.lease_owner.is_some() || !before.due_in().is_zero() {
            return before;
        }
        turn(engine, row.host, task, &CancelToken::new()).await;
        let after = load(engine, task).await;
        if after.task.rev == before.task.rev {
            return after;
        }
    }
    panic!("the task goes on and on: {:?}", load(engine, task).await);
}

//! A step that kills its process, and the tasks beside it: real worker processes that abort.

use crate::errand::only;
use counterstep_adapters::embedded::{self, EmbeddedOptions, EmbeddedPaths};
use counterstep_contracts::{Host, TaskStatus};
use counterstep_kernel::host::{self, HostSettings};
use counterstep_kernel::ports::Lost;
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_macros::distributed_task;
use counterstep_reconciler::recovery;
use counterstep_steps::{CancelToken, StepContext, StepResult, UndoResult};
use counterstep_testkit::{Form, Harness};
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Set: this process is a worker on the files in that folder.
const FOLDER: &str = "COUNTERSTEP_POISON_WORKER";

/// What has not happened after this long never will.
const LIMIT: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Dose {
    poison: bool,
}

struct Meal;

#[distributed_task(name = "Meal", queue = "meals", lease = "2s", max_recoveries = 2)]
impl Meal {
    type Request = Dose;
    type Response = u32;

    #[step(1, host = "worker", undo = leave)]
    async fn eat(_ctx: &StepContext, req: &Dose) -> StepResult<u32> {
        if req.poison {
            // Long enough for the others to be in the middle of theirs.
            tokio::time::sleep(Duration::from_millis(300)).await;
            std::process::abort();
        }
        tokio::time::sleep(Duration::from_millis(900)).await;
        Ok(1)
    }

    async fn leave(_ctx: &StepContext, _out: Option<u32>) -> UndoResult {
        Ok(())
    }

    fn respond(eat: &u32) -> u32 {
        *eat
    }
}

/// No test by itself: the worker of the next one.
#[tokio::test(flavor = "multi_thread")]
async fn the_worker_that_aborts() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    // It ends with its test, whatever way that one ends.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let paths = EmbeddedPaths {
        database: folder.join("counterstep.db"),
        objects: folder.join("objects"),
        scratch: folder.join("scratch"),
    };
    let ports = embedded::open(paths, EmbeddedOptions::default())
        .await
        .expect("the files open");
    let registry = Arc::new(only::<Meal>());
    let mut settings = HostSettings::for_all(&registry, Host::Worker, 8);
    settings.poll = Duration::from_millis(50);
    let engine = Engine::new(ports, registry, EngineSettings::default(), "worker");
    let spawn = Arc::new(|future| drop(tokio::spawn(future)));
    host::serve(engine, settings, CancelToken::new(), spawn).await;
}

struct Worker(Child);

impl Worker {
    fn start(folder: &std::path::Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("its own path"));
        command
            .args(["--exact", "poison::the_worker_that_aborts"])
            .env(FOLDER, folder);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Self(command.spawn().expect("a worker starts"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_kills_its_process_is_undone_and_its_neighbours_complete() {
    let site = Harness::embedded(only::<Meal>()).start().await;
    let store = site.engine.ports.store.clone();
    let poison = site.submit(Form::new().field("poison", true)).await;
    let mut innocents = Vec::new();
    for _ in 0..4 {
        innocents.push(site.submit(Form::new()).await);
    }

    let until = Instant::now() + LIMIT;
    let mut worker = Worker::start(site.folder());
    loop {
        let plan = recovery::plan(&site.engine, Lost::default(), 10)
            .await
            .expect("a plan");
        recovery::run(&site.engine, plan, &CancelToken::new()).await;
        if worker.0.try_wait().expect("its state").is_some() {
            worker = Worker::start(site.folder());
        }
        let mut at_rest = 0;
        for task in innocents.iter().chain([&poison]) {
            let record = store.load(*task).await.expect("an answer").expect("a task");
            at_rest += usize::from(record.task.status.is_at_rest());
        }
        if at_rest == 5 {
            break;
        }
        assert!(
            Instant::now() < until,
            "only {at_rest} of 5 tasks came to rest"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }

    for task in innocents {
        let record = store.load(task).await.expect("an answer").expect("a task");
        assert_eq!(
            record.task.status,
            TaskStatus::Completed,
            "{:?}",
            record.task.failure
        );
    }
    let record = store
        .load(poison)
        .await
        .expect("an answer")
        .expect("a task");
    assert_eq!(record.task.status, TaskStatus::Failed);
    let failure = record.task.failure.expect("a failure");
    assert_eq!(failure.class, "lost");
    assert_eq!(
        failure.message.matches("`eat` on worker:").count(),
        3,
        "{}",
        failure.message
    );
}

//! An engine with many tasks at once: a host takes them from the queue as a worker does, and a test
//! looks on.

use crate::clock::TestClock;
use crate::database::{self, open};
use crate::form::Form;
use crate::form::{self, submit};
use crate::invariants;
use crate::planted::MustStrike;
use counterstep_contracts::{Host, TaskId, TaskStatus};
use counterstep_kernel::client::SubmitError;
use counterstep_kernel::host::{self, HostSettings, Spawn};
use counterstep_kernel::ports::Ports;
use counterstep_kernel::record::{History, TaskRecord};
use counterstep_kernel::{Engine, EngineSettings};
use counterstep_steps::{CancelReason, CancelToken, Registry};
use serde_json::Value;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What has not happened after this long never will.
const LIMIT: Duration = Duration::from_secs(60);

/// An engine in a temporary folder, and hosts that serve it.
#[derive(Debug)]
pub struct Site {
    /// Its engine. Change ports and settings before [`serve`](Self::serve).
    pub engine: Engine,
    /// The time of its engine and its database.
    pub clock: TestClock,
    settings: EngineSettings,
    registry: Arc<Registry>,
    serving: Vec<(CancelToken, tokio::task::JoinHandle<()>)>,
    folder: TempDir,
    _must_strike: MustStrike,
}

impl Site {
    pub(crate) async fn start(
        registry: Registry,
        settings: EngineSettings,
        tables: &[String],
    ) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("counterstep-test-")
            .tempdir()
            .expect("a temporary folder");
        let clock = TestClock::new();
        let ports = open(folder.path(), &clock).await;
        for sql in tables {
            database::execute(folder.path(), sql);
        }
        let registry = Arc::new(with_states(registry).await);
        let engine = Engine::new(ports, registry.clone(), settings.clone(), "test");
        Self {
            _must_strike: MustStrike::all(&settings.faults),
            engine,
            clock,
            settings,
            registry,
            serving: Vec::new(),
            folder,
        }
    }

    /// Where it keeps its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What a query finds in tables of one's own: each row a JSON object by the names of the columns,
    /// bytes as a list of numbers.
    ///
    /// # Panics
    /// When it cannot be executed.
    #[must_use]
    pub fn rows(&self, query: &str) -> Vec<Value> {
        database::rows(self.folder.path(), query)
    }

    /// Submits to the task type that the form names, else to the first by name.
    ///
    /// # Panics
    /// When the form answers signals: only the harness sends those.
    pub async fn submit(&self, form: Form) -> TaskId {
        assert!(
            form.answers.is_empty(),
            "a site sends no answers of a form: submit it by `Harness::submit`"
        );
        let task = submit(&self.engine, form).await;
        self.clock.runs(task);
        task
    }

    /// The same, where it may be refused.
    ///
    /// # Errors
    /// As the end of a submission has them.
    pub async fn try_submit(&self, form: Form) -> Result<TaskId, SubmitError> {
        let task = form::try_submit(&self.engine, form).await?;
        self.clock.runs(task);
        Ok(task)
    }

    /// Takes tasks from now on: at most `concurrency` at a time on the worker host, and any number on the api
    /// host.
    pub fn serve(&mut self, concurrency: usize) {
        let spawn: Spawn = Arc::new(|future| {
            tokio::spawn(future);
        });
        for (host, concurrency) in [(Host::Worker, concurrency), (Host::Api, 16)] {
            let mut settings = HostSettings::for_all(&self.registry, host, concurrency);
            settings.poll = Duration::from_millis(50);
            let shutdown = CancelToken::new();
            let serving = host::serve(
                self.engine.clone(),
                settings,
                shutdown.clone(),
                spawn.clone(),
            );
            self.serving.push((shutdown, tokio::spawn(serving)));
        }
    }

    /// Ends all hosts in an orderly way.
    pub async fn stop(&mut self) {
        for (shutdown, serving) in self.serving.drain(..) {
            shutdown.cancel(CancelReason::Shutdown);
            let _ = serving.await;
        }
    }

    /// Ends the hosts and opens everything anew from the files, as another process would: what was
    /// only in memory is gone. The services that steps call are others' and stay. Nothing is served then.
    pub async fn restart(&mut self) -> Ports {
        self.stop().await;
        let mut ports = open(self.folder.path(), &self.clock).await;
        ports.services = self.engine.ports.services.clone();
        self.engine = Engine::new(
            ports.clone(),
            self.registry.clone(),
            self.settings.clone(),
            "test",
        );
        ports
    }

    /// A task's rows.
    ///
    /// # Panics
    /// When they cannot be read.
    pub async fn record(&self, task: TaskId) -> TaskRecord {
        self.engine
            .ports
            .store
            .load(task)
            .await
            .expect("the store answers")
            .expect("the task exists")
    }

    /// A task's past.
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn history(&self, task: TaskId) -> History {
        self.engine
            .ports
            .store
            .history(task)
            .await
            .expect("the store answers")
    }

    /// Waits until each of the tasks is as wanted, and gives their rows.
    ///
    /// # Panics
    /// When one never is.
    pub async fn all(
        &self,
        what: &str,
        tasks: &[TaskId],
        wanted: impl Fn(&TaskRecord) -> bool,
    ) -> Vec<TaskRecord> {
        let mut records = Vec::with_capacity(tasks.len());
        let until = Instant::now() + LIMIT;
        for task in tasks {
            records.push(loop {
                let record = self.record(*task).await;
                if wanted(&record) {
                    break record;
                }
                let row = &record.task;
                assert!(
                    Instant::now() < until,
                    "never {what}: {} {:?} {:?}",
                    row.status,
                    row.waiting,
                    record.steps
                );
                pause().await;
            });
        }
        records
    }

    /// Waits until each of the tasks is in this state.
    ///
    /// # Panics
    /// When one never is.
    pub async fn all_are(&self, status: TaskStatus, tasks: &[TaskId]) -> Vec<TaskRecord> {
        self.all(status.as_str(), tasks, |record| {
            record.task.status == status
        })
        .await
    }

    /// Everything that the rows of these tasks alone can show is in order, also between parents and
    /// children among them.
    ///
    /// # Panics
    /// When it is not.
    pub async fn assert_invariants(&self, tasks: &[TaskId]) {
        let mut records = Vec::with_capacity(tasks.len());
        for task in tasks {
            records.push(self.record(*task).await);
        }
        let broken = invariants::broken_of_all(&self.engine, &records).await;
        assert!(broken.is_empty(), "broken: {}", broken.join("; "));
    }
}

/// The registry with all that it provides made, as a process does at its start.
///
/// # Panics
/// When it does not provide what its types take, or provides what none takes: a value of another
/// type than the test means.
pub(crate) async fn with_states(mut registry: Registry) -> Registry {
    registry
        .check_types()
        .unwrap_or_else(|error| panic!("{error}"));
    registry
        .check_states()
        .unwrap_or_else(|error| panic!("{error}"));
    let unused = registry.unused_states();
    assert!(
        unused.is_empty(),
        "no step of these types takes `&State<..>` of {}; expected only what steps take",
        unused.join(", ")
    );
    let made = registry.make_states().await;
    made.unwrap_or_else(|error| panic!("{error}"));
    registry
}

/// Waits until a look finds something.
///
/// # Panics
/// When it never does.
pub async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        let waited = began.elapsed();
        assert!(waited < LIMIT, "never came: {what}");
        // What is waited for longer is looked for less often.
        tokio::time::sleep((waited / 40).clamp(PAUSE, 4 * PAUSE)).await;
    }
}

/// Between two looks at a condition that nothing announces, at least.
const PAUSE: Duration = Duration::from_millis(5);

/// Between two looks at a condition that nothing announces.
pub(crate) async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

#[cfg(test)]
mod tests {
    use crate::Harness;
    use counterstep_steps::Registry;
    use counterstep_steps::ports::ServiceAnswer;

    #[tokio::test]
    async fn the_services_of_a_harness_are_there_after_a_restart() {
        let harness = Harness::embedded(Registry::new());
        let answer = |_: &_| Ok(ServiceAnswer::json(200, &serde_json::json!(7)));
        let mut site = harness.service("prices", answer).start().await;
        assert!(site.engine.ports.services.knows("prices"));
        site.restart().await;
        assert!(site.engine.ports.services.knows("prices"));
    }
}

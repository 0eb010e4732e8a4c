//! The engine of a process: its ports, its task types, its settings, and what it remembers. How it
//! changes a task is in `change`.

pub mod faults;
pub mod log_lines;
pub(crate) mod settings;
#[cfg(test)]
pub(crate) mod sizes;
pub mod time_limits;

use crate::admission::heavy::Heavy;
use crate::admission::isolation::Isolation;
use crate::admission::known_pauses::KnownPauses;
use crate::admission::limits::Limits;
use crate::admission::setting_cache::SettingCache;
use crate::admission::waiting_tasks::WaitingTasks;
use crate::change::outbox::{Published, Stall};
use crate::client::AbandonedKeys;
use crate::engine::log_lines::LogLines;
use crate::engine::settings::EngineSettings;
use crate::error::StepResult;
use crate::host::deliveries::Deliveries;
use crate::host::loop_watch::LoopWatch;
use crate::host::store_uptime::StoreUptime;
use crate::ports::{NoRecorder, NoTraces, Ports, Recorder, Spool, StepProcesses, Traces};
use crate::task::{Inputs, Registry, TaskType, guarded};
use crate::webhooks::recent_alerts::RecentAlerts;
use crate::workers::registration::Registration;
use counterstep_contracts::{ChangeId, TaskId};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// Ports, task types and settings of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Engine {
    /// The adapters: store, queue, objects, clock and others.
    pub ports: Ports,
    /// The task types that it can run.
    pub registry: Arc<Registry>,
    /// The settings of the engine.
    pub settings: Arc<EngineSettings>,
    /// Counts what it does.
    pub recorder: Arc<dyn Recorder>,
    /// Puts its spans into the traces of tasks.
    pub traces: Arc<dyn Traces>,
    /// Runs the code of steps that are declared to have processes of their own. `None`: it runs in this
    /// process, as in tests.
    pub processes: Option<Arc<dyn StepProcesses>>,
    /// Keeps results of attempts that the store could not be given; `None`: those are in doubt.
    pub spool: Option<Arc<dyn Spool>>,
    /// Names this start of this process in leases and audit entries.
    pub id: Arc<str>,
    /// Changes whose events were published and are still in the outbox.
    pub(crate) published: Arc<Published>,
    /// Whether the queue left a brief announcement without an answer.
    pub(crate) stall: Arc<Stall>,
    /// Which task types were disabled a moment ago.
    pub(crate) disabled_types: Arc<SettingCache<BTreeSet<String>>>,
    /// What it writes into the worker registry.
    pub(crate) registration: Arc<Registration>,
    /// Which turns may run beside each other.
    pub(crate) isolation: Arc<Isolation>,
    /// Its room for heavy steps.
    pub(crate) heavy: Arc<Heavy>,
    /// What it has of the limits of all processes.
    pub(crate) limits: Arc<Limits>,
    /// Which queues are paused, and whether it is itself.
    pub(crate) pauses: Arc<SettingCache<KnownPauses>>,
    /// How many tasks of a tenant wait.
    pub(crate) waiting: Arc<WaitingTasks>,
    /// Alerts that this process has raised.
    pub(crate) raised: Arc<RecentAlerts>,
    /// Lines of its log that others can cause.
    log_lines: Arc<LogLines>,
    /// Whether its loops go round.
    pub(crate) vitals: Arc<LoopWatch>,
    /// Since when the store answers.
    pub(crate) contact: Arc<StoreUptime>,
    /// Whether the queue brings something.
    pub(crate) deliveries: Arc<Deliveries>,
    /// Keys of requests that failed while the store did not answer.
    pub(crate) abandoned: Arc<AbandonedKeys>,
}

impl Engine {
    /// Of ports, types and settings. `role` is part of its id: `worker`, `api`, `reconciler`.
    #[must_use]
    pub fn new(
        ports: Ports,
        registry: Arc<Registry>,
        settings: EngineSettings,
        role: &str,
    ) -> Self {
        let limits = Arc::new(Limits::new(ports.clock.clone()));
        let heavy = Arc::new(Heavy::new(&limits, settings.heavy));
        let id = format!("{role}:{:012x}", ports.random.bits() & 0xffff_ffff_ffff);
        Self {
            ports,
            registry,
            settings: Arc::new(settings),
            recorder: Arc::new(NoRecorder),
            traces: Arc::new(NoTraces),
            processes: None,
            spool: None,
            id: id.into(),
            published: Arc::default(),
            stall: Arc::default(),
            disabled_types: Arc::default(),
            registration: Arc::default(),
            isolation: Arc::default(),
            heavy,
            limits,
            pauses: Arc::default(),
            waiting: Arc::default(),
            raised: Arc::default(),
            log_lines: Arc::default(),
            vitals: Arc::default(),
            contact: Arc::default(),
            deliveries: Arc::default(),
            abandoned: Arc::default(),
        }
    }

    /// Counts what it does with this.
    #[must_use]
    pub fn recorded_by(self, recorder: Arc<dyn Recorder>) -> Self {
        Self { recorder, ..self }
    }

    /// Puts its spans into traces with this.
    #[must_use]
    pub fn traced_by(self, traces: Arc<dyn Traces>) -> Self {
        Self { traces, ..self }
    }

    /// Runs steps in processes of their own with this, where they are declared so.
    #[must_use]
    pub fn isolated_by(self, processes: Arc<dyn StepProcesses>) -> Self {
        let processes = Some(processes);
        Self { processes, ..self }
    }

    /// Runs the code of a step where that has a process of its own; `None`: in this one.
    pub(crate) fn processes_of(
        &self,
        task_type: &TaskType,
        at: usize,
    ) -> Option<Arc<dyn StepProcesses>> {
        task_type.decl.steps[at].isolate?;
        self.processes.clone()
    }

    /// Keeps results in this, which is this process's own.
    #[must_use]
    pub fn spooled_by(self, spool: Arc<dyn Spool>) -> Self {
        Self {
            spool: Some(spool),
            ..self
        }
    }

    /// Whether to write a line of a kind that others can cause: with how many that were left out before; `None`: not now.
    pub(crate) fn log_line(&self, kind: &'static str) -> Option<u64> {
        self.log_lines.next(kind, self.ports.clock.monotonic())
    }

    /// A new task id.
    #[must_use]
    pub fn new_task_id(&self) -> TaskId {
        let bytes = self.ports.random.bits().to_be_bytes();
        let mut tail = [0; 10];
        tail.copy_from_slice(&bytes[..10]);
        TaskId(
            uuid::Builder::from_unix_timestamp_millis(self.ports.clock.unix_millis(), &tail)
                .into_uuid(),
        )
    }

    /// A new change id.
    #[must_use]
    pub fn new_change_id(&self) -> ChangeId {
        ChangeId(Uuid::from_u128(self.ports.random.bits()))
    }

    /// The labels that a type makes of a request. An empty text is no label.
    ///
    /// # Errors
    /// What the code of its author says.
    pub(crate) fn declared_labels(
        &self,
        task_type: &TaskType,
        request: &Value,
    ) -> StepResult<Vec<(&'static str, String)>> {
        let Some(declared) = task_type.labels else {
            return Ok(Vec::new());
        };
        let inputs = self.inputs(request.clone(), BTreeMap::new());
        let mut made = guarded("label", || declared(&inputs))?;
        made.retain(|(_, value)| !value.is_empty());
        Ok(made)
    }

    /// What code of a task reads: the request, the outputs committed so far by step, and what the
    /// program provides.
    pub(crate) fn inputs(&self, request: Value, outputs: BTreeMap<String, Value>) -> Inputs {
        Inputs::new(request, outputs)
            .with_states(self.registry.states().clone())
            .within(self.settings.output_limit)
    }
}

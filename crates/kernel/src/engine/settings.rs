//! What a process may set of its engine.

use crate::cancel::CancelToken;
use crate::engine::faults::Fault;
use crate::output_limit::OutputLimit;
use crate::policies::Policies;
use crate::task::TaskType;
use crate::webhooks::AllowedNets;
use counterstep_contracts::{Attempt, Direction, LogPart};
use std::sync::Arc;
use std::time::Duration;

/// What a process may set.
#[derive(Debug, Clone)]
pub struct EngineSettings {
    /// Lease of types that declare none.
    pub lease: Duration,
    /// Limit of one attempt of steps that declare none.
    pub step_timeout: Duration,
    /// How long results that the database could not be given are kept, where the process has a spool.
    pub spool_max_age: Duration,
    /// No attempt gets longer than this, whatever its step declares. For tests, which would wait
    /// for a hanging step.
    pub longest_attempt: Option<Duration>,
    /// Limit of a request's arrival, uploads included.
    pub upload_timeout: Duration,
    /// How long a step may go on after its token was cancelled; then it is dropped.
    pub cancel_grace: Duration,
    /// How long running steps may go on at shutdown before their tokens are cancelled.
    pub drain: Duration,
    /// Once cancelled, a shutdown waits for no running step any more: the rest of `drain` is over.
    pub hurry: CancelToken,
    /// How long the answer to an idempotency key is kept.
    pub idempotency_ttl: Duration,
    /// Whether every change is told to other services, too: one more outbox row a change.
    pub events: bool,
    /// How long after its last refresh this process is listed as lost. It refreshes its row three times as
    /// often.
    pub lost_after: Duration,
    /// A loop or a heartbeat that is late by more than this counts as hung.
    pub hung_after: Duration,
    /// The name of the machine.
    pub machine: String,
    /// The version of the program.
    pub program: String,
    /// Bytes of memory that the process holds; `None`: its system has no such figure.
    pub memory: fn() -> Option<u64>,
    /// How large an output, a response or a signal may be.
    pub output_limit: OutputLimit,
    /// The retry policies and breakers in effect.
    pub policies: Arc<Policies>,
    /// Maximum number of heavy steps that run at a time in this process; at least 1.
    pub heavy: usize,
    /// Bytes that the scratch files of all tasks may take on this host; `None`: as many as there are.
    pub scratch_quota: Option<u64>,
    /// About how many tasks of one type and tenant may wait: further submissions are refused. `None`: any
    /// number.
    pub max_waiting: Option<u32>,
    /// The labels of tasks that metrics carry, and by which durations are counted, by name.
    pub metrics_labels: Vec<String>,
    /// Networks that webhooks may reach although they are private, and without TLS.
    pub webhook_allow: AllowedNets,
    /// Whether operators are told of dead letters and the like, by an API process.
    pub alerts: bool,
    /// Planted faults.
    pub faults: Vec<Fault>,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            step_timeout: Duration::from_secs(600),
            // An outage of a night is over by then; what is older is a result that people have long worked around.
            spool_max_age: Duration::from_secs(24 * 3600),
            longest_attempt: None,
            upload_timeout: Duration::from_secs(900),
            // Enough to close what is open. A step that needs longer to stop asks for its own end more often.
            cancel_grace: Duration::from_secs(5),
            drain: Duration::from_secs(10),
            hurry: CancelToken::new(),
            idempotency_ttl: Duration::from_secs(24 * 3600),
            events: false,
            // Nothing follows from it but a word in a list: three refreshes, so that one may be late.
            lost_after: Duration::from_secs(45),
            // Twice the usual lease: a process that is merely slow has lost its tasks by then, and not its life.
            hung_after: Duration::from_secs(60),
            machine: "unnamed".to_owned(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            memory: || None,
            output_limit: OutputLimit::default(),
            policies: Arc::default(),
            heavy: 2,
            scratch_quota: None,
            max_waiting: None,
            metrics_labels: Vec::new(),
            webhook_allow: AllowedNets::default(),
            alerts: false,
            faults: Vec::new(),
        }
    }
}

impl EngineSettings {
    /// The lease of a type's tasks.
    pub(crate) fn lease_of(&self, task_type: &TaskType) -> Duration {
        task_type.decl.lease.unwrap_or(self.lease)
    }

    /// Limit of an attempt of the step at this place of the declaration, from 0 on, and the time
    /// after its start from which on its objects are orphans: no writer can be alive then.
    #[must_use]
    pub fn attempt_limits(
        &self,
        task_type: &TaskType,
        at: usize,
        direction: Direction,
    ) -> (Duration, Duration) {
        let step = &task_type.decl.steps[at];
        let declared = self.policies.attempt_timeout(step, direction);
        let limit = declared.unwrap_or(self.step_timeout);
        let limit = self
            .longest_attempt
            .map_or(limit, |longest| limit.min(longest));
        (limit, limit + self.cancel_grace + self.lease_of(task_type))
    }

    /// The fault that is planted at this attempt, or this try, of a part of a step.
    pub(crate) fn fault_at(&self, step: &str, part: LogPart, attempt: Attempt) -> Option<Fault> {
        let mut faults = self.faults.iter();
        faults
            .find(|fault| fault.strikes(step, part, attempt))
            .cloned()
    }

    /// How long a step's probe may take.
    #[must_use]
    pub fn probe_limit(&self, task_type: &TaskType, at: usize) -> Duration {
        let limit = self.attempt_limits(task_type, at, Direction::Forward).0;
        let own = self.policies.probe_timeout(&task_type.decl.steps[at]);
        own.map_or(limit, |own| limit.min(own))
    }
}

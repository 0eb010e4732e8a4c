//! The counters of a process, found without a lock or an allocation: what can be counted is known from
//! the declarations when it starts.

use super::ended::{Ended, series};
use super::histogram::Histogram;
use counterstep_contracts::webhook::DeliveryStatus;
use counterstep_contracts::{Direction, Labels, Outcome, TaskDecl, TaskStatus};
use counterstep_kernel::ports::{Observation, Recorder, SpoolOutcome, SubmissionOutcome};
use counterstep_steps::Registry;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{self, Unit};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

/// Labels of a series.
pub(super) type Series = Vec<(Cow<'static, str>, String)>;

/// The figures of a process. Those of a task type are made when the process starts, but for
/// histograms and attempts, which are made when they are first counted: each has many series.
#[derive(Debug)]
pub struct Metrics {
    registry: registry::Registry,
    types: HashMap<&'static str, TypeFigures>,
    families: Families,
    ended: Ended,
    counters: Counters,
}

/// Of no task type.
#[derive(Debug, Default)]
struct Counters {
    leases_lost: Counter,
    attempts_abandoned: Counter,
}

#[derive(Debug, Clone, Default)]
struct Families {
    submissions: Family<Series, Counter>,
    ended: Family<Series, Counter>,
    durations: Family<Series, Histogram>,
    waits: Family<Series, Histogram>,
    attempts: Family<Series, Counter>,
    attempt_durations: Family<Series, Histogram>,
    undos: Family<Series, Counter>,
    recoveries: Family<Series, Counter>,
    polled: Family<Series, Counter>,
    webhooks: Family<Series, Counter>,
    spooled: Family<Series, Counter>,
}

/// Of one task type, all its versions together.
#[derive(Debug)]
struct TypeFigures {
    /// In the order of [`SubmissionOutcome::ALL`].
    submissions: Vec<Counter>,
    /// In the order of [`TaskStatus::ALL`].
    ended: Vec<OnceLock<Counter>>,
    durations: Vec<OnceLock<Histogram>>,
    waits: OnceLock<Histogram>,
    undos: Counter,
    recoveries: Counter,
    polled: Counter,
    steps: HashMap<&'static str, StepFigures>,
}

/// Of one step in both directions.
#[derive(Debug, Default)]
struct StepFigures {
    attempts: [[OnceLock<Counter>; Outcome::ALL.len()]; 2],
    durations: [OnceLock<Histogram>; 2],
}

impl Metrics {
    /// For the task types of this program. `labels`: the labels of tasks by which those that ended are
    /// counted apart.
    #[must_use]
    pub fn of(known: &Registry, labels: &[String]) -> Self {
        let families = Families::default();
        let counters = Counters::default();
        let registry = families.registered(&counters);
        for status in DeliveryStatus::ALL {
            let _ = families.webhook(*status);
        }
        for outcome in SpoolOutcome::ALL {
            let _ = families.spooled(*outcome);
        }
        let ended = Ended::new(families.ended.clone(), labels);
        let mut types: HashMap<_, TypeFigures> = HashMap::new();
        for task_type in known.iter() {
            let decl = task_type.decl;
            let figures = types
                .entry(decl.name)
                .or_insert_with(|| families.of(decl, &ended));
            for step in decl.steps {
                figures.steps.entry(step.name).or_default();
            }
        }
        Self {
            registry,
            types,
            families,
            ended,
            counters,
        }
    }
}

impl Families {
    fn registered(&self, counters: &Counters) -> registry::Registry {
        let mut registry = registry::Registry::with_prefix("counterstep");
        registry.register(
            "submissions",
            "Requests answered by this process, by type and outcome",
            self.submissions.clone(),
        );
        registry.register(
            "tasks_ended",
            "Tasks that this process brought to an end or parked, by type, status and the labels of the settings",
            self.ended.clone(),
        );
        registry.register_with_unit(
            "task_duration",
            "Time from submission to the end of a task, or until it was parked",
            Unit::Seconds,
            self.durations.clone(),
        );
        registry.register_with_unit(
            "claim_wait",
            "Time from when a task could be claimed until this process claimed it",
            Unit::Seconds,
            self.waits.clone(),
        );
        registry.register(
            "attempts",
            "Attempts of steps and undos that ended in this process, by type, step, direction and outcome",
            self.attempts.clone(),
        );
        registry.register_with_unit(
            "attempt_duration",
            "Time that attempts took, by type, step and direction",
            Unit::Seconds,
            self.attempt_durations.clone(),
        );
        registry.register(
            "undos",
            "Tasks whose undo this process began, by type",
            self.undos.clone(),
        );
        registry.register(
            "leases_lost",
            "Turns of this process that lost their lease",
            counters.leases_lost.clone(),
        );
        registry.register(
            "attempts_abandoned",
            "Attempts that this process gave up while their code blocked its thread",
            counters.attempts_abandoned.clone(),
        );
        registry.register(
            "recoveries",
            "Tasks that this process took over from lost hosts, by type",
            self.recoveries.clone(),
        );
        registry.register(
            "found_by_polling",
            "Tasks that polling found while the queue brought nothing, though a message should have, by type",
            self.polled.clone(),
        );
        registry.register(
            "webhooks",
            "Webhooks that this process sent, by how they stand after it: delivered, pending or failed",
            self.webhooks.clone(),
        );
        registry.register(
            "spooled_results",
            "Results of attempts that this process kept on its disk, or did not get there, and what became of them, by outcome",
            self.spooled.clone(),
        );
        registry
    }

    fn spooled(&self, outcome: SpoolOutcome) -> Counter {
        let series = vec![("outcome".into(), outcome.as_str().to_owned())];
        self.spooled.get_or_create_owned(&series)
    }

    fn webhook(&self, status: DeliveryStatus) -> Counter {
        let series = vec![("status".into(), status.as_str().to_owned())];
        self.webhooks.get_or_create_owned(&series)
    }

    fn of(&self, decl: &TaskDecl, ended: &Ended) -> TypeFigures {
        let name = decl.name;
        let of_type = vec![("task_type".into(), name.to_owned())];
        let submissions = SubmissionOutcome::ALL.iter().map(|outcome| {
            let mut series: Series = of_type.clone();
            series.push(("outcome".into(), outcome.as_str().to_owned()));
            self.submissions.get_or_create_owned(&series)
        });
        // A series that begins at 0 shows its first increase.
        let counted = |status: &TaskStatus| {
            let counter = OnceLock::new();
            if status.is_at_rest() && !ended.has_labels() {
                let _ = counter.set(self.ended.get_or_create_owned(&series(name, *status)));
            }
            counter
        };
        TypeFigures {
            submissions: submissions.collect(),
            ended: TaskStatus::ALL.iter().map(counted).collect(),
            durations: TaskStatus::ALL.iter().map(|_| OnceLock::new()).collect(),
            waits: OnceLock::new(),
            undos: self.undos.get_or_create_owned(&of_type),
            recoveries: self.recoveries.get_or_create_owned(&of_type),
            polled: self.polled.get_or_create_owned(&of_type),
            steps: HashMap::new(),
        }
    }
}

impl Metrics {
    fn rest(&self, task_type: &str, status: TaskStatus, labels: &Labels, after: Duration) {
        let Some(figures) = self.types.get(task_type) else {
            return;
        };
        if let Some(counter) = figures.ended[status as usize].get() {
            counter.inc();
        } else {
            self.ended.count(task_type, status, labels);
        }
        let durations = &self.families.durations;
        figures.durations[status as usize]
            .get_or_init(|| durations.get_or_create_owned(&series(task_type, status)))
            .observe(after);
    }

    fn claim(&self, task_type: &str, after: Duration) {
        let Some(figures) = self.types.get(task_type) else {
            return;
        };
        let of_type = || vec![("task_type".into(), task_type.to_owned())];
        figures
            .waits
            .get_or_init(|| self.families.waits.get_or_create_owned(&of_type()))
            .observe(after);
    }

    fn attempt(
        &self,
        task_type: &str,
        step: &str,
        direction: Direction,
        outcome: Outcome,
        took: Duration,
    ) {
        let figures = self.types.get(task_type);
        let Some(figures) = figures.and_then(|figures| figures.steps.get(step)) else {
            return;
        };
        let of_step = || -> Series {
            vec![
                ("task_type".into(), task_type.to_owned()),
                ("step".into(), step.to_owned()),
                ("direction".into(), direction.as_str().to_owned()),
            ]
        };
        figures.attempts[direction as usize][outcome as usize]
            .get_or_init(|| {
                let mut series = of_step();
                series.push(("outcome".into(), outcome.as_str().to_owned()));
                self.families.attempts.get_or_create_owned(&series)
            })
            .inc();
        let durations = &self.families.attempt_durations;
        figures.durations[direction as usize]
            .get_or_init(|| durations.get_or_create_owned(&of_step()))
            .observe(took);
    }
}

impl Recorder for Metrics {
    fn record(&self, observation: Observation<'_>) {
        match observation {
            Observation::Submission { task_type, outcome } => {
                if let Some(figures) = self.types.get(task_type) {
                    figures.submissions[outcome as usize].inc();
                }
            }
            Observation::Rest {
                task_type,
                status,
                labels,
                after,
            } => self.rest(task_type, status, labels, after),
            Observation::Claim { task_type, after } => self.claim(task_type, after),
            Observation::Attempt {
                task_type,
                step,
                direction,
                outcome,
                took,
            } => self.attempt(task_type, step, direction, outcome, took),
            Observation::Undo { task_type } => {
                if let Some(figures) = self.types.get(task_type) {
                    figures.undos.inc();
                }
            }
            Observation::Webhook { status } => {
                self.families.webhook(status).inc();
            }
            Observation::Spooled(outcome) => {
                self.families.spooled(outcome).inc();
            }
            Observation::LeaseLost => {
                self.counters.leases_lost.inc();
            }
            Observation::Abandoned => {
                self.counters.attempts_abandoned.inc();
            }
            Observation::Recovery { task_type } => {
                if let Some(figures) = self.types.get(task_type) {
                    figures.recoveries.inc();
                }
            }
            Observation::FoundByPolling { task_type } => {
                if let Some(figures) = self.types.get(task_type) {
                    figures.polled.inc();
                }
            }
        }
    }

    fn write(&self, page: &mut String) {
        // A text takes whatever is written to it.
        let _ = encode_registry(page, &self.registry);
    }
}

#[cfg(test)]
mod tests;

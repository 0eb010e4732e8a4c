//! Which policy, interval and grace holds for which type: what the program declares, changed as the
//! settings say. Must not let a grace fall below what the type's own attempts may take.

use counterstep_contracts::Direction;
use counterstep_contracts::overrides::{OTHERS, OrphanOverride};
use counterstep_kernel::EngineSettings;
use counterstep_steps::orphans::{OrphanPolicy, OrphanRule};
use counterstep_steps::task::{Registry, TaskType};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What the settings say of orphans.
#[derive(Debug, Clone, Default)]
pub struct OrphanSettings {
    /// By the declared name of a type, or [`OTHERS`].
    pub types: BTreeMap<String, OrphanOverride>,
    /// From which age on policies get objects of a task or an attempt that has no row; never below
    /// the type's grace. `None`: never, they are only told of. A bucket that two databases share by
    /// mistake, a new or wrong database, and one that was restored from yesterday look just like
    /// this: only a person knows whether they are needed elsewhere.
    pub without_task: Option<Duration>,
}

/// What holds for one type.
#[derive(Clone)]
pub(super) struct InForce {
    pub(super) policy: Arc<dyn OrphanPolicy>,
    pub(super) every: Duration,
    pub(super) grace: Duration,
    /// The grace was asked for, and is longer than the type needs.
    pub(super) patient: bool,
}

/// What holds for all types.
pub(super) struct Rules {
    types: BTreeMap<String, InForce>,
    others: InForce,
    without_task: Option<Duration>,
}

impl Rules {
    /// `engine`: how long its attempts may take, below which no grace falls.
    pub(super) fn of(
        registry: &Registry,
        settings: &OrphanSettings,
        engine: &EngineSettings,
    ) -> Self {
        let mut needed: BTreeMap<&str, Duration> = BTreeMap::new();
        for task_type in registry.iter() {
            let longest = needed.entry(task_type.decl.name).or_default();
            *longest = needs(engine, task_type).max(*longest);
        }
        // A type that this program does not know may be any of those that it does, or have the
        // defaults.
        let engines = engine.step_timeout + engine.cancel_grace + engine.lease;
        let largest = needed
            .values()
            .copied()
            .fold(engines.max(engine.upload_timeout * 2), Duration::max);
        let in_force = |rule: Option<&OrphanRule>, name: &str, needed: Duration| {
            let rule = rule
                .or(registry.other_orphan_rule())
                .cloned()
                .unwrap_or_default();
            let set = settings
                .types
                .get(name)
                .or_else(|| settings.types.get(OTHERS));
            let (every, grace) = set.map_or((None, None), |set| (set.every, set.grace));
            let grace = grace.unwrap_or(rule.grace);
            InForce {
                policy: rule.policy,
                every: every.unwrap_or(rule.every),
                grace: grace.max(needed),
                patient: grace > needed,
            }
        };
        Self {
            types: needed
                .into_iter()
                .map(|(name, needed)| {
                    (
                        name.to_owned(),
                        in_force(registry.orphan_rule_of(name), name, needed),
                    )
                })
                .collect(),
            others: in_force(None, OTHERS, largest),
            without_task: settings.without_task,
        }
    }

    /// What holds for a type; `None`: the object's task has no row.
    pub(super) fn for_type(&self, task_type: Option<&str>) -> &InForce {
        task_type
            .and_then(|name| self.types.get(name))
            .unwrap_or(&self.others)
    }

    /// For how long an object of a task or an attempt without a row is left alone; `None`: without
    /// limit.
    pub(super) const fn without_task(&self) -> Option<Duration> {
        self.without_task
    }

    /// The intervals at which listings begin.
    pub(super) fn intervals(&self) -> BTreeSet<Duration> {
        self.types
            .values()
            .map(|rule| rule.every)
            .chain([self.others.every])
            .collect()
    }

    /// Whether whatever an intent's sweep finds is deleted: then nothing need be listed.
    pub(super) fn always_deletes(&self, registry: &Registry, task_type: Option<&str>) -> bool {
        let declared = task_type
            .and_then(|name| registry.orphan_rule_of(name))
            .or(registry.other_orphan_rule());
        declared.is_none() && !self.for_type(task_type).patient
    }
}

/// How long an attempt of this type may take until no process can be writing for it any more: the
/// longest step, the grace of its cancellation, and the lease.
fn needs(engine: &EngineSettings, task_type: &TaskType) -> Duration {
    let steps = (0..task_type.decl.steps.len()).flat_map(|at| {
        [Direction::Forward, Direction::Undo].map(|way| engine.attempt_limits(task_type, at, way).1)
    });
    let uploads = if task_type.begins_with_uploads() {
        engine.upload_timeout * 2
    } else {
        Duration::ZERO
    };
    steps.fold(uploads, Duration::max)
}

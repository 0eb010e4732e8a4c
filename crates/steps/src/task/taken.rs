//! Of which task types a process takes tasks: of all that it knows, or of some. Others it knows all the same, since its
//! steps may submit tasks of them.

use super::registry::{KnownType, Registry};
use super::types::TaskType;
use counterstep_contracts::{Host, QueueName};
use std::collections::BTreeSet;

impl Registry {
    /// For a process that leaves the tasks of the other types and versions to others.
    #[must_use]
    pub fn only(mut self, is_taken: impl Fn(&str, u32) -> bool) -> Self {
        for (&(name, version), registered) in &mut self.types {
            registered.left = !is_taken(name, version);
        }
        self
    }

    /// Whether this process takes tasks of the type.
    #[must_use]
    pub fn takes(&self, task_type: &TaskType) -> bool {
        let decl = task_type.decl;
        self.registered(decl.name, decl.version)
            .is_none_or(|it| !it.left)
    }

    /// The types of which it takes tasks.
    pub fn taken(&self) -> impl Iterator<Item = &TaskType> {
        self.iter().filter(|task_type| self.takes(task_type))
    }

    /// Whether a type of this queue has a high priority.
    #[must_use]
    pub fn has_urgent(&self, queue: &QueueName) -> bool {
        self.taken()
            .any(|task_type| task_type.decl.queue_of(Host::Worker) == queue.urgent())
    }

    /// Whether a broker may have messages on this lane: that of a high priority, where a type has one.
    #[must_use]
    pub fn uses_lane(&self, lane: &QueueName) -> bool {
        lane.rank() != 0 || self.has_urgent(&lane.base())
    }

    /// The queues on which steps of `host` are dispatched, each followed by its other lanes.
    #[must_use]
    pub fn lanes(&self, host: Host) -> Vec<QueueName> {
        let of_queue = |queue: QueueName| {
            let mut lanes = queue.lanes();
            lanes.retain(|lane| self.uses_lane(lane));
            lanes.sort_by_key(|lane| *lane != queue);
            lanes
        };
        self.queues(host).into_iter().flat_map(of_queue).collect()
    }

    /// The queues on which steps of `host` are dispatched, of all types, without their lanes.
    #[must_use]
    pub fn queues(&self, host: Host) -> Vec<QueueName> {
        self.taken()
            .map(|task_type| task_type.decl.queue_of(host).base())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// What a host of this program can run.
    #[must_use]
    pub fn known(&self) -> Vec<KnownType> {
        self.taken().map(|it| self.as_known(it)).collect()
    }

    /// The type as stores are asked for its tasks.
    #[must_use]
    pub fn as_known(&self, task_type: &TaskType) -> KnownType {
        let decl = task_type.decl;
        let registered = self.registered(decl.name, decl.version);
        KnownType {
            name: decl.name.to_owned(),
            version: decl.version,
            definition: registered.map_or_else(String::new, |it| it.definition.clone()),
        }
    }
}

//! Whether a program could continue the tasks in flight: compared by what they were submitted under.

use crate::ports::{InFlight, Store, StoreError};
use crate::task::Registry;
use counterstep_contracts::operator::{DeployCheck, OlderVersion, Stranded};
use counterstep_contracts::{Host, QueueName};
use counterstep_steps::task::KnownType;
use std::collections::BTreeSet;

/// Compares the registered types with the tasks that have not ended, or that may yet be undone.
///
/// # Errors
/// When the store does not answer.
pub async fn check_deploy(registry: &Registry, store: &Store) -> Result<DeployCheck, StoreError> {
    Ok(compare(registry, store.in_flight().await?))
}

fn compare(registry: &Registry, groups: Vec<InFlight>) -> DeployCheck {
    let in_flight = groups.iter().map(|group| group.count).sum();
    let older_versions = older_versions(registry, &groups);
    let build = Build::of(registry);
    let mut stranded: Vec<Stranded> = Vec::new();
    for group in groups {
        let Some(why) = build.why_stranded(&group) else {
            continue;
        };
        let InFlight {
            of, count, example, ..
        } = group;
        let is_same = |it: &&mut Stranded| {
            (&it.task_type, it.version, &it.definition, &it.why)
                == (&of.name, of.version, &of.definition, &why)
        };
        // Tasks of one type on several queues, or lanes of a queue, are one entry.
        if let Some(same) = stranded.iter_mut().find(is_same) {
            same.count += count;
            same.example = same.example.min(example);
            continue;
        }
        stranded.push(Stranded {
            task_type: of.name,
            version: of.version,
            definition: of.definition,
            count,
            example,
            why,
        });
    }
    DeployCheck {
        in_flight,
        stranded,
        older_versions,
    }
}

/// What stands beside a newer version, and how many tasks still need it.
fn older_versions(registry: &Registry, groups: &[InFlight]) -> Vec<OlderVersion> {
    let is_older = |known: &KnownType| {
        let newest = registry.newest(&known.name);
        newest.is_some_and(|newest| newest.decl.version > known.version)
    };
    let older = registry.known().into_iter().filter(is_older);
    let count = |known: KnownType| OlderVersion {
        count: groups
            .iter()
            .filter(|group| group.of == known)
            .map(|group| group.count)
            .sum(),
        task_type: known.name,
        version: known.version,
    };
    older.map(count).collect()
}

/// What a build can continue.
struct Build {
    known: Vec<KnownType>,
    /// Without their lanes.
    queues: BTreeSet<QueueName>,
}

impl Build {
    fn of(registry: &Registry) -> Self {
        let hosts = [Host::Worker, Host::Api];
        Self {
            known: registry.known(),
            queues: hosts
                .into_iter()
                .flat_map(|host| registry.queues(host))
                .collect(),
        }
    }

    /// Why it cannot continue these tasks, and what to do; `None`: it can.
    fn why_stranded(&self, InFlight { of, queue, .. }: &InFlight) -> Option<String> {
        let same_name = || self.known.iter().filter(|known| known.name == of.name);
        let Some(newest) = same_name().map(|known| known.version).max() else {
            return Some(
                "this build has no task type of this name: keep it registered until its tasks have ended"
                    .to_owned(),
            );
        };
        if self.known.contains(of) {
            let queue = queue.as_ref()?.base();
            return (!self.queues.contains(&queue)).then(|| {
                format!(
                    "they wait on queue `{queue}`, which no task type of this build has: give the declaration with the \
                     other queue version {} and register the old one beside it",
                    newest + 1
                )
            });
        }
        if let Some(same) = same_name().find(|known| known.version == of.version) {
            return Some(format!(
                "this build declares version {} otherwise ({}): give the changed declaration version {} and register the \
                 old one beside it",
                of.version,
                same.definition,
                newest + 1
            ));
        }
        let versions: Vec<_> = same_name().map(|known| known.version.to_string()).collect();
        Some(format!(
            "this build has version {} only: keep version {} registered beside it until its tasks have ended",
            versions.join(", "),
            of.version
        ))
    }
}

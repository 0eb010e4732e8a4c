//! Whether a program could go on with the tasks in flight: compared by what they were submitted
//! under.

use crate::ports::{InFlight, Store, StoreError};
use crate::task::Registry;
use counterstep_contracts::operator::{DeployCheck, OlderVersion, Stranded};
use counterstep_steps::task::KnownType;

/// Compares the registered types with the tasks that have not ended.
///
/// # Errors
/// When the store does not answer.
pub async fn check_deploy(
    registry: &Registry,
    store: &dyn Store,
) -> Result<DeployCheck, StoreError> {
    Ok(compare(registry, store.in_flight().await?))
}

fn compare(registry: &Registry, groups: Vec<InFlight>) -> DeployCheck {
    let in_flight = groups.iter().map(|group| group.count).sum();
    let known = registry.known();
    let older_versions = older_versions(registry, &groups);
    let stranded = groups
        .into_iter()
        .filter(|group| !known.contains(&group.of))
        .map(|group| stranded(registry, group));
    DeployCheck {
        in_flight,
        stranded: stranded.collect(),
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

fn stranded(registry: &Registry, group: InFlight) -> Stranded {
    let InFlight { of, count, example } = group;
    let same_name: Vec<_> = registry
        .known()
        .into_iter()
        .filter(|known| known.name == of.name)
        .collect();
    let why = if let Some(same) = same_name.iter().find(|known| known.version == of.version) {
        format!(
            "this build declares version {} otherwise ({}): give the changed declaration version {} and register the \
             old one beside it",
            of.version,
            same.definition,
            same_name
                .iter()
                .map(|known| known.version)
                .max()
                .unwrap_or(of.version)
                + 1
        )
    } else if same_name.is_empty() {
        "this build has no task type of this name: keep it registered until its tasks have ended"
            .to_owned()
    } else {
        let versions: Vec<_> = same_name
            .iter()
            .map(|known| known.version.to_string())
            .collect();
        format!(
            "this build has version {} only: keep version {} registered beside it until its tasks have ended",
            versions.join(", "),
            of.version
        )
    };
    Stranded {
        task_type: of.name,
        version: of.version,
        definition: of.definition,
        count,
        example,
        why,
    }
}

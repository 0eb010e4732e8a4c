//! What the file says of orphans and retention. The reconciler acts on it; every service refuses
//! what it could not act on. Must not know what becomes of an object or a task.

use crate::exit::Exit;
use counterstep_contracts::Retention;
use counterstep_contracts::overrides::OrphanOverride;
use counterstep_steps::Registry;
use std::collections::BTreeMap;
use std::time::Duration;

/// From the file: orphans and retention.
#[derive(Debug, Clone, Default)]
pub struct Upkeep {
    /// By the declared name of a type, or `*`.
    pub orphans: BTreeMap<String, OrphanOverride>,
    /// From which age on objects of unknown tasks and attempts are orphans; `None`: never.
    pub orphans_without_task: Option<Duration>,
    /// By the declared name of a type, or `*`.
    pub retention: BTreeMap<String, Retention>,
}

impl Upkeep {
    /// Whether every entry names a type of the registry.
    pub(crate) fn check(&self, registry: &Registry) -> Result<(), Exit> {
        registry
            .check_upkeep(&self.orphans, &self.retention)
            .map_err(Exit::config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_contracts::overrides::OTHERS;
    use counterstep_tasks::CreateZipFromFiles;

    #[test]
    fn an_entry_of_no_task_type_is_refused_with_the_types_that_there_are() {
        let registry = Registry::new().with::<CreateZipFromFiles>();
        let mut upkeep = Upkeep::default();
        for name in [OTHERS, "CreateZipFromFiles"] {
            upkeep
                .orphans
                .insert(name.to_owned(), OrphanOverride::default());
            upkeep
                .retention
                .insert(name.to_owned(), Retention::default());
        }
        upkeep.check(&registry).expect("they are there");
        let (mut orphans, mut retention) = (upkeep.clone(), upkeep);
        orphans
            .orphans
            .insert("Nothing".to_owned(), OrphanOverride::default());
        retention
            .retention
            .insert("Nothing".to_owned(), Retention::default());
        for (wrong, what) in [
            (orphans, "orphans.Nothing"),
            (retention, "retention.Nothing"),
        ] {
            let refused = wrong.check(&registry).expect_err(what).message;
            assert!(
                refused.contains(what) && refused.contains("CreateZipFromFiles"),
                "{refused}"
            );
        }
    }
}

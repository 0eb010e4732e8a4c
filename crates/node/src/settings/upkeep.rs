//! What the file says of orphans and retention. The reconciler acts on it; every service refuses
//! what it could not act on. Must not know what becomes of an object or a task.

use crate::exit::Exit;
use counterstep_contracts::Retention;
use counterstep_contracts::overrides::OrphanOverride;
use counterstep_steps::Registry;
use std::collections::BTreeMap;
use std::time::Duration;

/// The declared bucket of the archive, where the file names none.
pub(super) const ARCHIVE_BUCKET: &str = "archive";

/// From the file: orphans and retention.
#[derive(Debug, Clone)]
pub struct Upkeep {
    /// By the declared name of a type, or `*`.
    pub orphans: BTreeMap<String, OrphanOverride>,
    /// From which age on objects of unknown tasks and attempts are orphans; `None`: never.
    pub orphans_without_task: Option<Duration>,
    /// By the declared name of a type, or `*`.
    pub retention: BTreeMap<String, Retention>,
    /// The declared bucket of the archive.
    pub archive_bucket: String,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            orphans: BTreeMap::new(),
            orphans_without_task: None,
            retention: BTreeMap::new(),
            archive_bucket: ARCHIVE_BUCKET.to_owned(),
        }
    }
}

impl Upkeep {
    /// Whether every entry names a type of the registry, and the archive a bucket.
    pub(crate) fn check(&self, registry: &Registry) -> Result<(), Exit> {
        registry
            .check_upkeep(&self.orphans, &self.retention, &self.archive_bucket)
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
        let (mut orphans, mut retention, mut bucket) = (upkeep.clone(), upkeep.clone(), upkeep);
        orphans
            .orphans
            .insert("Nothing".to_owned(), OrphanOverride::default());
        retention
            .retention
            .insert("Nothing".to_owned(), Retention::default());
        bucket.archive_bucket = "No Bucket".to_owned();
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
        let refused = bucket.check(&registry).expect_err("no name").message;
        assert!(
            refused.contains("`archive_bucket`: `No Bucket`"),
            "{refused}"
        );
    }
}

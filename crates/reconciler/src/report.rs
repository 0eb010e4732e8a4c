//! What a pass did, as text and in numbers.

use std::collections::BTreeMap;
use std::fmt;

/// What a pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Tasks taken back from lost hosts.
    pub taken_back: usize,
    /// Lost tasks of types that this process does not know.
    pub unknown: usize,
    /// Lost tasks that cannot be read: parked for a person.
    pub quarantined: usize,
    /// Tasks that slept although one that they have submitted had ended, woken.
    pub woken: usize,
    /// Changes whose events were relayed.
    pub relayed: u64,
    /// Tasks that no host has claimed, offered again.
    pub offered: usize,
    /// What the queue's server had lost and has again, as text.
    pub mended: Vec<String>,
    /// Processes that were forgotten.
    pub forgotten: u64,
    /// Prefixes of attempts that were swept.
    pub prefixes: u64,
    /// Orphaned objects that were deleted, half-done uploads among them.
    pub objects: u64,
    /// Orphaned objects that were moved to the archive.
    pub archived: u64,
    /// Orphaned objects that stay because their policy says so.
    pub reported: u64,
    /// Objects of tasks or attempts that this database does not know: seen by a listing, whatever
    /// became of them.
    pub unknown_objects: u64,
    /// Objects that are not named like ours: seen by a listing and left alone.
    pub unmanaged: u64,
    /// Tasks that were written to the archive because their time was over.
    pub tasks_archived: u64,
    /// Tasks that were deleted because their time was over.
    pub tasks_deleted: u64,
    /// Objects that went with them.
    pub objects_deleted: u64,
    /// Tasks whose scratch on this machine was removed.
    pub scratch: u64,
    /// Due times of schedules that fired: a task each.
    pub fired: usize,
    /// Times that a schedule skipped what was due.
    pub skipped: usize,
    /// Schedules that were taken over as the program declares them.
    pub declared: usize,
    /// Task types that were disabled.
    pub disabled: usize,
    /// Task types that were enabled by their probe.
    pub enabled: usize,
    /// What did not work; the next pass tries again.
    pub failed: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} tasks taken back, events of {} changes relayed, {} orphans deleted under {} prefixes, {} failures",
            self.taken_back,
            self.relayed,
            self.objects,
            self.prefixes,
            self.failed.len()
        )?;
        if self.fired + self.skipped + self.declared > 0 {
            write!(
                f,
                ", schedules: {} fired, {} skipped, {} taken over",
                self.fired, self.skipped, self.declared
            )?;
        }
        if self.archived + self.reported > 0 {
            write!(
                f,
                ", {} orphans archived, {} reported",
                self.archived, self.reported
            )?;
        }
        if self.tasks_archived + self.tasks_deleted > 0 {
            write!(
                f,
                ", {} old tasks archived, {} deleted",
                self.tasks_archived, self.tasks_deleted
            )?;
        }
        if self.unknown_objects > 0 {
            write!(
                f,
                ", {} objects of unknown tasks or attempts",
                self.unknown_objects
            )?;
        }
        if self.unmanaged > 0 {
            write!(f, ", {} objects of others left alone", self.unmanaged)?;
        }
        if self.disabled + self.enabled > 0 {
            write!(
                f,
                ", task types: {} disabled, {} enabled",
                self.disabled, self.enabled
            )?;
        }
        if self.woken > 0 {
            write!(f, ", {} tasks woken", self.woken)?;
        }
        if self.offered > 0 {
            write!(f, ", {} tasks offered again", self.offered)?;
        }
        if !self.mended.is_empty() {
            write!(f, ", made again: {}", self.mended.join(", "))?;
        }
        if self.quarantined > 0 {
            write!(f, ", {} unreadable tasks parked", self.quarantined)?;
        }
        Ok(())
    }
}

impl Report {
    /// Adds what another part of a pass did.
    pub(crate) fn add(&mut self, other: Self) {
        self.taken_back += other.taken_back;
        self.unknown += other.unknown;
        self.quarantined += other.quarantined;
        self.woken += other.woken;
        self.relayed += other.relayed;
        self.offered += other.offered;
        self.mended.extend(other.mended);
        self.forgotten += other.forgotten;
        self.prefixes += other.prefixes;
        self.objects += other.objects;
        self.archived += other.archived;
        self.reported += other.reported;
        self.unknown_objects += other.unknown_objects;
        self.unmanaged += other.unmanaged;
        self.tasks_archived += other.tasks_archived;
        self.tasks_deleted += other.tasks_deleted;
        self.objects_deleted += other.objects_deleted;
        self.scratch += other.scratch;
        self.fired += other.fired;
        self.skipped += other.skipped;
        self.declared += other.declared;
        self.disabled += other.disabled;
        self.enabled += other.enabled;
        self.failed.extend(other.failed);
    }

    /// The numbers by name, as the metrics show them.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let of = |number: usize| number as u64;
        let counts = [
            ("taken_back", of(self.taken_back)),
            ("unknown", of(self.unknown)),
            ("quarantined", of(self.quarantined)),
            ("woken", of(self.woken)),
            ("relayed", self.relayed),
            ("offered_again", of(self.offered)),
            ("mended", of(self.mended.len())),
            ("forgotten", self.forgotten),
            ("swept_prefixes", self.prefixes),
            ("deleted_objects", self.objects),
            ("archived_objects", self.archived),
            ("reported_objects", self.reported),
            ("unknown_objects", self.unknown_objects),
            ("unmanaged_objects", self.unmanaged),
            ("archived_tasks", self.tasks_archived),
            ("deleted_tasks", self.tasks_deleted),
            ("deleted_objects_of_tasks", self.objects_deleted),
            ("removed_scratch", self.scratch),
            ("fired", of(self.fired)),
            ("skipped", of(self.skipped)),
            ("disabled", of(self.disabled)),
            ("enabled", of(self.enabled)),
            ("failed", of(self.failed.len())),
        ];
        counts
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .collect()
    }
}

//! What is to become of orphans: the user's decision, as data. Must not touch a store.

use counterstep_contracts::retry::parse_duration;
use counterstep_contracts::{Attempt, TaskId, Tenant};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Default time between the starts of two listings.
pub const EVERY: Duration = Duration::from_secs(6 * 3600);

/// An object, or half of one, that no committed output refers to and that no process can be writing
/// any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Declared name of its task's type; `None`: there is no row of the task.
    pub task_type: Option<String>,
    /// Tenant that owns it.
    pub tenant: Tenant,
    /// Its task.
    pub task: TaskId,
    /// Its step; with `.undo` at the end where the step's undo stored it.
    pub step: String,
    /// The attempt that stored it.
    pub attempt: Attempt,
    /// Declared bucket.
    pub bucket: String,
    /// Key.
    pub key: String,
    /// Bytes; 0 for a half-done upload.
    pub size_bytes: u64,
    /// How long ago it was stored, by the clocks of the object store and of the database: the
    /// shorter of both.
    pub age: Duration,
    /// It is a half-done upload.
    pub half: bool,
    /// Why it is one.
    pub why: Why,
}

/// Why an object is an orphan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Its attempt never succeeded, or its step was undone, resolved or run again.
    Unkept,
    /// Its attempt has been swept; it was stored later, or was left then because its grace was not
    /// over.
    Late,
    /// Its task has no such attempt. No policy is asked unless the setting `orphans_without_task`
    /// allows it: it may be one of another database, or of this one before it was restored.
    NoAttempt,
    /// There is neither a task nor an attempt. As above.
    NoTask,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unkept => "no output refers to it",
            Self::Late => "its attempt was swept before",
            Self::NoAttempt => "its task has no such attempt",
            Self::NoTask => "this database has no such task",
        })
    }
}

/// What becomes of an orphan.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum OrphanAction {
    /// It is deleted.
    #[default]
    Delete,
    /// It is moved to `archive/{prefix}/{key}` of its bucket. A half-done upload is deleted: it
    /// cannot be moved.
    Archive {
        /// See [`is_archive_prefix`](crate::keys::is_archive_prefix); with another one it is only
        /// reported.
        prefix: String,
    },
    /// It stays, and each listing reports it again.
    Report,
}

/// Decides on orphans. A function `Fn(&Orphan) -> OrphanAction` is one, and an [`OrphanAction`] is
/// one that always says the same. It only decides: the engine acts.
pub trait OrphanPolicy: Send + Sync {
    /// What becomes of this one.
    fn decide(&self, orphan: &Orphan) -> OrphanAction;
}

impl OrphanPolicy for OrphanAction {
    fn decide(&self, _: &Orphan) -> OrphanAction {
        self.clone()
    }
}

impl<F: Fn(&Orphan) -> OrphanAction + Send + Sync> OrphanPolicy for F {
    fn decide(&self, orphan: &Orphan) -> OrphanAction {
        self(orphan)
    }
}

/// The policy of a type, and how often its objects are listed.
#[derive(Clone)]
pub struct OrphanRule {
    /// Decides on each of them.
    pub policy: Arc<dyn OrphanPolicy>,
    /// Between the starts of two listings.
    pub every: Duration,
    /// Younger objects are left alone.
    pub grace: Duration,
}

impl OrphanRule {
    /// With this policy, each six hours, and after no longer a grace than is needed.
    #[must_use]
    pub fn new(policy: impl OrphanPolicy + 'static) -> Self {
        Self {
            policy: Arc::new(policy),
            every: EVERY,
            grace: Duration::ZERO,
        }
    }

    /// How often all objects are listed for this type, as `1h`. Types with the same interval share
    /// a listing.
    ///
    /// # Panics
    /// When it is no duration above 0.
    #[must_use]
    pub fn every(mut self, every: &str) -> Self {
        self.every = duration(every);
        self
    }

    /// Objects that are younger are left alone, as `1d`. A grace below the one that the type needs
    /// has no effect.
    ///
    /// # Panics
    /// When it is no duration above 0.
    #[must_use]
    pub fn grace(mut self, grace: &str) -> Self {
        self.grace = duration(grace);
        self
    }
}

fn duration(text: &str) -> Duration {
    match parse_duration(text).filter(|duration| !duration.is_zero()) {
        Some(duration) => duration,
        None => panic!(
            "`{text}` is no duration above 0: write a whole number and a unit, as 30m, 6h, 1d"
        ),
    }
}

impl Default for OrphanRule {
    fn default() -> Self {
        Self::new(OrphanAction::Delete)
    }
}

impl fmt::Debug for OrphanRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrphanRule")
            .field("every", &self.every)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

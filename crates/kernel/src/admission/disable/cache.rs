//! Which types are disabled, remembered for a moment: so a submission of a type that is not costs no
//! question of its own.

use crate::ports::TypeRow;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long what was read is used before it is read again. A type that another process has disabled takes
/// submissions here until then.
const BELIEVED: Duration = Duration::from_secs(1);

/// Which types were disabled when they were last read.
#[derive(Debug, Default)]
pub(crate) struct DisabledTypes(Mutex<TypeCache>);

#[derive(Debug, Default)]
struct TypeCache {
    /// By the monotonic clock.
    at: Option<Duration>,
    disabled: BTreeSet<String>,
}

impl DisabledTypes {
    fn seen(&self) -> parking_lot::MutexGuard<'_, TypeCache> {
        // Nothing is left half-done under this lock: a set is replaced whole.
        self.0.lock()
    }

    /// Whether it is disabled, as far as is known; `None`: the caller has to read the types.
    pub(super) fn remembers(&self, name: &str, now: Duration) -> Option<bool> {
        let mut seen = self.seen();
        let known = seen.at.is_some_and(|at| now.saturating_sub(at) < BELIEVED);
        if known {
            return Some(seen.disabled.contains(name));
        }
        // The others go by what was known before, and do not all ask the same; at the start nothing
        // is.
        if seen.at.is_some() {
            seen.at = Some(now);
        }
        None
    }

    pub(super) fn learn(&self, rows: &[TypeRow], now: Duration) {
        let disabled = rows
            .iter()
            .filter(|row| row.disabled.is_some())
            .map(|row| row.name.clone())
            .collect();
        *self.seen() = TypeCache {
            at: Some(now),
            disabled,
        };
    }

    /// The types have to be read again.
    pub(super) fn forget(&self) {
        self.seen().at = None;
    }
}

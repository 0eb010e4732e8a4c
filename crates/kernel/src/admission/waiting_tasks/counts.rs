//! The counts of waiting tasks that a process remembers for a moment.

use counterstep_contracts::Tenant;
use parking_lot::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::time::Duration;

/// Maximum age of a count that is used.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// Counts that are kept; beyond, all are forgotten.
const MOST: usize = 10_000;

/// The counts of a process.
#[derive(Debug, Default)]
pub(crate) struct WaitingTasks(Mutex<HashMap<Of, Counted>>);

/// A tenant's tasks of a type; `None`: of all types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Of {
    pub(super) tenant: Tenant,
    pub(super) task_type: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    /// By the timer of the process.
    pub(super) at: Duration,
    pub(super) tasks: u32,
}

impl WaitingTasks {
    fn counts(&self) -> MutexGuard<'_, HashMap<Of, Counted>> {
        self.0.lock()
    }

    /// Adds one to what is known, where that is fresh. Otherwise the caller counts, and others go by
    /// the old number until it has.
    pub(super) fn add(&self, of: &Of, now: Duration) -> Option<u32> {
        let mut counts = self.counts();
        if counts.len() >= MOST && !counts.contains_key(of) {
            counts.clear();
        }
        let known = counts.get_mut(of);
        let is_fresh = known
            .as_ref()
            .is_some_and(|known| now.saturating_sub(known.at) < COUNTED_FOR);
        match known {
            Some(known) => {
                known.tasks = known.tasks.saturating_add(1);
                known.at = if is_fresh { known.at } else { now };
                is_fresh.then_some(known.tasks)
            }
            None => {
                counts.insert(of.clone(), Counted { at: now, tasks: 1 });
                None
            }
        }
    }

    pub(super) fn put(&self, of: Of, counted: Counted) {
        self.counts().insert(of, counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_good_for_a_second_and_grows_with_what_is_added() {
        let waiting = WaitingTasks::default();
        let of = Of {
            tenant: Tenant::default(),
            task_type: None,
        };
        let at = Duration::from_millis;
        assert_eq!(waiting.add(&of, at(0)), None, "unknown");
        waiting.put(
            of.clone(),
            Counted {
                at: at(0),
                tasks: 7,
            },
        );
        assert_eq!(waiting.add(&of, at(999)), Some(8));
        assert_eq!(waiting.add(&of, at(1_000)), None, "too old");
        assert_eq!(waiting.add(&of, at(1_001)), Some(10), "another one counts");
    }

    #[test]
    fn few_counts_are_kept() {
        let waiting = WaitingTasks::default();
        for tenant in 0..=MOST {
            let of = Of {
                tenant: Tenant(tenant.to_string()),
                task_type: None,
            };
            waiting.add(&of, Duration::ZERO);
        }
        assert!(waiting.counts().len() <= MOST);
    }
}

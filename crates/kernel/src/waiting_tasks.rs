//! How many tasks of a tenant wait to be claimed, as a process knows it: counted in the database once a
//! second at most, and what the process itself has added since. About right: it orders tasks and
//! pushes back on clients, and decides nothing about a task.

use crate::engine::Engine;
use crate::ports::WaitingQuery;
use crate::time_limits::best_effort;
use counterstep_contracts::{QueueName, Tenant};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A tenant with more waiting tasks has the further ones in the backlog of their queue.
pub(crate) const SHARE: u32 = 100;

/// So long a count is good for.
const COUNTED_FOR: Duration = Duration::from_secs(1);

/// Counts that are kept; beyond, all are forgotten.
const MOST: usize = 10_000;

/// The counts of a process.
#[derive(Debug, Default)]
pub(crate) struct WaitingTasks(Mutex<HashMap<Of, Counted>>);

/// A tenant's tasks of a type; `None`: of all types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Of {
    tenant: Tenant,
    task_type: Option<String>,
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    /// By the timer of the process.
    at: Duration,
    tasks: u32,
}

impl WaitingTasks {
    fn counts(&self) -> MutexGuard<'_, HashMap<Of, Counted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one to what is known, where that is fresh. Otherwise the caller counts, and others go by
    /// the old number until it has.
    fn add(&self, of: &Of, now: Duration) -> Option<u32> {
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

    fn put(&self, of: Of, counted: Counted) {
        self.counts().insert(of, counted);
    }
}

impl Engine {
    /// How many tasks of a tenant wait, about, with one that comes to wait now. More than `at_most` is
    /// not counted.
    pub(crate) async fn waiting_with_one_more(
        &self,
        (tenant, task_type): (&Tenant, Option<&str>),
        at_most: u32,
    ) -> u32 {
        let now = self.ports.clock.monotonic();
        let of = Of {
            tenant: tenant.clone(),
            task_type: task_type.map(str::to_owned),
        };
        if let Some(known) = self.waiting.add(&of, now) {
            return known;
        }
        let query = WaitingQuery {
            tenant: of.tenant.clone(),
            task_type: of.task_type.clone(),
            at_most: at_most.saturating_add(1),
        };
        let counting = self.ports.store.waiting(&query);
        match best_effort(self.ports.clock.as_ref(), counting).await {
            Some(Ok(tasks)) => {
                let tasks = tasks.saturating_add(1);
                self.waiting.put(of, Counted { at: now, tasks });
                tasks
            }
            // A tenant is not held back for a database that does not answer.
            Some(Err(_)) | None => 0,
        }
    }

    /// The queue that takes a message: the backlog, where the tenant has many waiting tasks.
    pub(crate) async fn lane_of(&self, queue: &QueueName, tenant: Option<&Tenant>) -> QueueName {
        // Tasks of API processes are few steps of a moment each.
        let Some(tenant) = tenant.filter(|_| queue.is_of_workers()) else {
            return queue.clone();
        };
        match self.waiting_with_one_more((tenant, None), SHARE).await > SHARE {
            true => queue.backlog(),
            false => queue.clone(),
        }
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

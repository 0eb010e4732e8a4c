//! How many tasks of a tenant wait to be claimed, as a process knows it: counted in the database once a
//! second at most, and what the process itself has added since. About right: it orders tasks and
//! pushes back on clients, and decides nothing about a task.

mod counts;

pub(crate) use counts::WaitingTasks;

use crate::engine::Engine;
use crate::engine::time_limits::best_effort;
use crate::ports::WaitingQuery;
use counterstep_contracts::{QueueName, Tenant};
use counts::{Counted, Of};

/// A tenant with more waiting tasks has the further ones in the backlog of their queue: a few, since those of other
/// tenants stand behind them.
pub(crate) const SHARE: u32 = 40;

impl Engine {
    /// How many tasks of a tenant wait, about, with one that comes to wait now. More than `at_most` is
    /// not counted.
    pub(crate) async fn waiting_with_one_more(
        &self,
        tenant: &Tenant,
        task_type: Option<&str>,
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
        // Tasks of API processes are few steps of a moment each; those with a priority have their lane.
        let has_lanes = queue.is_of_workers() && *queue == queue.base();
        let Some(tenant) = tenant.filter(|_| has_lanes) else {
            return queue.clone();
        };
        match self.waiting_with_one_more(tenant, None, SHARE).await > SHARE {
            true => queue.backlog(),
            false => queue.clone(),
        }
    }
}

//! Objects that no committed row references, as a plan and its execution: the intent rows say where to look, so an
//! orphan is a query first. An intent is condemned in a transaction before anything is deleted: no success can then
//! claim what is about to go.

use crate::engine::Engine;
use crate::ports::{Intent, IntentOp, StoreError};
use futures::future::BoxFuture;

/// What a sweep is going to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepPlan {
    /// Attempts whose prefixes are to be emptied, the longest overdue first.
    pub condemn: Vec<Intent>,
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Prefixes that are empty now.
    pub prefixes: u64,
    /// Objects that were deleted under them.
    pub objects: u64,
    /// Prefixes that could not be emptied, with the reason; the next sweep tries again.
    pub failed: Vec<(String, String)>,
}

impl Engine {
    /// Plans the sweep of at most `limit` overdue intents. Changes nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn plan_sweep(&self, limit: u32) -> BoxFuture<'_, Result<SweepPlan, StoreError>> {
        Box::pin(async move { Ok(SweepPlan { condemn: self.ports.store.intents(IntentOp::Overdue { limit }).await? }) })
    }

    /// Executes a plan.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn sweep(&self, plan: SweepPlan) -> BoxFuture<'_, Result<Swept, StoreError>> {
        Box::pin(async move {
            let mut swept = Swept::default();
            if plan.condemn.is_empty() {
                return Ok(swept);
            }
            // Only what this returns is ours to delete: an attempt may have succeeded since the plan was made.
            let condemned = self.ports.store.intents(IntentOp::Condemn(plan.condemn)).await?;
            let mut empty = Vec::with_capacity(condemned.len());
            for intent in condemned {
                match self.ports.objects.delete_prefix(&intent.prefix).await {
                    Ok(objects) => {
                        swept.objects += objects;
                        swept.prefixes += 1;
                        if objects > 0 {
                            tracing::info!(task = %intent.task, prefix = intent.prefix, objects, "deleted orphans");
                        }
                        empty.push(intent);
                    }
                    Err(error) => {
                        tracing::warn!(task = %intent.task, prefix = intent.prefix, %error, "a prefix could not be emptied");
                        swept.failed.push((intent.prefix, error.to_string()));
                    }
                }
            }
            self.ports.store.intents(IntentOp::Swept(empty)).await?;
            Ok(swept)
        })
    }

    /// Removes the scratch of tasks that are at rest, or were never there. Returns how many there were.
    pub fn sweep_scratch(&self) -> BoxFuture<'_, u64> {
        Box::pin(async move {
            let mut removed = 0;
            let tasks = self.ports.scratch.tasks().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the scratch folder could not be listed");
                Vec::new()
            });
            for task in tasks {
                let over = match self.ports.store.load(task).await {
                    Ok(Some(record)) => record.task.status.is_at_rest(),
                    Ok(None) => true,
                    Err(_) => false,
                };
                if over && self.ports.scratch.remove(task).await.is_ok() {
                    removed += 1;
                }
            }
            removed
        })
    }
}

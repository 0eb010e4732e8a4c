//! Objects that no committed row references, as a plan and its execution: the intent rows say where to look, so an
//! orphan is a query first. An intent is condemned in a transaction before anything is deleted: no success can then
//! claim what is about to go. What no row names any more is found by listing, in `listing`; what becomes of an orphan
//! is the user's decision, in `policy`.

mod listing;
mod policy;
mod rules;

pub use listing::{Found, ListingPlan, Listings, PagePlan, Strange};
pub use policy::{EVERY, Orphan, OrphanAction, OrphanPolicy, OrphanRule, Why};
pub use rules::{OTHERS, OrphanSettings};

use crate::engine::Engine;
use crate::keys::ObjectKey;
use crate::ports::{AttemptRef, Intent, IntentOp, ObjectError, StoreError};
use futures::future::BoxFuture;
use policy::decided;
use rules::Rules;
use std::time::Duration;

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
    /// Objects under them that were moved to the archive.
    pub archived: u64,
    /// Objects under them that stay because their policy says so.
    pub reported: u64,
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
            let types = self.types_of(&condemned).await?;
            let rules = Rules::of(self);
            let mut empty = Vec::with_capacity(condemned.len());
            for (intent, task_type) in condemned.into_iter().zip(types) {
                match self.empty(&intent, task_type.as_deref(), &rules, &mut swept).await {
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

    /// The declared types of the intents' tasks, where any policy asks for them.
    async fn types_of(&self, intents: &[Intent]) -> Result<Vec<Option<String>>, StoreError> {
        if self.registry.orphans.is_empty() && self.registry.other_orphans.is_none() {
            return Ok(vec![None; intents.len()]);
        }
        let asked: Vec<_> =
            intents.iter().map(|intent| AttemptRef { task: intent.task, prefix: intent.prefix.clone() }).collect();
        Ok(self.ports.store.standing(&asked).await?.of.into_iter().map(|one| one.task_type).collect())
    }

    /// Does with what an attempt has stored as its type's policy says. Returns how many objects were deleted. What is
    /// only reported stays, and the listings come by it.
    async fn empty(
        &self,
        intent: &Intent,
        task_type: Option<&str>,
        rules: &Rules,
        swept: &mut Swept,
    ) -> Result<u64, ObjectError> {
        let objects = &self.ports.objects;
        if Rules::always_deletes(&self.registry, task_type) {
            return objects.delete_prefix(&intent.prefix).await;
        }
        let policy = &rules.for_type(task_type).policy;
        let (mut deleted, mut cursor) = (0, None::<String>);
        loop {
            let page = objects.page(&intent.prefix, cursor.as_deref(), 1000).await?;
            let mut delete = Vec::new();
            for listed in page.objects {
                let Some(key) = ObjectKey::parse(&listed.key) else { continue };
                let age = u64::try_from(page.now.saturating_sub(listed.stored_at)).unwrap_or(0);
                let orphan = Orphan {
                    task_type: task_type.map(str::to_owned),
                    tenant: key.tenant,
                    task: key.task,
                    step: key.step,
                    attempt: key.attempt,
                    bucket: listed.bucket.clone(),
                    key: listed.key.clone(),
                    size_bytes: listed.size_bytes,
                    age: Duration::from_micros(age),
                    half: listed.upload.is_some(),
                    why: Why::Unkept,
                };
                match decided(policy.as_ref(), &orphan) {
                    OrphanAction::Delete => delete.push(listed),
                    OrphanAction::Archive { prefix } => {
                        objects.set_aside(&listed, &prefix).await?;
                        tracing::info!(task = %orphan.task, key = orphan.key, prefix, "an orphan is set aside");
                        swept.archived += 1;
                    }
                    OrphanAction::Report => {
                        tracing::warn!(task = %orphan.task, key = orphan.key, why = %orphan.why, "an orphan, and it stays");
                        swept.reported += 1;
                    }
                }
            }
            deleted += objects.remove(&delete).await?;
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(deleted),
            }
        }
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

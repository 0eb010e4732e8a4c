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

use crate::cancel::CancelToken;
use crate::engine::Engine;
use crate::keys::ObjectKey;
use crate::ports::{AttemptRef, Intent, IntentOp, IntentState, ObjectError, StoreError};
use crate::record::DbTime;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use policy::decided;
use rules::Rules;
use std::collections::BTreeMap;

/// Prefixes that a sweep empties at a time: each takes several requests, one after the other.
const AT_A_TIME: usize = 16;

fn attempt(intent: &Intent) -> AttemptRef {
    AttemptRef { task: intent.task, prefix: intent.prefix.clone() }
}

/// What a sweep is going to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SweepPlan {
    /// Attempts whose prefixes are to be emptied, the longest overdue first.
    pub condemn: Vec<Intent>,
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Prefixes that no sweep need come by again.
    pub prefixes: u64,
    /// Objects that were deleted under them.
    pub objects: u64,
    /// Objects under them that were moved to the archive.
    pub archived: u64,
    /// Objects under them that stay because their policy says so.
    pub reported: u64,
    /// Objects under them that stay because the grace of their type, longer than is needed, is not over.
    pub young: u64,
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

    /// Executes a plan; on `shutdown` as far as it has come.
    ///
    /// # Errors
    /// When the store does not answer.
    pub fn sweep<'a>(&'a self, plan: SweepPlan, shutdown: &'a CancelToken) -> BoxFuture<'a, Result<Swept, StoreError>> {
        Box::pin(async move {
            let mut swept = Swept::default();
            if plan.condemn.is_empty() {
                return Ok(swept);
            }
            let rules = Rules::of(self);
            // Before anything is condemned: what cannot be read stays as it is.
            let (now, types) = self.types_of(&plan.condemn, &mut swept).await?;
            let known = plan.condemn.into_iter().filter(|intent| types.contains_key(&attempt(intent))).collect();
            // Only what this returns is ours to delete: an attempt may have succeeded since the plan was made.
            let condemned = self.ports.store.intents(IntentOp::Condemn(known)).await?;
            let mut empty = Vec::with_capacity(condemned.len());
            let each = condemned.into_iter().map(|intent| {
                let task_type = types.get(&attempt(&intent)).cloned().flatten();
                let rules = &rules;
                async move {
                    let mut one = Swept::default();
                    let emptied = self.empty(&intent, task_type.as_deref(), rules, now, &mut one).await;
                    (intent, one, emptied)
                }
                .boxed()
            });
            let mut each = stream::iter(each.collect::<Vec<_>>()).buffer_unordered(AT_A_TIME);
            // Dropped in the middle of a request, a prefix is emptied by a later sweep: it stays condemned.
            while let Some(Some((intent, one, emptied))) = shutdown.run_until_cancelled(each.next()).await {
                swept.objects += one.objects;
                swept.archived += one.archived;
                swept.reported += one.reported;
                swept.young += one.young;
                match emptied {
                    Ok(()) => {
                        swept.prefixes += 1;
                        if one.objects > 0 {
                            let objects = one.objects;
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
            drop(each);
            self.ports.store.intents(IntentOp::Swept(empty)).await?;
            Ok(swept)
        })
    }

    /// The declared types of the intents' tasks, where any policy or grace asks for them, and the database's time. Without
    /// those whose rows cannot be read.
    async fn types_of(
        &self,
        intents: &[Intent],
        swept: &mut Swept,
    ) -> Result<(DbTime, BTreeMap<AttemptRef, Option<String>>), StoreError> {
        let asked: Vec<_> = intents.iter().map(attempt).collect();
        let nothing_declared = self.registry.orphans.is_empty() && self.registry.other_orphans.is_none();
        if nothing_declared && self.settings.orphans.types.is_empty() {
            return Ok((DbTime(0), asked.into_iter().map(|one| (one, None)).collect()));
        }
        let said = self.ports.store.standing(&asked).await?;
        let mut types = BTreeMap::new();
        for (one, standing) in asked.into_iter().zip(said.of) {
            match standing.intent {
                IntentState::Unreadable(why) => {
                    swept.failed.push((one.prefix, format!("its row cannot be read: {why}")))
                }
                _ => drop(types.insert(one, standing.task_type)),
            }
        }
        Ok((said.now, types))
    }

    /// Does with what an attempt has stored as its type's policy says. What is only reported, or within a grace that was
    /// asked for, stays, and the listings come by it.
    async fn empty(
        &self,
        intent: &Intent,
        task_type: Option<&str>,
        rules: &Rules,
        now: DbTime,
        swept: &mut Swept,
    ) -> Result<(), ObjectError> {
        let objects = &self.ports.objects;
        if rules.always_deletes(&self.registry, task_type) {
            swept.objects += objects.delete_prefix(&intent.prefix).await?;
            return Ok(());
        }
        let rule = rules.for_type(task_type);
        let mut cursor = None::<String>;
        loop {
            let page = objects.page(&intent.prefix, cursor.as_deref(), 1000).await?;
            let mut delete = Vec::new();
            for listed in page.objects {
                let Some(key) = ObjectKey::parse(&listed.key) else { continue };
                let age = listing::age(&listed, page.now, now);
                if rule.patient && age < rule.grace {
                    swept.young += 1;
                    continue;
                }
                let orphan = Orphan::of(&listed, key, task_type.map(str::to_owned), age, Why::Unkept);
                match decided(rule.policy.as_ref(), &orphan) {
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
            swept.objects += objects.remove(&delete).await?;
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Removes the scratch of tasks that are at rest, or were never there, until `shutdown`. Returns how many there were.
    pub fn sweep_scratch<'a>(&'a self, shutdown: &'a CancelToken) -> BoxFuture<'a, u64> {
        Box::pin(async move {
            let mut removed = 0;
            let tasks = self.ports.scratch.tasks().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the scratch folder could not be listed");
                Vec::new()
            });
            for task in tasks {
                if shutdown.is_cancelled() {
                    break;
                }
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

//! Objects that no committed row references, as a plan and its execution: the records of tasks say
//! where to look, so an orphan is a query first. An intent is condemned by a change of its task
//! before anything is deleted, unless the task has ended: no success can then keep what is about to
//! go. What no journal names any more is found by listing, in `listing`; what becomes of an orphan
//! is the user's decision, in `policy`.

mod intents;
pub mod listing;
mod page;
mod policy;
mod rules;

use counterstep_steps::orphans::{Orphan, OrphanAction, Why};
pub use page::{Found, UnknownObjects};
pub use rules::OrphanSettings;

use counterstep_contracts::TaskId;
use counterstep_kernel::Engine;
use counterstep_kernel::change::intents::Intent;
use counterstep_kernel::ports::{ObjectError, StoreError};
use counterstep_steps::cancel::CancelToken;
use counterstep_steps::keys::ObjectKey;
use counterstep_steps::times::DbTime;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use intents::Look;
use policy::{decided, orphan};
use rules::Rules;
use std::time::Duration;

/// Prefixes that a sweep empties at a time: each takes several requests, one after the other.
const AT_A_TIME: usize = 16;

/// How long until a task whose record cannot be read is looked at again.
const UNREADABLE_FOR: Duration = Duration::from_secs(3600);

/// How long until a task of a newer program is looked at again.
const NEWER_FOR: Duration = Duration::from_secs(60);

/// What a sweep is going to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepPlan {
    /// Attempts and receives whose prefixes are to be emptied, the longest overdue first.
    pub condemn: Vec<Intent>,
    /// Tasks that cannot be read, and why: nothing of them is touched, and they are looked at again
    /// later.
    pub unreadable: Vec<(TaskId, String)>,
    /// Tasks of newer programs, which programs of that version sweep.
    newer: Vec<TaskId>,
    /// The database's clock before they were read.
    now: DbTime,
}

impl Default for SweepPlan {
    fn default() -> Self {
        Self {
            condemn: Vec::new(),
            unreadable: Vec::new(),
            newer: Vec::new(),
            now: DbTime(0),
        }
    }
}

/// What became of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Prefixes that no sweep has to visit again.
    pub prefixes: u64,
    /// Objects that were deleted under them.
    pub objects: u64,
    /// Objects under them that were moved to the archive.
    pub archived: u64,
    /// Objects under them that stay because their policy says so.
    pub reported: u64,
    /// Objects under them that stay because the grace of their type, longer than is needed, is not
    /// over.
    pub young: u64,
    /// Prefixes that could not be emptied, and tasks that could not be read, with the reason; a
    /// later sweep tries again.
    pub failed: Vec<(String, String)>,
}

/// Plans the sweep of at most `limit` overdue intents. Changes nothing.
///
/// # Errors
/// When the store does not answer.
pub fn plan(engine: &Engine, limit: u32) -> BoxFuture<'_, Result<SweepPlan, StoreError>> {
    Box::pin(async move {
        let Look {
            now,
            intents,
            unreadable,
            newer,
        } = intents::overdue(engine, limit).await?;
        Ok(SweepPlan {
            condemn: intents,
            unreadable,
            newer,
            now,
        })
    })
}

/// Executes a plan; on `shutdown` as far as it has come.
///
/// # Errors
/// When the store does not answer.
pub fn run<'a>(
    engine: &'a Engine,
    settings: &'a OrphanSettings,
    plan: SweepPlan,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, Result<Swept, StoreError>> {
    Box::pin(async move {
        let mut swept = Swept::default();
        let SweepPlan {
            condemn,
            unreadable,
            newer,
            now,
        } = plan;
        put_off(
            engine,
            unreadable.iter().map(|(task, _)| *task).collect(),
            UNREADABLE_FOR,
        )
        .await;
        put_off(engine, newer, NEWER_FOR).await;
        swept.failed.extend(
            unreadable
                .into_iter()
                .map(|(task, why)| (task.to_string(), why)),
        );
        if condemn.is_empty() {
            return Ok(swept);
        }
        let rules = Rules::of(&engine.registry, settings, &engine.settings);
        // Only what this returns is ours to delete: an attempt may have succeeded since the
        // plan was made.
        let condemned = intents::condemn(engine, condemn).await?;
        let mut empty = Vec::with_capacity(condemned.len());
        let each = condemned.into_iter().map(|intent| {
            let rules = &rules;
            async move {
                let mut one = Swept::default();
                let emptied = empty_prefix(engine, &intent, rules, now, &mut one).await;
                (intent, one, emptied)
            }
            .boxed()
        });
        let mut each = stream::iter(each.collect::<Vec<_>>()).buffer_unordered(AT_A_TIME);
        // Dropped in the middle of a request, a prefix is emptied by a later sweep: it stays
        // condemned.
        while let Some(Some((intent, one, emptied))) =
            shutdown.run_until_cancelled(each.next()).await
        {
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
        intents::have_swept(engine, &empty).await?;
        Ok(swept)
    })
}

/// Or they would stand before the others in the next look.
async fn put_off(engine: &Engine, tasks: Vec<TaskId>, by: Duration) {
    let count = tasks.len();
    if count == 0 {
        return;
    }
    if let Err(error) = engine.ports.store.put_off(&tasks, by).await {
        tracing::warn!(count, %error, "tasks that cannot be swept were not put off");
    }
}

/// Treats what an attempt has stored by its type's policy. What is only reported, or within a grace that was
/// asked for, stays, and the listings find it.
async fn empty_prefix(
    engine: &Engine,
    intent: &Intent,
    rules: &Rules,
    now: DbTime,
    swept: &mut Swept,
) -> Result<(), ObjectError> {
    let (objects, task_type) = (&engine.ports.objects, intent.task_type.as_deref());
    if rules.always_deletes(&engine.registry, task_type) {
        swept.objects += objects.delete_prefix(&intent.prefix).await?;
        return Ok(());
    }
    let rule = rules.for_type(task_type);
    let mut cursor = None::<String>;
    loop {
        let page = objects
            .page(&intent.prefix, cursor.as_deref(), 1000)
            .await?;
        let mut delete = Vec::new();
        for listed in page.objects {
            let Some(key) = ObjectKey::parse(&listed.key) else {
                continue;
            };
            let age = page::age(&listed, page.now, now);
            if rule.patient && age < rule.grace {
                swept.young += 1;
                continue;
            }
            let orphan = orphan(&listed, key, task_type.map(str::to_owned), age, Why::Unkept);
            match decided(rule.policy.as_ref(), &orphan) {
                OrphanAction::Delete => delete.push(listed),
                OrphanAction::Archive { prefix } => {
                    objects.set_aside(&listed, &prefix).await?;
                    tracing::info!(task = %orphan.task, key = orphan.key, prefix, "an orphan is set aside");
                    swept.archived += 1;
                }
                OrphanAction::Report => {
                    tracing::warn!(task = %orphan.task, key = orphan.key, why = %orphan.why, "orphaned object kept (policy: report)");
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

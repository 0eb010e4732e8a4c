//! Orphans that no journal names: what a writer stored that had stood still until its attempt was
//! swept, and what is left of tasks without rows. Found by listing all objects, page by page, from
//! a cursor in the store; never more than a page is in memory. What a page leads to is planned in
//! `page`.

use super::page::{self, Found, PagePlan, UnknownObjects, attempts};
use super::rules::Rules;
use super::{Orphan, OrphanAction, OrphanSettings, intents};
use counterstep_contracts::TaskId;
use counterstep_kernel::Engine;
use counterstep_kernel::change::intents::{AttemptStates, Intent};
use counterstep_kernel::documents::ListingOp;
use counterstep_kernel::ports::{ObjectError, ObjectPage, StoreError};
use counterstep_steps::cancel::CancelToken;
use counterstep_steps::times::DbTime;
use futures::future::BoxFuture;
use std::collections::BTreeSet;
use std::time::Duration;

/// Maximum number of entries per page, as an S3 server has it.
const PAGE: usize = 1000;
/// How long a reconciler may make no progress with a listing before it counts as dead.
const HOLD: Duration = Duration::from_secs(120);
/// Where our keys begin.
const ROOT: &str = "t/";

/// What listings have come to in one pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listings {
    /// Listings that came to their end.
    pub finished: u32,
    /// Pages that were read.
    pub pages: u32,
    /// Orphans that were deleted, half-done uploads among them.
    pub deleted: u64,
    /// Orphans that were moved to the archive.
    pub archived: u64,
    /// Orphans that stay because their policy says so.
    pub reported: u64,
    /// Orphans within their grace.
    pub young: u64,
    /// Objects of tasks or attempts that this database does not know, whatever their age.
    pub unknown_objects: UnknownObjects,
    /// Objects that are not named like ours.
    pub unmanaged: u64,
    /// What did not work; the next listing retries it.
    pub failed: Vec<String>,
}

/// What a listing would do, as far as it was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListingPlan {
    /// Orphans past their grace, the first of each place.
    pub found: Vec<Found>,
    /// Objects of tasks or attempts that this database does not know, whatever their age.
    pub unknown_objects: UnknownObjects,
    /// Objects that are not named like ours.
    pub unmanaged: u64,
    /// There is more that was not looked at.
    pub more: bool,
}

/// What a listing would do could not be looked at.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ListingError {
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object store does not answer.
    #[error("the objects cannot be listed: {0}")]
    Objects(#[from] ObjectError),
}

/// What listings would do, from the beginning on: at most `limit` orphans, of at most `pages`
/// pages. Changes nothing, and takes no turn.
///
/// # Errors
/// [`ListingError`].
pub fn plan<'a>(
    engine: &'a Engine,
    settings: &'a OrphanSettings,
    pages: u32,
    limit: usize,
) -> BoxFuture<'a, Result<ListingPlan, ListingError>> {
    Box::pin(async move {
        let rules = Rules::of(&engine.registry, settings, &engine.settings);
        let (mut planned, mut cursor) = (ListingPlan::default(), None::<String>);
        for _ in 0..pages {
            let page = engine
                .ports
                .objects
                .page(ROOT, cursor.as_deref(), PAGE)
                .await?;
            let of_page = plan_page(engine, &page, &rules, None).await?;
            planned.unmanaged += of_page.unmanaged;
            planned.unknown_objects.extend(of_page.unknown_objects);
            planned.found.extend(of_page.found);
            cursor = page.next;
            if cursor.is_none() || planned.found.len() > limit {
                break;
            }
        }
        planned.more = cursor.is_some() || planned.found.len() > limit;
        planned.found.truncate(limit);
        Ok(planned)
    })
}

async fn plan_page(
    engine: &Engine,
    page: &ObjectPage,
    rules: &Rules,
    every: Option<Duration>,
) -> Result<PagePlan, StoreError> {
    let asked = attempts(page);
    let said = match asked.is_empty() {
        true => AttemptStates {
            now: DbTime(0),
            of: Vec::new(),
        },
        false => intents::standing(engine, &asked).await?,
    };
    Ok(page::plan(page, &asked, &said, rules, every))
}

/// Lists all objects where a listing is due, or continues one that was begun, and treats orphans by their
/// policies; at most `pages` pages in this call, or one for each interval at which something is listed where
/// these are more; none after `shutdown`. Of several reconcilers one does it.
///
/// # Errors
/// When the store does not answer. What the object store refuses stands in the result.
pub fn run<'a>(
    engine: &'a Engine,
    settings: &'a OrphanSettings,
    pages: u32,
    shutdown: &'a CancelToken,
) -> BoxFuture<'a, Result<Listings, StoreError>> {
    Box::pin(async move {
        let rules = &Rules::of(&engine.registry, settings, &engine.settings);
        let lister = Lister {
            engine,
            rules,
            shutdown,
        };
        let mut done = Listings::default();
        let mut due: Vec<Duration> = rules.intervals().into_iter().collect();
        while !due.is_empty() && done.pages < pages && !shutdown.is_cancelled() {
            let mut longer = Vec::new();
            for (before, every) in due.iter().enumerate() {
                // An equal share each: one that is always due must not keep the others from their turn.
                let others = u32::try_from(due.len() - before).unwrap_or(u32::MAX);
                let share = pages.saturating_sub(done.pages).div_ceil(others).max(1);
                if lister.list_once(*every, share, &mut done).await? {
                    longer.push(*every);
                }
            }
            due = longer;
        }
        if done.unknown_objects.objects > 0 {
            let (objects, first) = (done.unknown_objects.objects, &done.unknown_objects.first);
            match rules.without_task() {
                None => tracing::warn!(
                    objects,
                    ?first,
                    "objects of tasks or attempts that this database does not know: they stay. Where they belong to \
                     another database, give it a bucket or a prefix of its own; where they are not needed, set \
                     `orphans_without_task`"
                ),
                Some(after) => tracing::warn!(
                    objects,
                    ?first,
                    ?after,
                    "objects of tasks or attempts that this database does not know: once they are that old, they are \
                     orphans. Where they belong to another database, take `orphans_without_task` out of the settings now"
                ),
            }
        }
        Ok(done)
    })
}

/// What lists, and by what it judges what it finds.
struct Lister<'a> {
    engine: &'a Engine,
    rules: &'a Rules,
    shutdown: &'a CancelToken,
}

impl Lister<'_> {
    /// Lists at most `pages` pages for one interval. Returns whether there are more, and it is still the
    /// caller's turn.
    async fn list_once(
        &self,
        every: Duration,
        pages: u32,
        done: &mut Listings,
    ) -> Result<bool, StoreError> {
        let (engine, shutdown) = (self.engine, self.shutdown);
        if shutdown.is_cancelled() {
            return Ok(false);
        }
        let by = engine.id.to_string();
        let claim = ListingOp::Claim {
            every,
            by: by.clone(),
            hold: HOLD,
        };
        let Some(turn) = engine.ports.store.listing(&claim).await? else {
            return Ok(false);
        };
        let until = done.pages.saturating_add(pages);
        let mut cursor = turn.cursor;
        loop {
            let page = engine.ports.objects.page(ROOT, cursor.as_deref(), PAGE);
            let page = match shutdown.run_until_cancelled(page).await {
                Some(Ok(page)) => page,
                None => return self.give_back(every, cursor).await,
                // It was begun on other objects than those that the settings name now, and would
                // never come further.
                Some(Err(ObjectError::Refused(why))) if cursor.is_some() => {
                    tracing::warn!(
                        why,
                        "a listing begins again: the object store refuses where it had come to"
                    );
                    cursor = None;
                    continue;
                }
                Some(Err(error)) => {
                    done.failed.push(format!("listing objects: {error}"));
                    return self.give_back(every, cursor).await;
                }
            };
            done.pages += 1;
            let plan = plan_page(engine, &page, self.rules, Some(every)).await?;
            done.young += plan.young;
            done.unknown_objects.extend(plan.unknown_objects);
            done.failed.extend(plan.unreadable);
            done.unmanaged += plan.unmanaged;
            self.act(plan.found, done).await?;
            if shutdown.is_cancelled() {
                // The page may be half done: it is read again.
                return self.give_back(every, cursor).await;
            }
            cursor = page.next;
            // Noted after the work and not before: a page that was broken off is read again.
            let last = cursor.is_none() || done.pages >= until;
            let hold = if last { Duration::ZERO } else { HOLD };
            let keep = ListingOp::Keep {
                every,
                by: by.clone(),
                cursor: cursor.clone(),
                hold,
            };
            let still_ours = engine.ports.store.listing(&keep).await?.is_some();
            done.finished += u32::from(cursor.is_none());
            if last || !still_ours {
                return Ok(cursor.is_some() && still_ours);
            }
        }
    }

    /// Leaves a listing that has come as far as this to the next pass, of whichever reconciler.
    async fn give_back(&self, every: Duration, cursor: Option<String>) -> Result<bool, StoreError> {
        let (by, cursor) = (self.engine.id.to_string(), Some(cursor.unwrap_or_default()));
        let keep = ListingOp::Keep {
            every,
            by,
            cursor,
            hold: Duration::ZERO,
        };
        self.engine.ports.store.listing(&keep).await?;
        Ok(false)
    }

    /// Does with orphans what was planned, until `shutdown`.
    async fn act(&self, found: Vec<Found>, done: &mut Listings) -> Result<(), StoreError> {
        let (engine, shutdown) = (self.engine, self.shutdown);
        let mut condemn: Vec<Intent> = found
            .iter()
            .filter_map(|found| found.condemn.clone())
            .collect();
        condemn.sort_by_key(|intent| (intent.task, intent.prefix.clone()));
        condemn.dedup();
        let condemned: BTreeSet<(TaskId, String)> = match condemn.is_empty() {
            true => BTreeSet::new(),
            // Only what this returns is ours: an attempt may have succeeded since the plan was
            // made.
            false => {
                let condemned = intents::condemn(engine, condemn).await?;
                condemned
                    .into_iter()
                    .map(|intent| (intent.task, intent.prefix))
                    .collect()
            }
        };
        let ours = |found: &Found| {
            found
                .condemn
                .as_ref()
                .is_none_or(|intent| condemned.contains(&(intent.task, intent.prefix.clone())))
        };
        let mut delete = Vec::new();
        for Found {
            orphan,
            action,
            listed,
            ..
        } in found.into_iter().filter(ours)
        {
            let Orphan {
                task,
                key,
                why,
                age,
                ..
            } = &orphan;
            match action {
                OrphanAction::Report => {
                    tracing::warn!(%task, key, bucket = orphan.bucket, ?age, %why, "orphaned object kept (policy: report)");
                    done.reported += 1;
                }
                OrphanAction::Delete => {
                    tracing::info!(%task, key, bucket = orphan.bucket, ?age, %why, "an orphan is deleted");
                    delete.push(listed);
                }
                OrphanAction::Archive { prefix } => {
                    let moved = engine.ports.objects.set_aside(&listed, &prefix);
                    match shutdown.run_until_cancelled(moved).await {
                        Some(Ok(())) => {
                            tracing::info!(%task, key, bucket = orphan.bucket, ?age, %why, prefix, "an orphan is set aside");
                            done.archived += 1;
                        }
                        Some(Err(error)) => done.failed.push(format!("object {key}: {error}")),
                        None => return Ok(()),
                    }
                }
            }
        }
        if !delete.is_empty() {
            match shutdown
                .run_until_cancelled(engine.ports.objects.remove(&delete))
                .await
            {
                Some(Ok(deleted)) => done.deleted += deleted,
                Some(Err(error)) => done
                    .failed
                    .push(format!("{} orphans: {error}", delete.len())),
                None => {}
            }
        }
        Ok(())
    }
}

//! Orphans that no journal names: what a writer stored that had stood still until its attempt was
//! swept, and what is left of tasks without rows. Found by listing all objects, page by page, from
//! a cursor in the store; never more than a page is in memory. What a page leads to is a plan, a
//! value, and so is what is done with it.

use super::policy::{decided, orphan};
use super::rules::Rules;
use super::{Orphan, OrphanAction, Why};
use crate::cancel::CancelToken;
use crate::documents::{ListingOp, TypedDocuments};
use crate::engine::Engine;
use crate::intents::{AttemptRef, Intent, IntentState, Standings};
use crate::keys::ObjectKey;
use crate::ports::{Listed, ObjectError, ObjectPage, StoreError};
use crate::record::DbTime;
use counterstep_contracts::TaskId;
use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Entries of a page: what an S3 server gives at most.
const PAGE: usize = 1000;
/// A reconciler that has not come further for so long has died.
const HOLD: Duration = Duration::from_secs(120);
/// So many objects of tasks and attempts that are not known are told of by name.
const NAMED: usize = 10;
/// Where our keys begin.
const ROOT: &str = "t/";

/// An orphan, and what is to become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is.
    pub orphan: Orphan,
    /// What the policy says.
    pub action: OrphanAction,
    /// Its attempt's intent, which is to be condemned before anything is done.
    pub condemn: Option<Intent>,
    /// As the listing has shown it.
    pub listed: Listed,
}

/// Objects of tasks or attempts that this database does not know. They may be another database's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strange {
    /// How many.
    pub objects: u64,
    /// The first of them, as `{bucket}/{key}`: never more than a few.
    pub first: Vec<String>,
}

impl Strange {
    fn add(&mut self, listed: &Listed) {
        self.objects += 1;
        if self.first.len() < NAMED {
            self.first.push(format!("{}/{}", listed.bucket, listed.key));
        }
    }

    fn extend(&mut self, other: Self) {
        self.objects += other.objects;
        let free = NAMED - self.first.len();
        self.first.extend(other.first.into_iter().take(free));
    }
}

/// What a page leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PagePlan {
    /// Orphans past their grace.
    pub found: Vec<Found>,
    /// Objects that rows keep, or may still keep.
    pub kept: u64,
    /// Orphans within their grace.
    pub young: u64,
    /// Objects of a task or an attempt that this database does not know, whatever their age.
    pub strange: Strange,
    /// Attempts of tasks that cannot be read, and why. Their objects are kept.
    pub unreadable: BTreeSet<String>,
    /// Objects of types that another listing is for.
    pub others: u64,
    /// Not named like ours: never touched.
    pub foreign: u64,
}

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
    pub strange: Strange,
    /// Objects that are not named like ours.
    pub foreign: u64,
    /// What did not work; the next listing comes by again.
    pub failed: Vec<String>,
}

/// What a listing would do, as far as it was looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListingPlan {
    /// Orphans past their grace, the first of each place.
    pub found: Vec<Found>,
    /// Objects of tasks or attempts that this database does not know, whatever their age.
    pub strange: Strange,
    /// Objects that are not named like ours.
    pub foreign: u64,
    /// There is more that was not looked at.
    pub more: bool,
}

/// The objects of a page by attempt, and those that are none of ours.
struct Read<'a> {
    ours: Vec<(&'a Listed, ObjectKey)>,
    foreign: u64,
}

fn read(page: &ObjectPage) -> Read<'_> {
    let ours: Vec<_> = page
        .objects
        .iter()
        .filter_map(|listed| Some((listed, ObjectKey::parse(&listed.key)?)))
        .collect();
    let foreign = page.foreign + (page.objects.len() - ours.len()) as u64;
    Read { ours, foreign }
}

/// The attempts that a page shows, each once.
fn attempts(read: &Read<'_>) -> Vec<AttemptRef> {
    let all = read.ours.iter().map(|(_, key)| AttemptRef {
        task: key.task,
        prefix: key.prefix.clone(),
    });
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Judges a page. `every`: the interval of the listing; `None`: of all of them.
fn plan(
    page: &ObjectPage,
    asked: &[AttemptRef],
    said: &Standings,
    rules: &Rules,
    every: Option<Duration>,
) -> PagePlan {
    let standing: BTreeMap<&str, _> = asked
        .iter()
        .map(|one| one.prefix.as_str())
        .zip(&said.of)
        .collect();
    let read = read(page);
    let mut plan = PagePlan {
        foreign: read.foreign,
        ..PagePlan::default()
    };
    for (listed, key) in read.ours {
        let Some(standing) = standing.get(key.prefix.as_str()) else {
            continue;
        };
        let rule = rules.for_type(standing.task_type.as_deref());
        let (why, condemn) = match (&standing.intent, &standing.task_type) {
            (IntentState::Kept | IntentState::Live, _) => {
                plan.kept += 1;
                continue;
            }
            (IntentState::Unreadable(error), _) => {
                plan.kept += 1;
                plan.unreadable.insert(format!(
                    "attempt {}: the record of its task cannot be read: {error}",
                    key.prefix
                ));
                continue;
            }
            (IntentState::Overdue(intent), _) => (Why::Unkept, Some(intent.clone())),
            (IntentState::Swept, _) => (Why::Late, None),
            (IntentState::Missing, Some(_)) => (Why::NoAttempt, None),
            (IntentState::Missing, None) => (Why::NoTask, None),
        };
        if every.is_some_and(|every| every != rule.every) {
            plan.others += 1;
            continue;
        }
        let age = age(listed, page.now, said.now);
        let mut grace = Some(rule.grace);
        if matches!(why, Why::NoTask | Why::NoAttempt) {
            plan.strange.add(listed);
            // Nothing here knows whose it is. It goes only where a person has said from when on.
            grace = rules.without_task().map(|without| without.max(rule.grace));
        }
        if grace.is_none_or(|grace| age < grace) {
            plan.young += u64::from(grace.is_some());
            continue;
        }
        let orphan = orphan(listed, key, standing.task_type.clone(), age, why);
        let action = decided(rule.policy.as_ref(), &orphan);
        plan.found.push(Found {
            orphan,
            action,
            condemn,
            listed: listed.clone(),
        });
    }
    plan
}

/// How long ago an object was stored. The object store has a clock of its own, and it may be wrong
/// now: by that clock against itself, and by that clock against the database's. The shorter one
/// counts, so that one clock that runs ahead makes no orphan older. A clock of the object store
/// that was behind when it stored the object, and is right now, does: nothing here can tell.
pub(super) fn age(listed: &Listed, store_now: i64, now: DbTime) -> Duration {
    let since = |clock: i64| u64::try_from(clock.saturating_sub(listed.stored_at)).unwrap_or(0);
    Duration::from_micros(since(store_now).min(since(now.0)))
}

impl Engine {
    /// What listings would do, from the beginning on: at most `limit` orphans, of at most `pages`
    /// pages. Changes nothing, and takes no turn.
    ///
    /// # Errors
    /// When the store does not answer, or in words what the object store says.
    pub fn plan_listing(
        &self,
        pages: u32,
        limit: usize,
    ) -> BoxFuture<'_, Result<ListingPlan, StoreError>> {
        Box::pin(async move {
            let rules = Rules::of(self);
            let (mut planned, mut cursor) = (ListingPlan::default(), None::<String>);
            for _ in 0..pages {
                let page = self.ports.objects.page(ROOT, cursor.as_deref(), PAGE).await;
                let page = page.map_err(|error| StoreError::Unavailable(error.to_string()))?;
                let of_page = self.plan_page(&page, &rules, None).await?;
                planned.foreign += of_page.foreign;
                planned.strange.extend(of_page.strange);
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
        &self,
        page: &ObjectPage,
        rules: &Rules,
        every: Option<Duration>,
    ) -> Result<PagePlan, StoreError> {
        let asked = attempts(&read(page));
        let said = match asked.is_empty() {
            true => Standings {
                now: DbTime(0),
                of: Vec::new(),
            },
            false => self.standing(&asked).await?,
        };
        Ok(plan(page, &asked, &said, rules, every))
    }

    /// Lists all objects where a listing is due, or goes on with one that was begun, and does with
    /// orphans what their policies say; at most `pages` pages in this call, or one for each
    /// interval at which something is listed where these are more; none after `shutdown`. Of
    /// several reconcilers one does it.
    ///
    /// # Errors
    /// When the store does not answer. What the object store refuses stands in the result.
    pub fn sweep_listing<'a>(
        &'a self,
        pages: u32,
        shutdown: &'a CancelToken,
    ) -> BoxFuture<'a, Result<Listings, StoreError>> {
        Box::pin(async move {
            let rules = Rules::of(self);
            let mut done = Listings::default();
            let mut due: Vec<Duration> = rules.intervals().into_iter().collect();
            while !due.is_empty() && done.pages < pages && !shutdown.is_cancelled() {
                let mut longer = Vec::new();
                for (before, every) in due.iter().enumerate() {
                    // Each its share: one that is due all the time must not keep the others from
                    // their turn.
                    let others = u32::try_from(due.len() - before).unwrap_or(u32::MAX);
                    let share = pages.saturating_sub(done.pages).div_ceil(others).max(1);
                    if self
                        .list_once(*every, &rules, shutdown, share, &mut done)
                        .await?
                    {
                        longer.push(*every);
                    }
                }
                due = longer;
            }
            if done.strange.objects > 0 {
                let (objects, first) = (done.strange.objects, &done.strange.first);
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

    /// Lists so many pages at most for one interval. Whether there are more, and it is still the
    /// caller's turn.
    async fn list_once(
        &self,
        every: Duration,
        rules: &Rules,
        shutdown: &CancelToken,
        pages: u32,
        done: &mut Listings,
    ) -> Result<bool, StoreError> {
        if shutdown.is_cancelled() {
            return Ok(false);
        }
        let by = self.id.to_string();
        let claim = ListingOp::Claim {
            every,
            by: by.clone(),
            hold: HOLD,
        };
        let Some(turn) = self.ports.store.listing(&claim).await? else {
            return Ok(false);
        };
        let until = done.pages.saturating_add(pages);
        let mut cursor = turn.cursor;
        loop {
            let page = self.ports.objects.page(ROOT, cursor.as_deref(), PAGE);
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
            let plan = self.plan_page(&page, rules, Some(every)).await?;
            done.young += plan.young;
            done.strange.extend(plan.strange);
            done.failed.extend(plan.unreadable);
            done.foreign += plan.foreign;
            self.act(plan.found, shutdown, done).await?;
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
            let still_ours = self.ports.store.listing(&keep).await?.is_some();
            done.finished += u32::from(cursor.is_none());
            if last || !still_ours {
                return Ok(cursor.is_some() && still_ours);
            }
        }
    }

    /// Leaves a listing that has come as far as this to the next pass, of whichever reconciler.
    async fn give_back(&self, every: Duration, cursor: Option<String>) -> Result<bool, StoreError> {
        let (by, cursor) = (self.id.to_string(), Some(cursor.unwrap_or_default()));
        self.ports
            .store
            .listing(&ListingOp::Keep {
                every,
                by,
                cursor,
                hold: Duration::ZERO,
            })
            .await?;
        Ok(false)
    }

    /// Does with orphans what was planned, until `shutdown`.
    async fn act(
        &self,
        found: Vec<Found>,
        shutdown: &CancelToken,
        done: &mut Listings,
    ) -> Result<(), StoreError> {
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
                let condemned = self.condemn(condemn).await?;
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
                    tracing::warn!(%task, key, bucket = orphan.bucket, ?age, %why, "an orphan, and it stays");
                    done.reported += 1;
                }
                OrphanAction::Delete => {
                    tracing::info!(%task, key, bucket = orphan.bucket, ?age, %why, "an orphan is deleted");
                    delete.push(listed);
                }
                OrphanAction::Archive { prefix } => {
                    let moved = self.ports.objects.set_aside(&listed, &prefix);
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
                .run_until_cancelled(self.ports.objects.remove(&delete))
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

//! What a page of a listing leads to: a pure function of the objects that it shows, what the rows
//! say of their attempts, and the rules in force.

use super::policy::{decided, orphan};
use super::rules::Rules;
use super::{Orphan, OrphanAction, Why};
use counterstep_kernel::change::intents::{AttemptRef, AttemptStates, Intent, IntentState};
use counterstep_kernel::ports::{Listed, ObjectPage};
use counterstep_steps::keys::ObjectKey;
use counterstep_steps::times::DbTime;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum number of objects of unknown tasks and attempts that are named.
const NAMED: usize = 10;

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
pub struct UnknownObjects {
    /// Number of objects.
    pub objects: u64,
    /// The first of them, as `{bucket}/{key}`: never more than a few.
    pub first: Vec<String>,
}

impl UnknownObjects {
    fn add(&mut self, listed: &Listed) {
        self.objects += 1;
        if self.first.len() < NAMED {
            self.first.push(format!("{}/{}", listed.bucket, listed.key));
        }
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.objects += other.objects;
        let free = NAMED - self.first.len();
        self.first.extend(other.first.into_iter().take(free));
    }
}

/// What a page leads to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PagePlan {
    /// Orphans past their grace.
    pub found: Vec<Found>,
    /// Objects that rows keep, or may still keep.
    pub kept: u64,
    /// Orphans within their grace.
    pub young: u64,
    /// Objects of a task or an attempt that this database does not know, whatever their age.
    pub unknown_objects: UnknownObjects,
    /// Attempts of tasks that cannot be read, and why. Their objects are kept.
    pub unreadable: BTreeSet<String>,
    /// Objects of types that another listing is for.
    pub others: u64,
    /// Not named like ours: never touched.
    pub unmanaged: u64,
}

/// The objects of a page by attempt, and those that are none of ours.
struct Read<'a> {
    ours: Vec<(&'a Listed, ObjectKey)>,
    unmanaged: u64,
}

fn read(page: &ObjectPage) -> Read<'_> {
    let ours: Vec<_> = page
        .objects
        .iter()
        .filter_map(|listed| Some((listed, ObjectKey::parse(&listed.key)?)))
        .collect();
    let unmanaged = page.unmanaged + (page.objects.len() - ours.len()) as u64;
    Read { ours, unmanaged }
}

/// The attempts that a page shows, each once.
pub(super) fn attempts(page: &ObjectPage) -> Vec<AttemptRef> {
    let Read { ours, .. } = read(page);
    let all = ours.iter().map(|(_, key)| AttemptRef {
        task: key.task,
        prefix: key.prefix.clone(),
    });
    all.collect::<BTreeSet<_>>().into_iter().collect()
}

/// What a page leads to. `every`: the interval of the listing; `None`: of all of them.
pub(super) fn plan(
    page: &ObjectPage,
    asked: &[AttemptRef],
    said: &AttemptStates,
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
        unmanaged: read.unmanaged,
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
            plan.unknown_objects.add(listed);
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

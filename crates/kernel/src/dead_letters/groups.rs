//! Parked tasks by cause: those with the same type, step, class and masked text are one group. Worked out
//! when it is asked for: the texts may be encrypted where they are stored, and a hash beside them would tell
//! who has failed alike. Must not change a task.

use super::mask::mask;
use super::selection::Selection;
use crate::digest::hex;
use crate::ports::{Store, StoreError, TaskLine};
use crate::record::{DbTime, Failure};
use crate::times::rfc3339;
use counterstep_contracts::bulk::{DeadLetterGroup, DeadLetterGroups};
use counterstep_contracts::{TaskId, TaskStatus};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

/// Tasks that are looked at for one answer.
pub(crate) const MOST_LOOKED_AT: u64 = 100_000;

/// Groups that are kept apart: with their texts a megabyte at most.
const MOST_GROUPS: usize = 1_000;

/// What tasks of one group have in common.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Cause<'a> {
    task_type: &'a str,
    pub(crate) step: Option<&'a str>,
    pub(crate) class: Option<&'a str>,
    /// Masked.
    pub(crate) text: String,
}

impl<'a> Cause<'a> {
    pub(super) fn of(line: &'a TaskLine) -> Self {
        (&*line.task_type, line.failure.as_ref()).into()
    }

    /// The same at any time and in any process.
    pub(crate) fn id(&self) -> String {
        let mut digest = Sha256::new();
        let parts = [
            Some(self.task_type),
            self.step,
            self.class,
            Some(&*self.text),
        ];
        for part in parts {
            // With the length before it, no two rows of parts are one row of bytes.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            digest.update(length.to_be_bytes());
            digest.update(part.unwrap_or_default());
        }
        hex(&digest.finalize()[..8])
    }
}

/// The id of the group of a task of this type with this failure.
#[must_use]
pub fn group_of(task_type: &str, failure: Option<&Failure>) -> String {
    Cause::from((task_type, failure)).id()
}

impl<'a> From<(&'a str, Option<&'a Failure>)> for Cause<'a> {
    fn from((task_type, failure): (&'a str, Option<&'a Failure>)) -> Self {
        Self {
            task_type,
            step: failure.and_then(|failure| failure.step.as_deref()),
            class: failure.map(|failure| failure.class.as_str()),
            text: failure.map_or_else(String::new, |failure| mask(&failure.message)),
        }
    }
}

/// The cause of a failure; without its text where that must not be told.
pub(crate) fn cause_of<'a>(
    task_type: &'a str,
    failure: Option<&'a Failure>,
    with_text: bool,
) -> Cause<'a> {
    let cause = Cause::from((task_type, failure));
    if with_text {
        return cause;
    }
    Cause {
        text: String::new(),
        ..cause
    }
}

struct Group {
    task_type: String,
    step: Option<String>,
    class: Option<String>,
    text: String,
    by_status: BTreeMap<TaskStatus, u64>,
    first_at: DbTime,
    last_at: DbTime,
    example: TaskId,
}

impl Group {
    /// With nothing counted.
    fn new(cause: Cause<'_>, line: &TaskLine) -> Self {
        Self {
            task_type: cause.task_type.to_owned(),
            step: cause.step.map(str::to_owned),
            class: cause.class.map(str::to_owned),
            text: cause.text,
            by_status: BTreeMap::new(),
            first_at: line.updated_at,
            last_at: line.updated_at,
            // The newest comes first.
            example: line.task,
        }
    }

    fn add(&mut self, line: &TaskLine) {
        *self.by_status.entry(line.status).or_default() += 1;
        self.first_at = self.first_at.min(line.updated_at);
        self.last_at = self.last_at.max(line.updated_at);
    }

    fn view(self, id: String) -> DeadLetterGroup {
        DeadLetterGroup {
            id,
            task_type: self.task_type,
            step: self.step,
            class: self.class,
            text: self.text,
            count: self.by_status.values().sum(),
            by_status: self.by_status,
            first_at: rfc3339(self.first_at),
            last_at: rfc3339(self.last_at),
            example: self.example,
        }
    }
}

/// The groups of the tasks of a selection, the largest first.
///
/// # Errors
/// [`StoreError`].
pub async fn groups<S: Store + ?Sized>(
    store: &S,
    selection: &Selection,
) -> Result<DeadLetterGroups, StoreError> {
    let mut found: HashMap<String, Group> = HashMap::new();
    let (mut looked_at, mut others, mut before) = (0, 0, None);
    loop {
        let page = selection.page(store, before).await?;
        looked_at += page.looked_at;
        for line in &page.lines {
            let cause = Cause::of(line);
            let id = cause.id();
            let is_known = found.contains_key(&id);
            if !is_known && found.len() >= MOST_GROUPS {
                others += 1;
                continue;
            }
            found
                .entry(id)
                .or_insert_with(|| Group::new(cause, line))
                .add(line);
        }
        before = page.next;
        if before.is_none() || looked_at >= MOST_LOOKED_AT {
            break;
        }
    }
    let mut groups: Vec<_> = found
        .into_iter()
        .map(|(id, group)| group.view(id))
        .collect();
    groups.sort_unstable_by(|one, two| two.count.cmp(&one.count).then_with(|| one.id.cmp(&two.id)));
    Ok(DeadLetterGroups {
        counted: groups.iter().map(|group| group.count).sum(),
        groups,
        others,
        complete: before.is_none(),
    })
}

//! Parked tasks by cause: those of one type that the same blocks now are one group. Worked out when it is
//! asked for: the texts may be encrypted where they are stored, and a hash beside them would tell who has
//! failed alike. Must not change a task.

use super::mask::{mask, mask_as_before};
use super::selection::Selection;
use crate::digest::hex;
use crate::ports::{Store, StoreError, TaskLine};
use crate::record::{DbTime, Failure};
use crate::times::rfc3339;
use counterstep_contracts::cause::Cause;
use counterstep_contracts::groups::{DeadLetterGroup, DeadLetterGroups};
use counterstep_contracts::{TaskId, TaskStatus};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

/// Maximum number of tasks that are read for one answer.
pub(crate) const MOST_LOOKED_AT: u64 = 100_000;

/// Maximum number of groups that are kept apart: with their texts a megabyte at most.
const MOST_GROUPS: usize = 1_000;

/// Number of groups, the largest, to which is added what takes more reads for each.
pub(crate) const LARGEST: usize = 20;

/// What tasks of one group have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupKey {
    pub(crate) task_type: String,
    pub(crate) cause: Cause,
    /// Masked; without what the cause has as data.
    pub(crate) text: String,
}

impl GroupKey {
    /// The group key of a task of this type with this failure.
    pub(crate) fn of(task_type: &str, failure: Option<&Failure>) -> Self {
        let failure = failure.map(Failure::blocking);
        let cause = failure.map(Failure::cause).unwrap_or_default();
        let text = failure.map_or_else(String::new, |failure| mask(text_of(failure)));
        Self {
            task_type: task_type.to_owned(),
            cause,
            text,
        }
    }

    /// Without its text, where that must not be told.
    pub(crate) fn without_text(self) -> Self {
        Self {
            text: String::new(),
            ..self
        }
    }

    /// The same at any time and in any process.
    pub(crate) fn id(&self) -> String {
        let origin = &self.cause.origin;
        let status = origin.status.map(|status| status.to_string());
        id_of(&[
            Some(&self.task_type),
            Some(self.cause.side.as_str()),
            self.cause.step.as_deref(),
            self.cause.class.as_deref(),
            origin.service.as_deref(),
            origin.method.as_deref(),
            status.as_deref(),
            origin.code.as_deref(),
            origin.place.as_deref(),
            Some(&self.text),
        ])
    }
}

fn id_of(parts: &[Option<&str>]) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // With the length before it, no two rows of parts are one row of bytes.
        let length = part.map_or(u64::MAX, |part| part.len() as u64);
        digest.update(length.to_be_bytes());
        digest.update(part.unwrap_or_default());
    }
    hex(&digest.finalize()[..8])
}

/// What is left of a failure's text beside its cause. The text of a call names the call first, with a path in
/// which ids of any form stand; one that a problem document has a code for is that code.
fn text_of(failure: &Failure) -> &str {
    let Some(origin) = failure.origin.as_deref() else {
        return &failure.message;
    };
    if origin.code.is_some() {
        return "";
    }
    let Some(service) = &origin.service else {
        return &failure.message;
    };
    let call = format!(" of the service `{service}`: ");
    let behind = failure.message.split_once(&call);
    behind.map_or(&failure.message, |(_, behind)| behind)
}

/// The id of the group of a task of this type with this failure.
#[must_use]
pub fn group_of(task_type: &str, failure: Option<&Failure>) -> String {
    GroupKey::of(task_type, failure).id()
}

/// The id that programs gave its group which knew no cause: by the failure that had turned the task.
pub(super) fn former_group_of(task_type: &str, failure: Option<&Failure>) -> String {
    let text = failure.map_or_else(String::new, |failure| mask_as_before(&failure.message));
    id_of(&[
        Some(task_type),
        failure.and_then(|failure| failure.step.as_deref()),
        failure.map(|failure| failure.class.as_str()),
        Some(&text),
    ])
}

struct Group {
    key: GroupKey,
    by_status: BTreeMap<TaskStatus, u64>,
    first_at: DbTime,
    first: TaskId,
    last_at: DbTime,
    example: TaskId,
}

impl Group {
    /// With nothing counted.
    fn new(key: GroupKey, line: &TaskLine) -> Self {
        Self {
            key,
            by_status: BTreeMap::new(),
            first_at: line.updated_at,
            first: line.task,
            last_at: line.updated_at,
            // The newest comes first.
            example: line.task,
        }
    }

    fn add(&mut self, line: &TaskLine) {
        *self.by_status.entry(line.status).or_default() += 1;
        if line.updated_at < self.first_at {
            (self.first_at, self.first) = (line.updated_at, line.task);
        }
        self.last_at = self.last_at.max(line.updated_at);
    }

    fn view(self, id: String) -> DeadLetterGroup {
        DeadLetterGroup {
            id,
            task_type: self.key.task_type,
            step: self.key.cause.step.clone(),
            class: self.key.cause.class.clone(),
            cause: self.key.cause,
            text: self.key.text,
            count: self.by_status.values().sum(),
            by_status: self.by_status,
            first_at: rfc3339(self.first_at),
            last_at: rfc3339(self.last_at),
            first: Some(self.first),
            first_program: None,
            example: self.example,
            last_decision: None,
        }
    }
}

/// Counts tasks by cause.
#[derive(Default)]
pub(crate) struct Counter {
    found: HashMap<String, Group>,
    others: u64,
}

impl Counter {
    pub(crate) fn add(&mut self, line: &TaskLine) {
        let key = GroupKey::of(&line.task_type, line.failure.as_ref());
        let id = key.id();
        let is_known = self.found.contains_key(&id);
        if !is_known && self.found.len() >= MOST_GROUPS {
            self.others += 1;
            return;
        }
        let group = self.found.entry(id);
        group.or_insert_with(|| Group::new(key, line)).add(line);
    }

    /// The groups, the largest first; `complete`: all tasks were looked at.
    pub(crate) fn view(self, complete: bool) -> DeadLetterGroups {
        let views = self.found.into_iter().map(|(id, group)| group.view(id));
        let mut groups: Vec<_> = views.collect();
        groups.sort_unstable_by(|one, two| {
            two.count.cmp(&one.count).then_with(|| one.id.cmp(&two.id))
        });
        DeadLetterGroups {
            counted: groups.iter().map(|group| group.count).sum(),
            groups,
            others: self.others,
            complete,
        }
    }
}

/// The groups of the tasks of a selection, the largest first.
///
/// # Errors
/// [`StoreError`].
pub async fn groups(store: &Store, selection: &Selection) -> Result<DeadLetterGroups, StoreError> {
    let mut counter = Counter::default();
    let (mut looked_at, mut before) = (0, None);
    loop {
        let page = selection.page(store, before).await?;
        looked_at += page.looked_at;
        page.lines.iter().for_each(|line| counter.add(line));
        before = page.next;
        if before.is_none() || looked_at >= MOST_LOOKED_AT {
            break;
        }
    }
    Ok(counter.view(before.is_none()))
}

/// The tasks of a selection whose last change is the longest time ago, and not before `since`, that one first: `most` of them,
/// and no more are kept in memory.
///
/// # Errors
/// [`StoreError`].
pub async fn longest_parked(
    store: &Store,
    selection: &Selection,
    since: Option<DbTime>,
    most: usize,
) -> Result<Vec<TaskLine>, StoreError> {
    let mut oldest = BTreeMap::new();
    let (mut looked_at, mut before) = (0, None);
    loop {
        let page = selection.page(store, before).await?;
        looked_at += page.looked_at;
        for line in page.lines {
            if since.is_none_or(|since| line.updated_at >= since) {
                oldest.insert((line.updated_at, line.task), line);
            }
            if oldest.len() > most {
                oldest.pop_last();
            }
        }
        before = page.next;
        if before.is_none() || looked_at >= MOST_LOOKED_AT {
            return Ok(oldest.into_values().collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StepError;
    use crate::record::StepFailure;
    use counterstep_contracts::Direction;
    use counterstep_contracts::cause::{CauseSide, Origin};
    use std::collections::BTreeSet;

    /// As the answer to a call makes it.
    fn refused(service: &str, status: u16, id: u32) -> StepFailure {
        let (message, id) = match id % 4 {
            0 => (format!("no money: order {id}"), id.to_string()),
            1 => (format!("no money: order {id:08x}"), format!("acct_{id:x}f")),
            2 => (format!("no money: order {id:06x}"), format!("kim-{id}")),
            _ => (
                format!("no money: order 01930d2c-6c4b-7d5e-8f00-{id:012}"),
                format!("{id}@example.com"),
            ),
        };
        let error = StepError::permanent(format_args!(
            "POST /accounts/{id}/charges of the service `{service}`: the answer {status} `{message}`"
        ));
        let origin = Origin::call(service, "POST").answered(status, message.as_bytes());
        StepFailure::from(&error.about(origin))
    }

    #[test]
    fn services_statuses_and_sides_are_groups_of_their_own_and_ids_are_not() {
        let statuses = [400, 402, 403, 404, 410, 418, 422, 451];
        let services = ["s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];
        let (mut ids, mut cells) = (BTreeSet::new(), 0);
        for service in services {
            for status in statuses {
                for side in [Direction::Forward, Direction::Undo] {
                    let of = |id| {
                        let failure = refused(service, status, id).of_task("charge", side);
                        group_of("Order", Some(&failure))
                    };
                    let cell: BTreeSet<_> = (0..40).map(of).collect();
                    assert_eq!(cell.len(), 1, "{service} {status} {side}");
                    ids.extend(cell);
                    cells += 1;
                }
            }
        }
        assert_eq!((ids.len(), cells), (128, 128));
        // The same of steps.
        let step = |no: u32| {
            let failure = refused("bank", 402, no).of_task(&format!("step_{no}"), Direction::Undo);
            group_of("Order", Some(&failure))
        };
        assert_eq!((0..8).map(step).collect::<BTreeSet<_>>().len(), 8);
    }

    #[test]
    fn five_thousand_tasks_of_one_cell_are_one_group() {
        let mut counter = Counter::default();
        for id in 0..5_000 {
            let failure = refused("bank", 402, id).of_task("charge", Direction::Undo);
            counter.add(&line(id, Some(failure)));
        }
        let found = counter.view(true);
        assert_eq!((found.groups.len(), found.groups[0].count), (1, 5_000));
        let group = &found.groups[0];
        assert_eq!(group.text, "the answer # `no money: order #`");
        assert_eq!(group.cause.side, CauseSide::Undo);
        assert_eq!(group.cause.origin.status, Some(402));
    }

    fn line(no: u32, failure: Option<Failure>) -> TaskLine {
        TaskLine {
            task: TaskId(uuid::Uuid::from_u128(u128::from(no))),
            tenant: counterstep_contracts::Tenant::default(),
            task_type: "Order".to_owned(),
            version: 1,
            status: TaskStatus::CompensationFailed,
            rev: counterstep_contracts::Rev(1),
            failure,
            residue: false,
            labels: counterstep_contracts::Labels::default(),
            created_at: DbTime(0),
            updated_at: DbTime(0),
            finished_at: None,
        }
    }

    #[test]
    fn what_blocks_a_task_is_its_cause_and_what_turned_it_is_not() {
        let by = |status, turned: &str| {
            let by = refused("bank", status, 7).of_task("charge", Direction::Undo);
            let turned = Failure {
                step: Some("ship".to_owned()),
                class: "permanent".to_owned(),
                message: turned.to_owned(),
                side: Some(Direction::Forward),
                origin: None,
                blocked_by: Some(Box::new(by)),
            };
            group_of("Order", Some(&turned))
        };
        assert_eq!(by(402, "no stock"), by(402, "the address is unknown"));
        assert_ne!(by(402, "no stock"), by(403, "no stock"));
    }

    #[test]
    fn a_row_of_an_older_program_has_an_unknown_cause_and_its_former_id_is_known() {
        let text = r#"{"step":"charge","class":"permanent","message":"POST /a of the service `bank`: the answer 402 `x`"}"#;
        let failure: Failure = serde_json::from_str(text).expect("a failure");
        let key = GroupKey::of("Order", Some(&failure));
        assert_eq!(key.cause.side, CauseSide::Unknown);
        assert_eq!(key.cause.step.as_deref(), Some("charge"));
        assert_eq!(key.text, "POST /a of the service `bank`: the answer # `x`");
        // As the program before gave it.
        let parts = [
            Some("Order"),
            Some("charge"),
            Some("permanent"),
            Some("POST /a of the service `#`: the answer # `#`"),
        ];
        assert_eq!(former_group_of("Order", Some(&failure)), id_of(&parts));
        assert_ne!(key.id(), id_of(&parts));
        let none = former_group_of("Order", None);
        assert_eq!(none, id_of(&[Some("Order"), None, None, Some("")]));
    }

    #[test]
    fn a_code_of_a_problem_document_is_a_cause_whatever_its_text() {
        let of = |code: &str, detail: &str| {
            let body = format!(r#"{{"type":"about:blank","code":"{code}","detail":"{detail}"}}"#);
            let error = StepError::permanent(format_args!(
                "POST /a of the service `bank`: the answer 422 `{body}`"
            ));
            let origin = Origin::call("bank", "POST").answered(422, body.as_bytes());
            let failure = StepFailure::from(&error.about(origin));
            group_of(
                "Order",
                Some(&failure.of_task("charge", Direction::Forward)),
            )
        };
        assert_eq!(of("frozen", "kim is frozen"), of("frozen", "sam is frozen"));
        assert_ne!(of("frozen", "kim"), of("closed", "kim"));
    }
}

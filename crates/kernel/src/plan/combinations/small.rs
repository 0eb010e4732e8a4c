//! What all parts of the generator use: chance, the words of a failed case, and first rows.

use crate::change::transition::{LeaseChange, Time};
use crate::draft::{Draft, NewTask};
use crate::record::{DbTime, TaskRecord};
use crate::saga::Illegal;
use counterstep_contracts::{Labels, ParentRef, TaskId, Tenant};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// How long waits for signals and tasks may take, and long retries.
pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// The database's time at the start of a case.
pub(super) const START: DbTime = DbTime(1_000_000_000);

/// Names of steps, in order.
pub(super) const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A property that does not hold, as text.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl From<Illegal> for Broken {
    fn from(illegal: Illegal) -> Self {
        Self(format!(
            "the planner decides what the judge refuses: {illegal}"
        ))
    }
}

/// Says that a property does not hold.
pub(super) fn broken<T>(what: impl fmt::Display) -> Result<T, Broken> {
    Err(Broken(what.to_string()))
}

/// A small generator of pseudo-random numbers (SplitMix64): the same cases on every machine.
#[derive(Debug)]
pub(super) struct Chance(u64);

impl Chance {
    pub(super) const fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..below`.
    pub(super) fn below(&mut self, below: usize) -> usize {
        let below = u64::try_from(below).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % below).unwrap_or_default()
    }

    /// True in `percent` of a hundred cases.
    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A task that is to be submitted. Its request is a number, which an edit raises.
pub(super) fn new_task(id: u128, request: u64, parent: Option<ParentRef>) -> NewTask {
    NewTask {
        id: TaskId(uuid::Uuid::from_u128(id)),
        tenant: Tenant::default(),
        request: json!(request),
        client_key: None,
        traceparent: None,
        labels: Labels::new(),
        parent,
        webhook: None,
        place_key: None,
    }
}

/// An output of its own number, with a scratch file where the step makes one.
pub(super) fn output(task: TaskId, step: &str, number: u64, scratch: bool) -> Value {
    if !scratch {
        return json!(number);
    }
    let hash = format!("{number:064x}");
    let file =
        json!({"name": "a.bin", "size_bytes": 3, "sha256": hash, "task": task, "step": step});
    json!({ "$scratch": file })
}

/// The number of an output.
pub(super) fn number(output: &Value) -> u64 {
    let hash = &output["$scratch"]["sha256"];
    let of_file = || u64::from_str_radix(hash.as_str()?, 16).ok();
    output.as_u64().or_else(of_file).unwrap_or_default()
}

/// The rows as they stand once the change is committed. As `after_commit`, but for the journal, which
/// would take most of the time of a case.
pub(super) fn committed(draft: &Draft) -> TaskRecord {
    let mut record = draft.record().clone();
    let (now, task) = (record.now, &mut record.task);
    let time = |change: Time, was: Option<DbTime>| match change {
        Time::Keep => was,
        Time::Clear => None,
        Time::In(after) => Some(now.later(after)),
    };
    task.rev = task.rev.next();
    task.due_at = time(draft.task.due, task.due_at);
    task.deadline_at = time(draft.task.deadline, task.deadline_at);
    match &draft.task.lease {
        LeaseChange::Keep => {}
        LeaseChange::Take { owner, ttl } => {
            task.lease_owner = Some(owner.clone());
            task.lease_expires_at = Some(now.later(*ttl));
        }
        LeaseChange::Release => (task.lease_owner, task.lease_expires_at) = (None, None),
    }
    record
}

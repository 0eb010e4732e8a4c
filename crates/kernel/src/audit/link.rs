//! What binds an audit entry to the one before it.
//!
//! `link = form ‖ SHA-256(form ‖ before ‖ all that the entry says)`, and `seal = SHA-256(link ‖ time)`. The kernel makes
//! links, before a change is committed; the database makes seals while it is, because the time is its own. `before` is,
//! for the first entry of a change, the seal of the last entry of the change before it, so that the time of that one is
//! bound too; within a change it is the link before, since all its entries have one time.

use crate::ports::SealedEntry;
use crate::record::DbTime;
use crate::transition::AuditEntry;
use counterstep_contracts::{ChangeId, TaskId};
use sha2::{Digest, Sha256};
use std::fmt;

/// The form of what is hashed. It is the first byte of each link, so that entries of an older form stay verifiable when
/// an entry comes to say more.
const FORM: u8 = 1;

/// Microseconds from 1970 to 2000.
// The time is hashed as PostgreSQL sends it, in microseconds since 2000: there it costs one built-in function.
const EPOCH_2000: i64 = 946_684_800_000_000;

/// Binds what an entry says to all that came before it: a byte for the form, and 32 of SHA-256. What was read from a row
/// may be anything.
#[derive(Clone, PartialEq, Eq)]
pub struct Link(pub Vec<u8>);

/// Binds an entry and its time to all that came before it: 32 bytes of SHA-256. What was read from a row may be anything;
/// the next entry is bound to it as it stands, so that a damaged row never keeps a task from going on.
#[derive(Clone, PartialEq, Eq)]
pub struct Seal(pub Vec<u8>);

macro_rules! as_hex {
    ($($name:ident)+) => {
        $(impl fmt::Display for $name {
            /// Lower-case hexadecimal digits.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        })+
    };
}
as_hex!(Link Seal);

/// All that an entry says but its time, as the texts and numbers that its row holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Its task's id.
    pub task: &'a str,
    /// Its place.
    pub seq: i64,
    /// The id of its change.
    pub change_id: &'a str,
    /// The event's name.
    pub event: &'a str,
    /// The task's state before.
    pub from: Option<&'a str>,
    /// The task's state after.
    pub to: &'a str,
    /// The step concerned.
    pub step: Option<i64>,
    /// Its state before.
    pub step_from: Option<&'a str>,
    /// Its state after.
    pub step_to: Option<&'a str>,
    /// The attempt concerned.
    pub attempt: Option<i64>,
    /// The epoch after the event.
    pub epoch: i64,
    /// Who caused it.
    pub actor: &'a str,
    /// More, as the JSON text in the row: a column of text gives it back to the byte.
    pub details: &'a str,
}

impl<'a> From<&'a SealedEntry> for Facts<'a> {
    fn from(entry: &'a SealedEntry) -> Self {
        Self {
            task: &entry.task,
            seq: entry.seq,
            change_id: &entry.change_id,
            event: &entry.event,
            from: entry.from.as_deref(),
            to: &entry.to,
            step: entry.step,
            step_from: entry.step_from.as_deref(),
            step_to: entry.step_to.as_deref(),
            attempt: entry.attempt,
            epoch: entry.epoch,
            actor: &entry.actor,
            details: &entry.details,
        }
    }
}

/// Each part with its length before it, so that no two entries are the same bytes; one that is not there differs from an
/// empty one.
pub(crate) struct Parts(pub(crate) Sha256);

impl Parts {
    pub(crate) fn some(&mut self, part: Option<&[u8]>) {
        match part {
            None => self.0.update([0]),
            Some(part) => {
                self.0.update([1]);
                self.0.update((part.len() as u64).to_be_bytes());
                self.0.update(part);
            }
        }
    }

    pub(crate) fn text(&mut self, part: &str) {
        self.some(Some(part.as_bytes()));
    }

    fn some_text(&mut self, part: Option<&str>) {
        self.some(part.map(str::as_bytes));
    }

    pub(crate) fn number(&mut self, part: i64) {
        self.some(Some(&part.to_be_bytes()));
    }

    fn some_number(&mut self, part: Option<i64>) {
        self.some(part.map(i64::to_be_bytes).as_ref().map(<[u8; 8]>::as_slice));
    }
}

/// What stands in for a seal before the first entry of a chain: of a new task, or of one whose entries up to `seq` were
/// written by a program that made no chains.
#[must_use]
pub fn origin(task: &str, seq: i64) -> Seal {
    let mut parts = Parts(Sha256::new_with_prefix(b"counterstep audit chain"));
    parts.text(task);
    parts.number(seq);
    Seal(parts.0.finalize().to_vec())
}

/// The link of an entry; `before` as this module says.
#[must_use]
pub fn link(before: &[u8], facts: &Facts<'_>) -> Link {
    let mut parts = Parts(Sha256::new_with_prefix(b"counterstep audit entry"));
    parts.0.update([FORM]);
    parts.some(Some(before));
    parts.text(facts.task);
    parts.number(facts.seq);
    parts.text(facts.change_id);
    parts.text(facts.event);
    parts.some_text(facts.from);
    parts.text(facts.to);
    parts.some_number(facts.step);
    parts.some_text(facts.step_from);
    parts.some_text(facts.step_to);
    parts.some_number(facts.attempt);
    parts.number(facts.epoch);
    parts.text(facts.actor);
    parts.text(facts.details);
    let mut bytes = Vec::with_capacity(33);
    bytes.push(FORM);
    bytes.extend_from_slice(&parts.0.finalize());
    Link(bytes)
}

/// The seal of an entry. In PostgreSQL: `sha256(link || timestamptz_send(at))`.
#[must_use]
pub fn seal(link: &[u8], at: DbTime) -> Seal {
    let mut hash = Sha256::new_with_prefix(link);
    hash.update(at.0.saturating_sub(EPOCH_2000).to_be_bytes());
    Seal(hash.finalize().to_vec())
}

/// Gives the entries of one change their links. `head`: the seal of the task's last entry, where it has one.
pub fn chain(task: TaskId, change: ChangeId, head: Option<&Seal>, entries: &mut [AuditEntry]) {
    let Some(first) = entries.first() else { return };
    let (task, change) = (task.to_string(), change.to_string());
    let mut before = match head {
        Some(seal) => seal.0.clone(),
        None => origin(&task, first.seq.0.saturating_sub(1)).0,
    };
    for entry in entries {
        // The same text as in the column: an adapter writes a value as `serde_json` does, keys in order.
        let details = entry.details.to_string();
        let facts = Facts {
            task: &task,
            seq: entry.seq.0,
            change_id: &change,
            event: &entry.event,
            from: entry.from.map(|status| status.as_str()),
            to: entry.to.as_str(),
            step: entry.step.map(|no| no.0.into()),
            step_from: entry.step_from.map(|status| status.as_str()),
            step_to: entry.step_to.map(|status| status.as_str()),
            attempt: entry.attempt.map(|attempt| attempt.0.into()),
            epoch: entry.epoch.0,
            actor: &entry.actor,
            details: &details,
        };
        let link = link(&before, &facts);
        before.clone_from(&link.0);
        entry.link = Some(link);
    }
}

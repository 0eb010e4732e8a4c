//! What a row of the journal is bound by.
//!
//! `link = form ‖ SHA-256(form ‖ before ‖ all that the row says but its time and its data)`, and
//! `seal = SHA-256(link ‖ time)`. The kernel makes links, before a change is committed; the
//! database makes seals while it is, because the time is its own. `before` is the seal of the row
//! before. The digest of the data stands in the entries.

use crate::times::DbTime;
use sha2::{Digest, Sha256};
use std::fmt;

/// The form of what is hashed, and the first byte of each link: rows of an older form stay
/// verifiable when a row comes to say more.
const FORM: u8 = 2;

/// Microseconds from 1970 to 2000.
// The time is hashed as PostgreSQL sends it, in microseconds since 2000: there it costs one
// built-in function.
const EPOCH_2000: i64 = 946_684_800_000_000;

/// Binds what a row says to all that came before it: a byte for the form, and 32 of SHA-256. What
/// was read from a row may be anything.
#[derive(Clone, PartialEq, Eq)]
pub struct ContentHash(pub Vec<u8>);

/// Binds a row and its time to all that came before it: 32 bytes of SHA-256. What was read from a
/// row may be anything; the next row is bound to it as it stands, so that a damaged row never keeps
/// a task from going on.
#[derive(Clone, PartialEq, Eq)]
pub struct EntryHash(pub Vec<u8>);

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
as_hex!(ContentHash EntryHash);

/// All that a row says but its time and its data, as the texts and numbers that its columns hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    /// Its task's id.
    pub task: &'a str,
    /// Its place: the revision that the change made.
    pub rev: i64,
    /// The id of its change.
    pub change_id: &'a str,
    /// The task's epoch after the change.
    pub epoch: i64,
    /// Actor that caused it.
    pub actor: &'a str,
    /// The form of its texts.
    pub form: i64,
    /// What happened, as the JSON text in the row.
    pub entries: &'a str,
}

/// Each part with its length before it, so that no two rows are the same bytes.
struct Parts(Sha256);

impl Parts {
    fn bytes(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part);
    }

    fn text(&mut self, part: &str) {
        self.bytes(part.as_bytes());
    }

    fn number(&mut self, part: i64) {
        self.bytes(&part.to_be_bytes());
    }
}

/// What stands in for a seal before the first row of a task.
#[must_use]
pub fn origin(task: &str) -> EntryHash {
    let mut parts = Parts(Sha256::new_with_prefix(b"counterstep journal"));
    parts.text(task);
    EntryHash(parts.0.finalize().to_vec())
}

/// The link of a row; `before`: the seal of the row before it, or the origin.
#[must_use]
pub fn link(before: &[u8], facts: &Facts<'_>) -> ContentHash {
    let mut parts = Parts(Sha256::new_with_prefix(b"counterstep journal row"));
    parts.0.update([FORM]);
    parts.bytes(before);
    parts.text(facts.task);
    parts.number(facts.rev);
    parts.text(facts.change_id);
    parts.number(facts.epoch);
    parts.text(facts.actor);
    parts.number(facts.form);
    parts.text(facts.entries);
    let mut bytes = Vec::with_capacity(33);
    bytes.push(FORM);
    bytes.extend_from_slice(&parts.0.finalize());
    ContentHash(bytes)
}

/// The seal of a row. In PostgreSQL: `sha256(link || timestamptz_send(at))`.
#[must_use]
pub fn seal(link: &[u8], at: DbTime) -> EntryHash {
    let mut hash = Sha256::new_with_prefix(link);
    hash.update(at.0.saturating_sub(EPOCH_2000).to_be_bytes());
    EntryHash(hash.finalize().to_vec())
}

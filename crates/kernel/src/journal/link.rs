//! What binds a row of the journal to the rows before it.
//!
//! `link = form ‖ SHA-256(form ‖ before ‖ all that the row says but its time and its data)`, and `seal = SHA-256(link ‖
//! time)`. The kernel makes links, before a change is committed; the database makes seals while it is, because the time is
//! its own. `before` is the seal of the row before. The digest of the data stands in the entries.

use crate::audit::{Link, Parts};
use counterstep_contracts::{ChangeId, Epoch, Rev, TaskId};
use sha2::{Digest, Sha256};

/// All that a row says but its time and its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowFacts<'a> {
    /// Its task.
    pub task: TaskId,
    /// Its place.
    pub rev: Rev,
    /// The task's epoch after the change.
    pub epoch: Epoch,
    /// The change.
    pub change_id: ChangeId,
    /// Who caused it.
    pub actor: &'a str,
    /// The form of its texts.
    pub form: i16,
    /// What happened, to the byte.
    pub entries: &'a str,
}

/// The form of what is hashed, and the first byte of each link: rows of an older form stay verifiable when a row comes to
/// say more.
const LINK_FORM: u8 = 2;

/// The link of a row behind the one with the seal `before`; `None`: it is the first one.
#[must_use]
pub fn row_link(before: Option<&[u8]>, row: &RowFacts<'_>) -> Link {
    let mut parts = Parts(Sha256::new_with_prefix(b"counterstep journal row"));
    parts.0.update([LINK_FORM]);
    parts.some(before);
    parts.some(Some(row.task.0.as_bytes()));
    parts.number(row.rev.0);
    parts.number(row.epoch.0);
    parts.some(Some(row.change_id.0.as_bytes()));
    parts.text(row.actor);
    parts.number(row.form.into());
    parts.text(row.entries);
    let mut bytes = Vec::with_capacity(33);
    bytes.push(LINK_FORM);
    bytes.extend_from_slice(&parts.0.finalize());
    Link(bytes)
}

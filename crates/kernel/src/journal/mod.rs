//! The journal of a task: one row for each of its changes, append-only. Writes a change as a row
//! ([`Transition::with_journal`](crate::change::transition::Transition::with_journal)) and reads rows back
//! as the state and the past of the task ([`Fold`]). Must not judge: a row that was written counts,
//! whatever the rules of today say of it.
//!
//! A row has two texts. `entries` says what happened: the events with the states before and after,
//! the attempts that started and ended, and the fields that changed otherwise. `data` holds what
//! clients and steps handed in: the request, outputs, signals, the response. `entries` holds the
//! SHA-256 of `data` and the link of the row binds `entries`, so `data` can be erased and the chain
//! still verifies.

mod body;
mod encrypted;
mod fold;
mod implied;
mod past;
mod patch;
mod plaintext;
pub mod trail;
mod walk;
mod write;

pub use body::{Named, named};
pub(crate) use fold::is_digest_of;
pub use fold::{Fold, JournalError, JournalRow};
pub use past::task_at;
pub use plaintext::plaintext_in;
pub use walk::JournalWalk;
pub(crate) use walk::{history, short_past};

/// The form of the rows that this program writes. A row of a newer form is left alone. In form 1
/// the name of an event implied nothing; it is read as ever. Up to form 2 an error was one text; a
/// row of these that has one is refused.
pub const FORM: i16 = 3;

/// Under this the details of [`SUBMITTED`] say the task's labels.
pub(crate) const LABELS: &str = "labels";

/// The first event of every task.
const SUBMITTED: &str = "submitted";

/// With this event the response of a task does not count any more.
const PARENT_UNDONE: &str = "parent_undone";

/// From this form on the name of an event implies what [`implied`] says.
const IMPLIES: i16 = 2;

//! Server-sent events of tasks. Owns what is read for a stream and when, and what it writes; the
//! entries themselves are the journal's. Must not hold more of a task than one page of its journal.

mod changes;
mod feed;
mod followed;
mod frame;
mod stream;
mod tail;

pub(crate) use changes::{ChangeStream, Filter};
pub(crate) use followed::{Events, FollowedTasks};
pub(crate) use stream::EventStream;

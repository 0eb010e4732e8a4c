//! The chain of a task's journal: how each row is bound to all that came before it, whether a chain
//! is whole, and what is wrong with one that is not. Pure but for [`verify`](verify()), which reads
//! the rows page by page. Must not repair anything.

mod damage;
mod finding;
mod link;
mod verify;
mod walk;

pub use damage::diagnose;
pub use finding::{Damage, Finding, one_line};
pub use link::{Facts, Link, Seal, link, origin, seal};
pub(crate) use verify::Check;
pub use verify::{Copied, Scope, Verified, verify};
pub use walk::Walk;

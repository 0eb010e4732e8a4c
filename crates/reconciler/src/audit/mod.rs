//! The check of the chains of tasks' journals: whether a chain is whole, and what is wrong with one
//! that is not. Pure but for [`verify`](verify()), which reads the rows page by page. Must not
//! repair anything.

mod admin;
mod damage;
mod finding;
mod verify;

pub use admin::admin_head;
pub use counterstep_kernel::audit::Walk;
pub use damage::diagnose;
pub use finding::{Damage, Finding, Part};
pub(crate) use verify::Check;
pub use verify::{Copied, Scope, Verified, verify};

//! Steps in processes of their own: this program once more, told by a variable of its environment to run
//! the code of one attempt and nothing else.
//!
//! Such a process holds no lease, no connection and no setting. It gets its step over a socket, and what
//! its code asks of the context goes back over it: the process that runs the task stores its objects,
//! calls its services, keeps its lines and its progress. So it needs no secret, and its end is the
//! failure of one attempt, whatever ends it.
//!
//! Between the two stands a supervisor, the same program again, which starts the process with its protections and
//! ends what it leaves.

mod child;
mod frame;
mod memory;
mod parent;
mod process;
mod protection;
mod remote;
mod role;
mod supervisor;
mod system_calls;

pub use child::run_if_asked;
pub use frame::LogSettings;
pub use parent::{ChildProcesses, is_prepared};
pub use protection::{Lack, Protection, hide_memory, lacks};

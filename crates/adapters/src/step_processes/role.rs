//! What the program is told when it is started for a step: as whose process, and over which socket. Must not start anything.

use super::protection::Protection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Set in the environment of a process of a step and of its supervisor, to its [`Role`].
pub(super) const MARK: &str = "COUNTERSTEP_STEP_PROCESS";

/// What this program is when it is started for a step: the value of [`MARK`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Role {
    Supervisor(Plan),
    Step {
        /// The process that has started it.
        supervisor: i32,
        /// Whether others may read its memory.
        is_dumpable: bool,
    },
}

/// How to start a step.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The process that runs the task.
    pub(super) host: i32,
    /// What lists of processes show.
    pub(super) name: String,
    /// Scratch of its task.
    pub(super) of_task: PathBuf,
    /// Scratch of the step.
    pub(super) own: PathBuf,
    /// What else it reads.
    pub(super) readable: Vec<PathBuf>,
    /// What it is not protected by.
    pub(super) without: BTreeSet<Protection>,
}

/// The socket to the host. The code of the step finds nothing to read where it was.
pub(super) fn take_socket() -> io::Result<UnixStream> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(socket)
}

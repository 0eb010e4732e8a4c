//! The supervisor of a step's process as the host sees it: started, and waited for. It ends by itself, with all that the step
//! has started, once the step has ended or the host has closed its end of the socket.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// How long a supervisor may take to end what its step has left, and itself.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Pause between two checks whether it has ended.
const LOOK: Duration = Duration::from_millis(2);

/// A supervisor that runs. To be dropped after the socket.
#[derive(Debug)]
pub(super) struct StepProcess {
    /// `None` once it is waited for.
    child: Option<Child>,
}

impl StepProcess {
    /// Starts a supervisor, in a group of its own.
    pub(super) async fn start(mut command: Command) -> io::Result<Self> {
        command.process_group(0);
        let spawn = move || command.spawn().map(|child| Self { child: Some(child) });
        spawn_blocking(spawn).await.map_err(io::Error::other)?
    }

    /// How it ended: as its step. It has closed its socket.
    pub(super) async fn ended(mut self) -> io::Result<ExitStatus> {
        let Some(child) = self.child.take() else {
            return Err(io::Error::other("it was waited for before"));
        };
        let ended = wait_for(child)?;
        let gone = |_| io::Error::other("the thread that waited for it is gone");
        ended.await.map_err(gone)?
    }
}

impl Drop for StepProcess {
    fn drop(&mut self) {
        if let Some(child) = self.child.take()
            && let Err(error) = wait_for(child)
        {
            tracing::warn!(%error, "a process of a step is not waited for");
        }
    }
}

/// Waits for a supervisor on a thread. Killed where it takes too long, the system kills its step, and what that has
/// started goes on.
fn wait_for(mut child: Child) -> io::Result<oneshot::Receiver<io::Result<ExitStatus>>> {
    let (reply, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("step-process-end".to_owned())
        .spawn(move || {
            let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let since = Instant::now();
            while !has_ended(id) {
                if since.elapsed() > ENDS_WITHIN {
                    tracing::warn!(
                        process = child.id(),
                        "the supervisor of a step does not end, and is killed: what the step has started may go on"
                    );
                    break;
                }
                std::thread::sleep(LOOK);
            }
            // Before it is waited for, since its id may be another's after that. Where the group is gone, there is nothing to kill.
            if let Some(id) = id {
                let _ = kill_process_group(id, Signal::KILL);
            }
            let _ = reply.send(child.wait());
        })?;
    Ok(ended)
}

/// Whether a process has ended and waits to be waited for.
fn has_ended(process: Option<Pid>) -> bool {
    let Some(id) = process else { return true };
    let looks = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(id), looks), Ok(None))
}

/// How a process ended, as text.
pub(super) fn words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => {
            let name = match signal {
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("by signal {signal}{name}")
        }
        (None, None) => "for a reason that the system does not say".to_owned(),
    }
}

//! A process of a step as the one that has started it sees it: started, killed with all that it has
//! started itself, and waited for.

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// A process that has nothing more to say may take so long to end.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Between two looks whether it has.
const LOOK: Duration = Duration::from_millis(2);

type Job = (Command, oneshot::Sender<io::Result<StepProcess>>);

/// The thread that starts the processes. It lives as long as this process: the system ends a process whose
/// parent is gone by the thread that has started it.
fn starter() -> io::Result<&'static Sender<Job>> {
    static STARTER: OnceLock<Sender<Job>> = OnceLock::new();
    if let Some(starter) = STARTER.get() {
        return Ok(starter);
    }
    let (to, jobs) = channel::<Job>();
    std::thread::Builder::new()
        .name("step-processes".to_owned())
        .spawn(move || {
            for (mut command, reply) in jobs {
                let started = command
                    .spawn()
                    .map(|child| StepProcess { child: Some(child) });
                // Where nothing waits for it any more, before or after this, it is dropped, and so killed.
                let _ = reply.send(started);
            }
        })?;
    // Another caller may have been faster: its thread is used, and this one ends.
    Ok(STARTER.get_or_init(|| to))
}

/// A process that runs. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct StepProcess {
    /// `None` once it is waited for.
    child: Option<Child>,
}

impl StepProcess {
    /// Starts a process, in a group of its own.
    pub(super) async fn start(mut command: Command) -> io::Result<Self> {
        command.process_group(0);
        let (reply, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes is gone");
        starter()?.send((command, reply)).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }

    pub(super) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// How it ended. It has closed its socket: killed where it does not end by itself.
    pub(super) async fn ended(mut self) -> io::Result<ExitStatus> {
        let Some(child) = self.child.take() else {
            return Err(io::Error::other("it was waited for before"));
        };
        let ended = wait_for(child, ENDS_WITHIN)?;
        let gone = |_| io::Error::other("the thread that waited for it is gone");
        ended.await.map_err(gone)?
    }
}

impl Drop for StepProcess {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            end(child);
        }
    }
}

/// Kills a process with all that it has started.
fn end(child: Child) {
    kill(child.id());
    if let Err(error) = wait_for(child, Duration::ZERO) {
        tracing::warn!(%error, "a process of a step is not waited for");
    }
}

/// Waits for a process on a thread, and kills it where it takes longer than this. With it goes all that it
/// has started: before it is waited for, since its id may be another's after that.
fn wait_for(
    mut child: Child,
    patience: Duration,
) -> io::Result<oneshot::Receiver<io::Result<ExitStatus>>> {
    let (reply, ended) = oneshot::channel();
    std::thread::Builder::new()
        .name("step-process-end".to_owned())
        .spawn(move || {
            let id = child.id();
            let since = Instant::now();
            while since.elapsed() < patience && !has_ended(id) {
                std::thread::sleep(LOOK);
            }
            kill(id);
            let _ = reply.send(child.wait());
        })?;
    Ok(ended)
}

/// Whether a process has ended and waits to be waited for.
fn has_ended(process: u32) -> bool {
    let Some(id) = pid(process) else { return true };
    let looks = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(id), looks), Ok(None))
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

fn kill(process: u32) {
    // Where the group is gone, there is nothing to kill.
    if let Some(id) = pid(process) {
        let _ = kill_process_group(id, Signal::KILL);
    }
}

/// How a process ended, in words.
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

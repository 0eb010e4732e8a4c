//! Between a host and the process of a step: starts that one with its protections, and ends whatever it has started
//! once it has ended, or its host has. It takes no part in what the two say to each other.

use super::memory;
use super::protection::{self, Files, Protection};
use super::role::{MARK, Plan, Role, take_socket};
use super::system_calls;
use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpid, getppid, kill_process,
    kill_process_group, set_child_subreaper, wait, waitid, waitpid,
};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two checks for processes that have ended beside the step.
const LOOK: Duration = Duration::from_secs(1);

/// Pause between two checks whether killed processes have ended.
const ENDS: Duration = Duration::from_millis(1);

/// The process of the step, until it is waited for: its id may be another's after that.
type Running = Mutex<Option<Pid>>;

fn locked(running: &Running) -> MutexGuard<'_, Option<Pid>> {
    running.lock()
}

/// Runs a step to its end, and gives the exit code to end with. Where a signal ended it, the same ends this process.
pub(super) fn run(plan: Plan) -> io::Result<u8> {
    let gone = || io::Error::other("the process that has started it is gone");
    if getppid() != Pid::from_raw(plan.host) {
        return Err(gone());
    }
    // Before its files below `/proc` become root's. The step has it from here.
    memory::goes_first();
    if !plan.without.contains(&Protection::Dumpable) {
        protection::hide_memory()?;
    }
    let is_subreaper = !plan.without.contains(&Protection::Subreaper);
    if is_subreaper {
        set_child_subreaper(Some(getpid()))?;
    }
    let socket = take_socket()?;
    if is_hung_up(&socket, Duration::ZERO)? {
        return Err(gone());
    }
    let temporary = plan.own.join(format!("tmp-{}", std::process::id()));
    std::fs::create_dir_all(&temporary)?;
    let temporary = temporary.canonicalize()?;
    let step = start(plan, temporary.clone(), socket.try_clone()?)?;
    let running = Arc::new(Mutex::new(Some(step)));
    let watched = running.clone();
    std::thread::Builder::new()
        .name("step-host".to_owned())
        .spawn(move || watch(&socket, &watched))?;
    let over = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(step), over), Err(Errno::INTR)) {}
    let status = {
        let mut running = locked(&running);
        let _ = kill_process_group(step, Signal::KILL);
        *running = None;
        waitpid(Some(step), WaitOptions::empty())?
    };
    if is_subreaper {
        end_the_rest();
    }
    // What it had there may be gone already.
    let _ = std::fs::remove_dir_all(&temporary);
    Ok(status.map_or(1, |(_, status)| end_as(status)))
}

/// Starts the step on a thread that is restricted, and that lives as long as this process: what ends one of
/// them ends the step too.
fn start(plan: Plan, temporary: PathBuf, socket: UnixStream) -> io::Result<Pid> {
    let role = Role::Step {
        supervisor: getpid().as_raw_nonzero().get(),
        is_dumpable: plan.without.contains(&Protection::Dumpable),
    };
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0(&plan.name)
        .env(MARK, serde_json::to_string(&role)?)
        .env("TMPDIR", temporary)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .process_group(0);
    let (reply, started) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .name("step-start".to_owned())
        .spawn(move || {
            let _ = reply.send(spawn(&plan, command));
            loop {
                std::thread::park();
            }
        })?;
    let gone = |_| io::Error::other("the thread that starts it is gone");
    started.recv().map_err(gone)?
}

fn spawn(plan: &Plan, mut command: Command) -> io::Result<Pid> {
    if !plan.without.contains(&Protection::NoNewPrivs) {
        rustix::thread::set_no_new_privs(true)?;
    }
    if !plan.without.contains(&Protection::Landlock) {
        protection::restrict(&Files {
            of_task: &plan.of_task,
            own: &plan.own,
            more: &plan.readable,
        })?;
    }
    if !plan.without.contains(&Protection::Seccomp) {
        system_calls::restrict()?;
    }
    let child = command.spawn()?;
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    id.ok_or_else(|| io::Error::other("it has no id"))
}

/// Kills the step once its host has closed the socket, or has ended. Until then, takes note of the ends of what the step
/// has started and left.
fn watch(socket: &UnixStream, running: &Running) {
    while let Ok(false) = is_hung_up(socket, LOOK) {
        for child in children() {
            let running = locked(running);
            if running.is_some_and(|step| step != child) {
                let _ = waitpid(Some(child), WaitOptions::NOHANG);
            }
        }
    }
    if let Some(step) = *locked(running) {
        let _ = kill_process_group(step, Signal::KILL);
    }
}

/// Whether the other end is closed, or will be within this time.
fn is_hung_up(socket: &UnixStream, within: Duration) -> io::Result<bool> {
    let within = Timespec::try_from(within).map_err(io::Error::other)?;
    // Always told of: that it is hung up. What can be read is the step's.
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    match poll(&mut fds, Some(&within)) {
        Ok(0) | Err(Errno::INTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Ends all that the step has left, and what is left of that: children of a process that ends become children of
/// this one.
fn end_the_rest() {
    loop {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        for child in children() {
            let _ = kill_process(child, Signal::KILL);
        }
        std::thread::sleep(ENDS);
    }
}

/// The children of this process, of each of its threads.
fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let mut all = Vec::new();
    for thread in threads.flatten() {
        let children = std::fs::read_to_string(thread.path().join("children"));
        let children = children.unwrap_or_default();
        let ids = children.split_whitespace().flat_map(str::parse);
        all.extend(ids.filter_map(Pid::from_raw));
    }
    all
}

/// The exit code of the step, or the end by its signal.
fn end_as(status: WaitStatus) -> u8 {
    let Some(signal) = status.terminating_signal() else {
        let code = status.exit_status().unwrap_or(1);
        return u8::try_from(code).unwrap_or(1);
    };
    if let Some(signal) = Signal::from_named_raw(signal) {
        // Twice: at the first one the standard library only takes its own handler away.
        for _ in 0..2 {
            let _ = kill_process(getpid(), signal);
        }
        // It may come on another thread.
        std::thread::sleep(Duration::from_millis(100));
    }
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX))
}

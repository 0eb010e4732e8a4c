//! System calls that a step has no use for in its own process, and that reach others of its user: a filter (seccomp) refuses them.
//! Files are no matter of it; Landlock knows those.

use libc::{c_int, c_long};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};
use std::collections::BTreeMap;
use std::io;

/// A process in `ioprio_set`; `libc` has no name for it.
const IOPRIO_WHO_PROCESS: c_int = 1;

/// System V IPC, POSIX message queues and the keyring: objects of the user, which outlive the process. Most of the calls take an
/// id that `/proc` shows.
const OF_THE_USER: [c_long; 16] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
];

/// The first argument is a thread, or 0 for the caller.
const BY_THREAD: [c_long; 4] = [
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// The first argument names what the second one is the id of: a process, a group, a user.
const BY_KIND_AND_ID: [(c_long, c_int); 2] = [
    (libc::SYS_setpriority, libc::PRIO_PROCESS as c_int),
    (libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS),
];

/// A second table of calls that some kernels for this processor have (x32).
const SECOND_TABLE: c_long = if cfg!(target_arch = "x86_64") {
    0x4000_0000
} else {
    0
};

/// Restricts this thread, and all that it starts from now on. It cannot be taken back, and takes from the thread the
/// rights that other programs would give it (`no_new_privs`).
pub(super) fn restrict() -> io::Result<()> {
    let failed = |error: &dyn std::fmt::Display| io::Error::other(format!("seccomp: {error}"));
    let program = program().map_err(|error| failed(&error))?;
    apply_filter(&program).map_err(|error| failed(&error))
}

fn program() -> Result<BpfProgram, seccompiler::BackendError> {
    let is_not = |argument, value: c_int| {
        let value = u64::from(value.unsigned_abs());
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value)
    };
    let mut rules = BTreeMap::new();
    let mut refuse = |call: c_long, when: Vec<SeccompRule>| {
        rules.insert(call | SECOND_TABLE, when.clone());
        rules.insert(call, when);
    };
    for call in OF_THE_USER {
        refuse(call, Vec::new());
    }
    for call in BY_THREAD {
        refuse(call, vec![SeccompRule::new(vec![is_not(0, 0)?])?]);
    }
    // Limits of others may be read.
    let is_set = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let sets = SeccompRule::new(vec![is_not(0, 0)?, is_set])?;
    refuse(libc::SYS_prlimit64, vec![sets]);
    for (call, process) in BY_KIND_AND_ID {
        let of_others = [is_not(0, process)?, is_not(1, 0)?];
        let rules = of_others.map(|it| SeccompRule::new(vec![it]));
        refuse(call, rules.into_iter().collect::<Result<_, _>>()?);
    }
    SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        TargetArch::try_from(std::env::consts::ARCH)?,
    )?
    .try_into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{
        Pid, Resource, Rlimit, getpid, getppid, getpriority_process, getrlimit, prlimit,
        setpriority_process,
    };

    fn output(program: &str, arguments: &[&str]) -> std::process::Output {
        let output = std::process::Command::new(program).args(arguments).output();
        output.expect("it runs")
    }

    fn ran(program: &str, arguments: &[&str]) -> bool {
        output(program, arguments).status.success()
    }

    #[test]
    fn a_restricted_thread_changes_its_own_limits_and_no_others() {
        let parent = getppid();
        // Of a process beside the step.
        let made = output("ipcmk", &["-M", "4096"]).stdout;
        let made = String::from_utf8(made).expect("text");
        let shared = made.rsplit(' ').next().expect("an id").trim().to_owned();
        let segment = shared.clone();
        let seen = std::thread::spawn(move || {
            let limits = getrlimit(Resource::Core);
            let priority = getpriority_process(None).expect("its own");
            let read = |pid: Option<Pid>| {
                let pid = pid.expect("a parent").as_raw_nonzero().to_string();
                ran("prlimit", &["--core", "--pid", &pid])
            };
            let change = |pid| prlimit(pid, Resource::Core, Rlimit { ..limits }).is_ok();
            let order = |pid| setpriority_process(pid, priority).is_ok();
            let before = [change(Some(getpid())), order(parent)];
            restrict().expect("restricted");
            let own = [change(None), order(None)];
            let of_others = [change(Some(getpid())), change(parent), order(parent)];
            assert!(ran("ipcmk", &["--version"]), "there is ipcmk");
            let ipc = [ran("ipcmk", &["-Q"]), ran("ipcrm", &["-m", &segment])];
            (before, own, read(parent), of_others, ipc)
        });
        assert_eq!(
            seen.join().expect("its end"),
            ([true; 2], [true; 2], true, [false; 3], [false; 2])
        );
        assert!(ran("ipcrm", &["-m", &shared]), "it was there");
    }
}

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

/// Objects that outlive the process, and that each process of the user can open.
const SHARED: [c_long; 4] = [
    libc::SYS_shmget,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
];

/// The first argument is a thread, or 0 for the caller.
const OF_A_THREAD: [c_long; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// The first argument says what the second one is: a process, a group, a user.
const OF_SOME: [(c_long, c_int); 2] = [
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
    for call in SHARED {
        refuse(call, Vec::new());
    }
    for call in OF_A_THREAD {
        refuse(call, vec![SeccompRule::new(vec![is_not(0, 0)?])?]);
    }
    for (call, process) in OF_SOME {
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
        Resource, Rlimit, getpid, getppid, getpriority_process, getrlimit, prlimit,
        setpriority_process,
    };

    fn ran(arguments: &[&str]) -> bool {
        let output = std::process::Command::new("ipcmk").args(arguments).output();
        output.expect("ipcmk").status.success()
    }

    #[test]
    fn a_restricted_thread_changes_its_own_limits_and_no_others() {
        let parent = getppid();
        let seen = std::thread::spawn(move || {
            let limits = getrlimit(Resource::Core);
            let priority = getpriority_process(None).expect("its own");
            let change = |pid| prlimit(pid, Resource::Core, Rlimit { ..limits }).is_ok();
            let order = |pid| setpriority_process(pid, priority).is_ok();
            let before = [change(Some(getpid())), order(parent)];
            restrict().expect("restricted");
            let own = [change(None), order(None)];
            let of_others = [change(Some(getpid())), change(parent), order(parent)];
            assert!(ran(&["--version"]), "there is ipcmk");
            (before, own, of_others, ran(&["-Q"]))
        });
        assert_eq!(
            seen.join().expect("its end"),
            ([true; 2], [true; 2], [false; 3], false)
        );
    }
}

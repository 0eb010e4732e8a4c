//! What keeps a step in a process of its own from what is not its own: its memory and that of its host, rights through
//! other programs, files, and what it leaves running. Owns which of it the system has; decides no policy.

use super::system_calls;
use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, dumpable_behavior, set_dumpable_behavior};
use rustix::thread::set_no_new_privs;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

/// What is asked of the kernel. An older one gives what it has.
const LEVEL: ABI = ABI::V6;

/// Programs, the libraries of the system, and its data. Read, and started.
const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/run/current-system",
    // This program, also where its file was replaced.
    "/proc/self/exe",
];

/// What programs read of the system, and every user may. Of other processes `/proc` shows no memory, no environment
/// and no files: the kernel asks for the right to trace them, and Landlock refuses it.
const FACTS: [&str; 34] = [
    "/proc",
    "/sys/devices/system",
    "/sys/fs/cgroup",
    "/dev/urandom",
    "/dev/random",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];

/// Read and written.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Variables of the environment that name files or folders to read.
const PATHS: [&str; 3] = ["LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"];

/// One of them, by the name that the kernel has for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    /// Processes of the same user can neither read memory, environment and open files, nor trace.
    Dumpable,
    /// Nothing that a step starts has more rights than it.
    NoNewPrivs,
    /// A step reads the system and its scratch, and writes its scratch.
    Landlock,
    /// A step leaves limits and priority of other processes alone, and no shared memory behind.
    Seccomp,
    /// What a step has started ends with it.
    Subreaper,
}

impl Protection {
    const ALL: [Self; 5] = [
        Self::Dumpable,
        Self::NoNewPrivs,
        Self::Landlock,
        Self::Seccomp,
        Self::Subreaper,
    ];

    /// As settings name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dumpable => "dumpable",
            Self::NoNewPrivs => "no_new_privs",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Subreaper => "subreaper",
        }
    }

    const fn without(self) -> &'static str {
        match self {
            Self::Dumpable => {
                "other processes of this user can read the memory, the environment and the open files of this one; \
                 steps can too, unless Landlock keeps them from it"
            }
            Self::NoNewPrivs => "a step can gain rights through set-user-ID programs",
            Self::Landlock => {
                "a step can read and write every file that this user can, files with secrets too, and end its processes"
            }
            Self::Seccomp => {
                "a step can set limits and priority of every process of this user, which can end them, and leave \
                 System V shared memory behind"
            }
            Self::Subreaper => {
                "a program that a step has started, and that has left its process group (`setsid`), goes on after the step"
            }
        }
    }
}

impl FromStr for Protection {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let named = |it: &Self| it.name() == text;
        Self::ALL.into_iter().find(named).ok_or(())
    }
}

/// A protection that steps do not have here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// Name of the protection.
    pub protection: &'static str,
    /// The reason, as text.
    pub reason: String,
    /// What a step can do without it.
    pub effect: &'static str,
}

/// Keeps the memory, the environment and the open files of this process from others of its user: the kernel lets root
/// alone trace it and read them below `/proc`. It writes no core dumps either.
///
/// # Errors
/// When the kernel refuses.
pub fn hide_memory() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// What steps of this process lack, where these protections are switched off.
#[must_use]
pub fn lacks(off: &BTreeSet<Protection>) -> Vec<Lack> {
    let lack = |protection: Protection, reason: String| Lack {
        protection: protection.name(),
        reason,
        effect: protection.without(),
    };
    let mut lacks: Vec<Lack> = missing(off)
        .into_iter()
        .map(|(protection, reason)| lack(protection, reason))
        .collect();
    if !off.contains(&Protection::Dumpable) && !is_hidden() {
        let reason = "the program has not called `step_process::hide_memory`";
        lacks.push(lack(Protection::Dumpable, reason.to_owned()));
    }
    if system().is_older && !lacks.iter().any(|lack| lack.protection == "landlock") {
        lacks.push(Lack {
            protection: "landlock",
            reason: "the kernel has a part of it; Linux 6.12 has all".to_owned(),
            effect: "a step can end processes of this user, and below Linux 6.2 cut off files that this user can write",
        });
    }
    lacks
}

fn is_hidden() -> bool {
    dumpable_behavior() == Ok(DumpableBehavior::NotDumpable)
}

/// What is left out, and why.
pub(super) fn missing(off: &BTreeSet<Protection>) -> BTreeMap<Protection, String> {
    let mut missing = system().lacks.clone();
    for protection in off {
        missing.insert(
            *protection,
            "switched off by `without_protection`".to_owned(),
        );
    }
    if missing.contains_key(&Protection::NoNewPrivs) {
        for needs_it in [Protection::Landlock, Protection::Seccomp] {
            let reason = || "it needs `no_new_privs`".to_owned();
            missing.entry(needs_it).or_insert_with(reason);
        }
    }
    missing
}

/// What the system does not have.
struct System {
    lacks: BTreeMap<Protection, String>,
    /// Whether it has an older Landlock.
    is_older: bool,
}

/// Asked once: by doing it, on a thread that ends.
fn system() -> &'static System {
    static SYSTEM: OnceLock<System> = OnceLock::new();
    SYSTEM.get_or_init(|| {
        let tries = || {
            let privs = set_no_new_privs(true);
            (privs, apply(&[], &[], None), system_calls::restrict())
        };
        let tried = std::thread::Builder::new()
            .name("step-protection".to_owned())
            .spawn(tries)
            .and_then(|thread| {
                let panicked = |_| io::Error::other("its thread panicked");
                thread.join().map_err(panicked)
            });
        let mut system = System {
            lacks: BTreeMap::new(),
            is_older: false,
        };
        let mut lack = |protection, reason: String| drop(system.lacks.insert(protection, reason));
        match tried {
            Ok((privs, landlock, seccomp)) => {
                if let Err(error) = seccomp {
                    lack(Protection::Seccomp, error.to_string());
                }
                if let Err(error) = privs {
                    lack(Protection::NoNewPrivs, error.to_string());
                }
                match landlock {
                    Ok(RulesetStatus::FullyEnforced) => {}
                    Ok(RulesetStatus::PartiallyEnforced) => system.is_older = true,
                    Ok(RulesetStatus::NotEnforced) => {
                        let reason =
                            "the kernel does not have it (Linux 5.13), has it switched off, or a filter of system calls forbids it";
                        lack(Protection::Landlock, reason.to_owned());
                    }
                    Err(error) => lack(Protection::Landlock, error.to_string()),
                }
            }
            Err(error) => {
                for asked in [Protection::Landlock, Protection::Seccomp] {
                    lack(asked, error.to_string());
                }
            }
        }
        if !Path::new("/proc/thread-self/children").exists() {
            let reason = "the kernel does not show children (CONFIG_PROC_CHILDREN)";
            system
                .lacks
                .insert(Protection::Subreaper, reason.to_owned());
        }
        system
    })
}

/// The files of a step.
pub(super) struct Files<'a> {
    /// Its task's, which it reads.
    pub(super) of_task: &'a Path,
    /// Its own.
    pub(super) own: &'a Path,
    /// What else it reads, and starts.
    pub(super) more: &'a [PathBuf],
}

/// Restricts this thread, and all that it starts from now on. It cannot be taken back.
pub(super) fn restrict(files: &Files<'_>) -> io::Result<()> {
    let named: Vec<PathBuf> = PATHS
        .iter()
        .filter_map(std::env::var_os)
        .flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>())
        .filter(|path| path.is_absolute())
        .collect();
    let run: Vec<&Path> = SYSTEM
        .iter()
        .map(Path::new)
        .chain(named.iter().chain(files.more).map(PathBuf::as_path))
        .collect();
    let read: Vec<&Path> = FACTS.iter().map(Path::new).chain([files.of_task]).collect();
    match apply(&run, &read, Some(files.own))? {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err(io::Error::other("Landlock is gone")),
    }
}

fn apply(run: &[&Path], read: &[&Path], write: Option<&Path>) -> io::Result<RulesetStatus> {
    let all = AccessFs::from_all(LEVEL);
    let reads = AccessFs::ReadFile | AccessFs::ReadDir;
    let build = || -> Result<RulesetStatus, RulesetError> {
        let rules = Ruleset::default()
            .handle_access(all)?
            .scope(Scope::from_all(LEVEL))?
            .create()?
            // What is not there is left out.
            .add_rules(path_beneath_rules(run, AccessFs::from_read(LEVEL)))?
            .add_rules(path_beneath_rules(read, reads))?
            .add_rules(path_beneath_rules(
                DEVICES,
                AccessFs::ReadFile | AccessFs::WriteFile,
            ))?
            .add_rules(path_beneath_rules(write, all & !AccessFs::Execute))?;
        Ok(rules.restrict_self()?.ruleset)
    };
    build().map_err(|error| io::Error::other(format!("Landlock: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_switched_off_is_named_with_what_a_step_can_do_then() {
        for protection in Protection::ALL {
            assert_eq!(protection.name().parse::<Protection>(), Ok(protection));
            let lacks = lacks(&BTreeSet::from([protection]));
            let named = lacks.iter().find(|it| it.protection == protection.name());
            let named = named.expect("it is named");
            assert_eq!(named.reason, "switched off by `without_protection`");
            assert!(!named.effect.is_empty());
        }
        let lacks = lacks(&BTreeSet::from([Protection::NoNewPrivs]));
        for needs_it in ["landlock", "seccomp"] {
            assert!(lacks.iter().any(|it| it.protection == needs_it));
        }
    }

    #[test]
    fn a_restricted_thread_writes_its_own_folder_and_reads_nothing_else() {
        if let Some(reason) = missing(&BTreeSet::new()).get(&Protection::Landlock) {
            // The start names it, then.
            let named = |lack: &Lack| lack.protection == "landlock" && lack.reason == *reason;
            assert!(lacks(&BTreeSet::new()).iter().any(named));
            return;
        }
        let place = tempfile::tempdir().expect("a folder");
        let folder = |name: &str| {
            let folder = place.path().join(name);
            std::fs::create_dir(&folder).expect("a folder");
            folder
        };
        let (task, other) = (folder("task"), folder("other"));
        let (own, beside) = (folder("task/own"), folder("task/beside"));
        for folder in [&other, &beside] {
            std::fs::write(folder.join("file"), "text").expect("a file");
        }
        let seen = std::thread::spawn(move || {
            let files = Files {
                of_task: &task,
                own: &own,
                more: &[],
            };
            restrict(&files).expect("restricted");
            let write = |folder: &Path| std::fs::write(folder.join("new"), "text").is_ok();
            let read = |folder: &Path| std::fs::read(folder.join("file")).is_ok();
            (
                [write(&own), write(&beside), write(&other)],
                [read(&beside), read(&other)],
            )
        });
        assert_eq!(
            seen.join().expect("its end"),
            ([true, false, false], [true, false])
        );
    }
}

//! The folder for temporary files of the tests, in memory where there is room. Servers and embedded stores of hundreds of tests make and
//! delete many small files there, and a disk takes a fifth of the tests' time for that; no test needs that they outlive the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const MEMORY: &str = "/dev/shm";

/// Kibibytes that have to be free: the tests take up to 5 GiB of it, and their processes as much.
const ROOM_KIB: u64 = 12 << 20;

const PREFIX: &str = "counterstep-tests-";

/// Removed with the value.
pub(crate) struct MemoryFolder(PathBuf);

impl MemoryFolder {
    /// `None`: there is no such place, it has no room, no program may run from it, or the caller has chosen a folder by `TMPDIR`.
    pub(crate) fn make() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        if std::env::var_os("TMPDIR").is_some() || !runs_programs(&mounts) {
            return None;
        }
        remove_those_of_ended_runs();
        let memory = fs::read_to_string("/proc/meminfo").ok()?;
        if free(&memory)?.min(room()?) < ROOM_KIB {
            return None;
        }
        let folder = Path::new(MEMORY).join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let made = Self(folder);
        // Some servers run as accounts of their own.
        fs::set_permissions(&made.0, fs::Permissions::from_mode(0o1777)).ok()?;
        Some(made)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MemoryFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Of runs that were killed.
fn remove_those_of_ended_runs() {
    for entry in fs::read_dir(MEMORY).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let of = name
            .strip_prefix(PREFIX)
            .map(|id| Path::new("/proc").join(id));
        if of.is_some_and(|process| !process.exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn runs_programs(mounts: &str) -> bool {
    let fields = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mut here = fields.filter(|fields| fields.get(1) == Some(&MEMORY));
    here.next_back().is_some_and(|fields| {
        let options = fields.get(3).copied().unwrap_or_default();
        fields[2] == "tmpfs"
            && options
                .split(',')
                .all(|option| option != "noexec" && option != "ro")
    })
}

/// Kibibytes of memory that are not in use.
fn free(memory: &str) -> Option<u64> {
    let line = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Kibibytes that may still be written.
fn room() -> Option<u64> {
    let mut df = Command::new("df");
    let said = df
        .args(["--output=avail", "--block-size=1K", MEMORY])
        .output();
    let text = String::from_utf8(said.ok()?.stdout).ok()?;
    text.lines().nth(1)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{free, runs_programs};

    #[test]
    fn only_a_place_in_memory_is_taken_from_which_programs_run() {
        let mounted = |options: &str, kind: &str| {
            runs_programs(&format!(
                "/dev/vda / ext4 rw 0 0\n{kind} /dev/shm {kind} {options} 0 0\n"
            ))
        };
        assert!(mounted("rw,nosuid,nodev", "tmpfs"));
        assert!(!mounted("rw,noexec", "tmpfs"));
        assert!(!mounted("ro", "tmpfs"));
        assert!(!mounted("rw", "ext4"));
        assert!(!runs_programs("/dev/vda / ext4 rw 0 0\n"));
        assert_eq!(
            free("MemTotal: 9 kB\nMemAvailable:   12345 kB\n"),
            Some(12_345)
        );
    }
}

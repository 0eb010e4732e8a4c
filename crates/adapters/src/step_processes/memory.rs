//! How much memory a process of a step takes. Linux alone says it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Beyond its bound, for stacks of threads and what an allocator reserves: the address space of a process
/// is limited to what it has, its bound, and this.
const SLACK: u64 = 256 << 20;

/// What the system says of the memory of a process. Opened while that may be seen: other users' processes, and those
/// that hide their memory, are not shown where `/proc` is mounted so.
#[derive(Debug)]
pub(super) struct Look(File);

impl Look {
    /// `None`: it is gone, or the system does not say.
    pub(super) fn at(process: u32) -> Option<Self> {
        File::open(format!("/proc/{process}/status")).ok().map(Self)
    }

    /// Bytes of memory that belong to the process alone, swapped ones too; `None` as before.
    pub(super) fn bytes(&mut self) -> Option<u64> {
        let mut status = String::new();
        self.0.rewind().ok()?;
        self.0.read_to_string(&mut status).ok()?;
        Some(kibibytes(&status, "RssAnon:")? + kibibytes(&status, "VmSwap:").unwrap_or(0))
    }
}

fn kibibytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number << 10)
}

/// Limits the address space of this process to `bytes` more than it has now. It holds where the other process
/// cannot watch; what an allocator had reserved before is not counted by it.
pub(super) fn limit(bytes: u64) -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let Some(has) = kibibytes(&status, "VmSize:") else {
        return Ok(());
    };
    let most = has.saturating_add(bytes).saturating_add(SLACK);
    let maximum = getrlimit(Resource::As).maximum;
    let most = maximum.map_or(most, |maximum| most.min(maximum));
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::As, limit)?;
    Ok(())
}

/// Where the machine runs out of memory, the system ends this process before those that run tasks.
pub(super) fn goes_first() {
    let path = Path::new("/proc/self/oom_score_adj");
    if path.exists() {
        // Without it the system chooses by size, as ever.
        let _ = std::fs::write(path, "1000");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_in_bytes() {
        let status =
            "Name:\tstep\nVmSize:\t  1024 kB\nRssAnon:\t     512 kB\nVmSwap:\t       0 kB\n";
        assert_eq!(kibibytes(status, "RssAnon:"), Some(512 << 10));
        assert_eq!(kibibytes(status, "VmPeak:"), None);
        let mut look = Look::at(std::process::id()).expect("its own");
        for _ in 0..2 {
            assert!(look.bytes().is_some_and(|bytes| bytes > 0));
        }
    }
}

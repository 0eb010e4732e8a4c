//! What a run cost: processor time by process, and transactions of the database.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Ticks of `/proc/PID/stat` in a second: the kernel's constant for user space on all architectures that Rust's Linux
/// targets have.
const TICKS: u64 = 100;

/// Processor time of named processes and of all their descendants.
#[derive(Debug, Clone, Default)]
pub(super) struct Processors(BTreeMap<&'static str, u32>);

impl Processors {
    pub(super) fn with(mut self, name: &'static str, pid: Option<u32>) -> Self {
        self.0.extend(pid.map(|pid| (name, pid)));
        self
    }

    /// Used so far, by name.
    pub(super) fn used(&self) -> BTreeMap<&'static str, Duration> {
        let all = all_processes();
        let of = |root: u32| {
            let mut ticks = 0;
            let mut open = vec![root];
            while let Some(pid) = open.pop() {
                if let Some(process) = all.get(&pid) {
                    ticks += process.ticks;
                }
                open.extend(all.iter().filter(|(_, process)| process.parent == pid).map(|(pid, _)| *pid));
            }
            Duration::from_millis(ticks * 1000 / TICKS)
        };
        self.0.iter().map(|(name, pid)| (*name, of(*pid))).collect()
    }
}

struct Process {
    parent: u32,
    /// Its own and those of its children that have ended.
    ticks: u64,
}

fn all_processes() -> BTreeMap<u32, Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return BTreeMap::new() };
    folder
        .filter_map(|entry| {
            let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The second field is the program's name in brackets, and may hold anything.
            let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
            let field = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok());
            let parent = u32::try_from(field(1)?).ok()?;
            Some((pid, Process { parent, ticks: (11..15).filter_map(field).sum() }))
        })
        .collect()
}

/// Used between two readings.
pub(super) fn between(
    before: &BTreeMap<&'static str, Duration>,
    after: &BTreeMap<&'static str, Duration>,
) -> BTreeMap<&'static str, Duration> {
    let since = |name: &&'static str| before.get(*name).copied().unwrap_or_default();
    after.iter().map(|(name, used)| (*name, used.saturating_sub(since(name)))).collect()
}

//! How many tasks a process takes at a time by default: as many as its memory is sure to hold. Must
//! not look at anything but this machine.

use std::path::Path;

/// Maximum number of slots: tasks whose steps await cost next to nothing up to here.
const MOST: u64 = 256;

/// Minimum number of slots: a worker of any size does something else while one task waits.
const FEWEST: u64 = 4;

/// Memory set aside for a task: an upload to an object store has two parts on their way and gathers
/// a third, each of 8 MiB unless `part_mib` says otherwise. All else that the engine keeps of a
/// task is small beside it.
const TASK_BYTES: u64 = 24 << 20;

/// Tasks at a time for a process without a setting: half of the memory that it may use, at 24 MiB a
/// task, from 4 to 256.
#[must_use]
pub fn tasks_at_a_time() -> usize {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = group_limits(&own, read).chain(available(
        &read(Path::new("/proc/meminfo")).unwrap_or_default(),
    ));
    tasks_within(limits.min())
}

fn tasks_within(bytes: Option<u64>) -> usize {
    let tasks = bytes
        .map_or(MOST, |bytes| bytes / 2 / TASK_BYTES)
        .clamp(FEWEST, MOST);
    usize::try_from(tasks).unwrap_or(usize::MAX)
}

/// The limits of this process's control group and of those above it.
fn group_limits(own: &str, read: impl Fn(&Path) -> Option<String>) -> impl Iterator<Item = u64> {
    // `0::/a/b` is the unified hierarchy; a container mostly sees itself as its root.
    let unified = own
        .lines()
        .find_map(|line| line.strip_prefix("0::"))
        .unwrap_or("/");
    let files = Path::new(unified.trim_start_matches('/'))
        .ancestors()
        .map(|group| Path::new("/sys/fs/cgroup").join(group).join("memory.max"))
        .chain(["/sys/fs/cgroup/memory/memory.limit_in_bytes".into()]);
    // `max`: no limit.
    files.filter_map(move |file| read(&file)?.trim().parse().ok())
}

/// Of the whole machine.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_memory_is_for_tasks() {
        assert_eq!(tasks_within(None), 256);
        assert_eq!(tasks_within(Some(64 << 30)), 256);
        assert_eq!(tasks_within(Some(2 << 30)), 42);
        assert_eq!(tasks_within(Some(256 << 20)), 5);
        assert_eq!(tasks_within(Some(1)), 4);
    }

    #[test]
    fn the_smallest_limit_of_the_groups_above_counts() {
        let files = |path: &Path| match path.to_str()? {
            "/sys/fs/cgroup/a/b/memory.max" => Some("max\n".to_owned()),
            "/sys/fs/cgroup/a/memory.max" => Some("2147483648\n".to_owned()),
            _ => None,
        };
        assert_eq!(
            group_limits("0::/a/b\n", files).collect::<Vec<_>>(),
            [2 << 30]
        );
        assert_eq!(group_limits("", files).count(), 0);
    }

    #[test]
    fn what_is_available_is_in_kibibytes() {
        assert_eq!(
            available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"),
            Some(2 << 20)
        );
        assert_eq!(available("MemTotal: 9 kB\n"), None);
    }
}

//! The memory that this process may use: the machine's, or the lowest limit of the control groups that the process is
//! in. Reads `/proc` and `/sys`; any thread. Limits change while a process runs, so callers ask again.
//!
//! Invariants:
//! 1. A limit applies to a group and to all groups in it, so the groups from the process's own up to the root count.
//!    Groups that cannot be read (another mount, a namespace) do not.
//! 2. Both versions of control groups count, each where distributions mount it. In version 2 `memory.high` counts, too:
//!    beyond it the kernel takes memory away and slows the process.

use std::path::{Component, Path, PathBuf};

/// The budget of stores that name none is this part of the memory that the process may use, and at most
/// `DEFAULT_BYTES_MAX`: an embedded store is a guest in its program.
const DEFAULT_PART: u64 = 4;
/// See `DEFAULT_PART`.
const DEFAULT_BYTES_MAX: u64 = 1 << 30;
/// In the smallest container a store still has this much.
const DEFAULT_BYTES_MIN: u64 = 1 << 20;
/// If nothing can be read.
const UNKNOWN_MACHINE_BYTES: u64 = 1 << 30;
/// The directories in which a hierarchy may be mounted, and the files with the limits of a group.
const VERSION_1: (&[&str], &[&str]) = (&["/sys/fs/cgroup/memory"], &["memory.limit_in_bytes"]);
const VERSION_2: (&[&str], &[&str]) = (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], &["memory.max", "memory.high"]);

/// The budget of stores that name none, when this process may use `available` bytes.
pub(crate) fn default_budget(available: u64) -> u64 {
    (available / DEFAULT_PART).clamp(DEFAULT_BYTES_MIN, DEFAULT_BYTES_MAX)
}

/// The bytes of memory that this process may use now.
pub(crate) fn available_bytes() -> u64 {
    bytes_from(|path| std::fs::read_to_string(path).ok())
}

/// The same, from the contents of files.
fn bytes_from(read: impl Fn(&Path) -> Option<String>) -> u64 {
    let machine = read(Path::new("/proc/meminfo")).and_then(|text| total_of_machine(&text));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let limits = limit_files(&groups).into_iter().filter_map(|path| read(&path)?.trim().parse().ok());
    limits.chain(machine).min().unwrap_or(UNKNOWN_MACHINE_BYTES)
}

fn total_of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The files that may contain a limit, given the contents of `/proc/self/cgroup`: lines of the form
/// `number:controllers:path`, where version 2 has number 0 and no controllers.
fn limit_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (mounts, names) = match (number, controllers) {
            ("0", "") => VERSION_2,
            _ if controllers.split(',').any(|controller| controller == "memory") => VERSION_1,
            _ => continue,
        };
        for mount in mounts {
            // A path that leaves the namespace begins with "..", which no mount shows.
            let normal = Path::new(path).components().filter(|part| matches!(part, Component::Normal(_)));
            let group = normal.fold(PathBuf::from(mount), |group, part| group.join(part));
            for group in group.ancestors().take_while(|group| group.starts_with(mount)) {
                files.extend(names.iter().map(|name| group.join(name)));
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn bytes(files: &[(&str, &str)]) -> u64 {
        bytes_from(|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path)?;
            Some(found.1.to_owned())
        })
    }

    #[test]
    fn the_default_is_a_quarter_up_to_a_gibibyte() {
        assert_eq!(default_budget(512 << 20), 128 << 20);
        assert_eq!(default_budget(64 * GIB), GIB);
        assert_eq!(default_budget(0), DEFAULT_BYTES_MIN);
    }

    #[test]
    fn the_machine_counts_without_a_limit() {
        let machine = ("/proc/meminfo", "MemFree: 1 kB\nMemTotal:       8388608 kB\n");
        assert_eq!(bytes(&[machine]), 8 * GIB);
        assert_eq!(bytes(&[]), UNKNOWN_MACHINE_BYTES);
        assert_eq!(bytes(&[("/proc/meminfo", "MemTotal: much")]), UNKNOWN_MACHINE_BYTES);
        let unlimited = [
            machine,
            ("/proc/self/cgroup", "0::/user.slice/run.scope\n"),
            ("/sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ];
        assert_eq!(bytes(&unlimited), 8 * GIB);
        // Version 1 without a limit reports a number above every machine's memory.
        let unlimited = [
            machine,
            ("/proc/self/cgroup", "4:memory:/\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(bytes(&unlimited), 8 * GIB);
    }

    /// Regression test: only the root of the mount was read, so a limit of a service, or of a group within a container,
    /// was not noticed.
    #[test]
    fn the_lowest_limit_of_all_nested_groups_counts() {
        let machine = ("/proc/meminfo", "MemTotal: 8388608 kB\n");
        let group = ("/proc/self/cgroup", "0::/outer/middle/own\n");
        let own = ("/sys/fs/cgroup/outer/middle/own/memory.max", "2147483648\n");
        let middle = ("/sys/fs/cgroup/outer/middle/memory.max", "max\n");
        let outer = ("/sys/fs/cgroup/outer/memory.max", "1073741824\n");
        assert_eq!(bytes(&[machine, group, own, middle]), 2 * GIB);
        assert_eq!(bytes(&[machine, group, own, middle, outer]), GIB);
        let high = ("/sys/fs/cgroup/outer/memory.high", "536870912\n");
        assert_eq!(bytes(&[machine, group, own, middle, outer, high]), GIB / 2);
        // A sibling's limit is not this process's.
        let sibling = ("/sys/fs/cgroup/outer/other/memory.max", "1048576\n");
        assert_eq!(bytes(&[machine, group, own, sibling]), 2 * GIB);
    }

    #[test]
    fn both_versions_count_and_a_container_sees_its_own_root() {
        let groups = "12:cpu,cpuacct:/a\n7:memory:/docker/0123\n1:name=systemd:/x\n0::/\n";
        let group = ("/proc/self/cgroup", groups);
        // The mount of a container begins at its own group, whose path in the list does not exist there.
        let container = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "268435456\n");
        assert_eq!(bytes(&[group, container]), GIB / 4);
        let unified = ("/sys/fs/cgroup/unified/memory.max", "134217728\n");
        assert_eq!(bytes(&[group, container, unified]), GIB / 8);
        let escaped = ("/proc/self/cgroup", "0::/../../own\n");
        assert_eq!(bytes(&[escaped, ("/sys/fs/cgroup/own/memory.max", "1048576\n")]), 1 << 20);
        assert_eq!(limit_files("nonsense\n:\n0:x\n"), Vec::<PathBuf>::new());
    }
}

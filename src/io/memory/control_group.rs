//! The memory limits of the control groups that this process is in: its own group and those around it, of version 1 or
//! 2. Any thread.
//!
//! Invariants:
//! 1. Groups are found once; limits and usage are read again at each call. A limit of any group on the way to the root
//!    counts, as the kernel enforces all of them.
//! 2. A file that is missing or unreadable means no limit. (Inside a container the groups around it cannot be seen.)

use std::fs;
use std::path::{Path, PathBuf};

/// Memory of one group, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMemory {
    /// The most that the group may have, page cache included.
    pub limit: u64,
    /// What it has, page cache included.
    pub usage: u64,
    /// The page cache in it.
    pub cached: u64,
}

/// The kernel's two interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Version 1 reports "no limit" as a number near the largest one.
const UNLIMITED: u64 = 1 << 60;

/// The groups of a process, innermost first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ControlGroups {
    folders: Vec<PathBuf>,
    version: Option<Version>,
}

impl ControlGroups {
    /// Those of this process.
    pub fn of_this_process() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::find(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
    }

    /// From the texts of `mountinfo` and `cgroup`. Version 1 wins if it has the memory controller.
    fn find(mounts: &str, groups: &str) -> Self {
        let path_of = |is_wanted: &dyn Fn(&str) -> bool| {
            groups.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                let (controllers, path) = (fields.next()?, fields.next()?);
                is_wanted(controllers).then_some(path)
            })
        };
        let has_memory = |list: &str| list.split(',').any(|name| name == "memory");
        if let Some(group) = path_of(&has_memory)
            && let Some(mount) = mounts
                .lines()
                .filter_map(Mount::parse)
                .find(|mount| mount.kind == "cgroup" && has_memory(mount.options))
        {
            return Self { folders: mount.folders(group), version: Some(Version::One) };
        }
        if let Some(group) = path_of(&str::is_empty)
            && let Some(mount) = mounts.lines().filter_map(Mount::parse).find(|mount| mount.kind == "cgroup2")
        {
            return Self { folders: mount.folders(group), version: Some(Version::Two) };
        }
        Self::default()
    }

    /// The present memory of the groups that have a limit.
    pub fn memory(&self) -> Vec<GroupMemory> {
        let Some(version) = self.version else { return Vec::new() };
        self.folders.iter().filter_map(|folder| version.read(folder)).collect()
    }
}

impl Version {
    fn read(self, folder: &Path) -> Option<GroupMemory> {
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
        let (limit, usage, field) = match self {
            Self::One => (number("memory.limit_in_bytes"), "memory.usage_in_bytes", "total_cache "),
            // Above "high" the kernel slows the group down, which is no better than its limit. "max" is no number.
            Self::Two => {
                let limits = [number("memory.max"), number("memory.high")];
                (limits.into_iter().flatten().min(), "memory.current", "file ")
            }
        };
        let limit = limit.filter(|limit| *limit < UNLIMITED)?;
        let usage = number(usage)?;
        let stat = text("memory.stat").unwrap_or_default();
        let cached =
            stat.lines().find_map(|line| line.strip_prefix(field)).and_then(|number| number.trim().parse().ok());
        Some(GroupMemory { limit, usage, cached: cached.unwrap_or(0).min(usage) })
    }
}

/// A line of `mountinfo`.
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (first, second) = line.split_once(" - ")?;
        let mut first = first.split(' ').skip(3);
        let (root, point) = (first.next()?, first.next()?);
        let mut second = second.split(' ');
        let (kind, _device, options) = (second.next()?, second.next()?, second.next()?);
        Some(Self { root, point, kind, options })
    }

    /// The folders of a group and of those around it, as far as the mount shows them. If the mount does not show the
    /// group, its root is the nearest group that can be seen.
    fn folders(&self, group: &str) -> Vec<PathBuf> {
        let inside = Path::new(group).strip_prefix(self.root).unwrap_or(Path::new(""));
        let is_below = !inside.components().any(|part| matches!(part, std::path::Component::ParentDir));
        let inside = if is_below { inside } else { Path::new("") };
        inside.ancestors().map(|part| Path::new(self.point).join(part)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn found(mounts: &str, groups: &str) -> (Option<Version>, Vec<String>) {
        let groups = ControlGroups::find(mounts, groups);
        (groups.version, groups.folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect())
    }

    #[test]
    fn version_one_has_groups_up_to_its_mount() {
        let (version, folders) = found(ONE, "8:pids:/\n4:memory:/jobs/7\n0::/x\n");
        assert_eq!(version, Some(Version::One));
        assert_eq!(folders, ["/sys/fs/cgroup/memory/jobs/7", "/sys/fs/cgroup/memory/jobs", "/sys/fs/cgroup/memory/"]);
    }

    #[test]
    fn version_two_has_one_tree() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        let (version, folders) = found(mounts, "0::/user.slice/a.scope\n");
        assert_eq!(version, Some(Version::Two));
        assert_eq!(folders, ["/sys/fs/cgroup/user.slice/a.scope", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup/"]);
        assert_eq!(found(ONE, "0::/x\n").0, Some(Version::Two), "version 1 without a group of its own");
    }

    #[test]
    fn a_container_sees_its_own_part() {
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        assert_eq!(
            found(mounts, "4:memory:/docker/abc/inner\n").1,
            ["/sys/fs/cgroup/memory/inner", "/sys/fs/cgroup/memory/"]
        );
        // Namespaces that do not match show a path outside of the mount. Its root is the container's own group.
        assert_eq!(found(mounts, "4:memory:/elsewhere\n").1, ["/sys/fs/cgroup/memory/"]);
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(found(mounts, "0::/../other\n").1, ["/sys/fs/cgroup/"]);
        assert_eq!(found("", "4:memory:/x\n"), (None, Vec::new()));
    }

    /// In a plain directory the files are plain files.
    #[test]
    fn limits_of_all_groups_are_read_again_each_time() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let put = |folder: &Path, name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let two = ControlGroups {
            folders: vec![inner.clone(), root.path().join("a"), root.path().into()],
            version: Some(Version::Two),
        };
        assert_eq!(two.memory(), []);
        put(&inner, "memory.max", "max\n");
        put(&inner, "memory.current", "900\n");
        assert_eq!(two.memory(), []);
        put(&inner, "memory.high", "5000\n");
        put(&inner, "memory.stat", "anon 100\nfile 700\nfile_mapped 5\n");
        let own = GroupMemory { limit: 5000, usage: 900, cached: 700 };
        assert_eq!(two.memory(), [own]);
        put(root.path(), "memory.max", "1000\n");
        put(root.path(), "memory.current", "950\n");
        assert_eq!(two.memory(), [own, GroupMemory { limit: 1000, usage: 950, cached: 0 }]);
        put(&inner, "memory.max", "2000\n");
        assert_eq!(two.memory()[0].limit, 2000);

        let one = ControlGroups { folders: vec![inner.clone()], version: Some(Version::One) };
        put(&inner, "memory.limit_in_bytes", "9223372036854771712\n");
        put(&inner, "memory.usage_in_bytes", "800\n");
        assert_eq!(one.memory(), []);
        put(&inner, "memory.limit_in_bytes", "4096\n");
        put(&inner, "memory.stat", "cache 1\ntotal_cache 600\n");
        assert_eq!(one.memory(), [GroupMemory { limit: 4096, usage: 800, cached: 600 }]);
    }
}

//! A memory limit for a child process: its own cgroup below this process's, of version 1 or 2, if that is permitted. It
//! counts the process's memory and the page cache of the files that it reads and writes.

use super::stale;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the removal of a group with a dying process is tried again.
const REMOVE_ATTEMPTS: u32 = 50;
const REMOVE_PAUSE: Duration = Duration::from_millis(20);

/// A limit that every kernel accepts.
const TRIED_BYTES: u64 = 256 << 20;

/// The two interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    fn limit_file(self) -> &'static str {
        match self {
            Self::One => "memory.limit_in_bytes",
            Self::Two => "memory.max",
        }
    }

    fn peak_file(self) -> &'static str {
        match self {
            Self::One => "memory.max_usage_in_bytes",
            Self::Two => "memory.peak",
        }
    }

    fn events_file(self) -> &'static str {
        match self {
            Self::One => "memory.oom_control",
            Self::Two => "memory.events",
        }
    }
}

/// The group of this process in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    path: PathBuf,
    version: Version,
}

/// A group with a limit; removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    version: Version,
}

impl Parent {
    /// The memory group of this process, from the kernel's lists of mounts and groups.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find() -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
        Self::find_in(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
            .ok_or_else(|| "no memory controller is mounted".to_owned())
    }

    fn find_in(mounts: &str, groups: &str) -> Option<Self> {
        let own = |wanted: fn(&str) -> bool| {
            groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                wanted(controllers).then(|| path.to_owned())
            })
        };
        let is_memory = |controllers: &str| controllers.split(',').any(|controller| controller == "memory");
        let found = |kind: &str, option: Option<&str>, path: &str, version| {
            let mount = mounts.lines().filter_map(Mount::parse).find(|mount| {
                mount.kind == kind && option.is_none_or(|option| mount.options.split(',').any(|has| has == option))
            })?;
            Some(Self { path: mount.below(path)?, version })
        };
        let version_one = own(is_memory).and_then(|path| found("cgroup", Some("memory"), &path, Version::One));
        version_one.or_else(|| own(str::is_empty).and_then(|path| found("cgroup2", None, &path, Version::Two)))
    }

    /// The same, if a group with a limit can be created below it.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn permitted() -> Result<Self, String> {
        let parent = Self::find()?;
        // Creates and removes a group, to test whether it is permitted.
        parent.limit(&format!("{}-try", std::process::id()), TRIED_BYTES)?;
        Ok(parent)
    }

    /// Its version, for the record.
    pub fn kind(&self) -> &'static str {
        match self.version {
            Version::One => "cgroup v1",
            Version::Two => "cgroup v2",
        }
    }

    /// Creates a group with a limit.
    ///
    /// # Errors
    /// This is not permitted, or the controller is not delegated to groups below.
    pub fn limit(&self, name: &str, bytes: u64) -> Result<Cgroup, String> {
        if self.version == Version::Two {
            // Often refused: a group with processes may not delegate controllers. The limit file below decides.
            let _ = fs::write(self.path.join("cgroup.subtree_control"), "+memory");
        }
        for folder in stale::folders(&self.path) {
            // A group that still has a process stays.
            let _ = fs::remove_dir(folder);
        }
        let path = self.path.join(format!("{}{name}", stale::PREFIX));
        fs::create_dir(&path).map_err(|error| named(&path, &error))?;
        let group = Cgroup { path, version: self.version };
        group.set_limit(bytes)?;
        Ok(group)
    }
}

/// A line of `/proc/self/mountinfo`.
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

    /// A group's path in the file system. The mount may show only a part of the tree, and the group may lie outside.
    fn below(&self, group: &str) -> Option<PathBuf> {
        let inside = Path::new(group).strip_prefix(self.root).ok()?;
        Some(Path::new(self.point).join(inside))
    }
}

fn named(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl Cgroup {
    /// Adds a process. Its earlier memory stays charged where it was.
    pub fn admit(&self, process: u32) -> Result<(), String> {
        let path = self.path.join("cgroup.procs");
        fs::write(&path, process.to_string()).map_err(|error| named(&path, &error))
    }

    /// The kernel refuses a limit below the memory that is in use and cannot be reclaimed.
    fn set_limit(&self, bytes: u64) -> Result<(), String> {
        let path = self.path.join(self.version.limit_file());
        fs::write(&path, bytes.to_string()).map_err(|error| named(&path, &error))
    }

    /// The peak memory; older kernels of version 2 do not report it.
    pub fn peak(&self) -> Option<u64> {
        fs::read_to_string(self.path.join(self.version.peak_file())).ok()?.trim().parse().ok()
    }

    /// Whether the kernel killed a process in it because of the limit.
    pub fn has_killed(&self) -> bool {
        let events = fs::read_to_string(self.path.join(self.version.events_file())).unwrap_or_default();
        kills_in(&events) > 0
    }
}

fn kills_in(events: &str) -> u64 {
    let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for _ in 0..REMOVE_ATTEMPTS {
            match fs::remove_dir(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(REMOVE_PAUSE),
                _ => return,
            }
        }
        eprintln!("bench-compare: {} could not be removed", self.path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS_ONE: &str = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
    const GROUPS_ONE: &str = "8:pids:/\n4:memory:/jobs/7\n0::/\n";

    fn parent(path: &str, version: Version) -> Option<Parent> {
        Some(Parent { path: path.into(), version })
    }

    #[test]
    fn version_one_is_taken_where_it_has_the_memory_controller() {
        assert_eq!(Parent::find_in(MOUNTS_ONE, GROUPS_ONE), parent("/sys/fs/cgroup/memory/jobs/7", Version::One));
    }

    #[test]
    fn version_two_has_one_tree() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            Parent::find_in(mounts, "0::/user.slice/a.scope\n"),
            parent("/sys/fs/cgroup/user.slice/a.scope", Version::Two)
        );
    }

    #[test]
    fn a_container_sees_its_part_of_the_tree() {
        let mounts = "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        assert_eq!(
            Parent::find_in(mounts, "4:memory:/docker/abc/inner\n"),
            parent("/sys/fs/cgroup/memory/inner", Version::One)
        );
        assert_eq!(Parent::find_in(mounts, "4:memory:/elsewhere\n"), None);
    }

    #[test]
    fn no_controller_is_no_group() {
        assert_eq!(Parent::find_in("", GROUPS_ONE), None);
        assert_eq!(Parent::find_in(MOUNTS_ONE, "8:pids:/\n"), None);
    }

    #[test]
    fn kills_are_counted() {
        assert_eq!(kills_in("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), 3);
        assert_eq!(kills_in("low 0\nhigh 0\nmax 12\noom 1\noom_kill 0\n"), 0);
        assert_eq!(kills_in(""), 0);
    }

    /// In a plain directory the files are plain files, too, so the test can read what was written.
    #[test]
    fn the_limit_and_the_process_are_written_where_they_belong() {
        let folder = tempfile::tempdir().unwrap();
        let parent = Parent { path: folder.path().into(), version: Version::One };
        let group = parent.limit("x", 1 << 30).unwrap();
        let path = folder.path().join("bench-compare-x");
        assert_eq!(fs::read_to_string(path.join("memory.limit_in_bytes")).unwrap(), "1073741824");
        group.admit(42).unwrap();
        assert_eq!(fs::read_to_string(path.join("cgroup.procs")).unwrap(), "42");
        assert_eq!(group.peak(), None);
        fs::write(path.join("memory.max_usage_in_bytes"), "123\n").unwrap();
        assert_eq!(group.peak(), Some(123));
        assert!(!group.has_killed());
        assert!(parent.limit("x", 1).unwrap_err().contains("bench-compare-x"));
        for file in ["memory.limit_in_bytes", "memory.max_usage_in_bytes", "cgroup.procs"] {
            fs::remove_file(path.join(file)).unwrap();
        }
        drop(group);
        assert!(!path.exists());
    }
}

//! Whether files on this process's `/dev/shm` certainly outlive the process. Only reads; any thread.
//!
//! They do not if a container has a `/dev/shm` of its own that is removed with it, or if the system removes a user's
//! shared memory at logout or when a service stops (`RemoveIPC` of systemd-logind and of units). Neither can be
//! queried, so only one case is certain:
//!
//! 1. The process is in the initial pid and user namespaces, by their well-known numbers. So process 1 is the
//!    machine's.
//! 2. Its `/dev/shm` is the same file system as that of process 1, by device number: not that of a container or a
//!    sandbox. (A comparison of mount namespaces would accept fewer cases: they may not be read if process 1 has a
//!    capability that this one lacks.)
//! 3. It runs as root, whose shared memory `RemoveIPC` does not remove.
//!
//! The caller checks that `/dev/shm` is a tmpfs (`shared_memory`). A new boot is another life.

use super::shm::{DIRECTORY, effective_user};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// `PROC_PID_INIT_INO` and `PROC_USER_INIT_INO` of `linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

/// The inputs of the decision.
struct Place {
    pid: Option<String>,
    user: Option<String>,
    /// Device numbers of `/dev/shm`, as `major:minor`.
    memory: Option<String>,
    memory_of_init: Option<String>,
    is_root: bool,
}

/// See the module.
pub(super) fn outlives_process() -> bool {
    let link = |path: &str| Some(fs::read_link(path).ok()?.to_string_lossy().into_owned());
    decide(&Place {
        pid: link("/proc/self/ns/pid"),
        user: link("/proc/self/ns/user"),
        memory: fs::metadata(DIRECTORY).ok().map(|found| device(found.dev())),
        memory_of_init: fs::read_to_string("/proc/1/mountinfo").ok().and_then(|mounts| mounted_at(&mounts, DIRECTORY)),
        is_root: effective_user() == 0,
    })
}

fn decide(place: &Place) -> bool {
    let initial =
        place.pid.as_deref() == Some(INITIAL_PID_NAMESPACE) && place.user.as_deref() == Some(INITIAL_USER_NAMESPACE);
    initial && place.memory.is_some() && place.memory == place.memory_of_init && place.is_root
}

fn device(number: u64) -> String {
    format!("{}:{}", libc::major(number), libc::minor(number))
}

/// The device of the last mount at a path, which hides earlier ones, in the text of a `mountinfo`.
fn mounted_at(mounts: &str, path: &str) -> Option<String> {
    let last = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some(path))?;
    last.split(' ').nth(2).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_in_the_initial_namespaces_is_certain() {
        let some = |text: &str| Some(text.to_owned());
        let certain = || Place {
            pid: some(INITIAL_PID_NAMESPACE),
            user: some(INITIAL_USER_NAMESPACE),
            memory: some("0:27"),
            memory_of_init: some("0:27"),
            is_root: true,
        };
        assert!(decide(&certain()));
        let doubts = [
            ("a container", Place { pid: some("pid:[4026532000]"), ..certain() }),
            ("a user namespace, where any user can be root", Place { user: some("user:[4026532000]"), ..certain() }),
            ("a sandbox with mounts of its own", Place { memory: some("0:28"), ..certain() }),
            ("the mounts of process 1 cannot be read", Place { memory_of_init: None, ..certain() }),
            ("no /dev/shm", Place { memory: None, memory_of_init: None, ..certain() }),
            ("a user who may log out", Place { is_root: false, ..certain() }),
        ];
        for (doubt, place) in doubts {
            assert!(!decide(&place), "{doubt}");
        }
    }

    #[test]
    fn the_mount_on_top_counts() {
        let mounts = "25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw\n\
                      26 24 8:1 / /dev/shm/deeper rw - ext4 /dev/sda1 rw\n\
                      30 25 0:27 / /dev/shm rw,relatime shared:1 - tmpfs tmpfs rw\n\
                      31 24 0:29 / /dev/mqueue rw - mqueue mqueue rw\n";
        assert_eq!(mounted_at(mounts, "/dev/shm").as_deref(), Some("0:27"));
        assert_eq!(mounted_at(mounts, "/run"), None);
        assert_eq!(mounted_at("", "/dev/shm"), None);
        assert_eq!(device(27), "0:27");
    }
}

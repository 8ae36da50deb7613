//! Whether files on this process's `/dev/shm` are certain to outlive it. Pure look-ups; any thread.
//!
//! They do not where a container brings a `/dev/shm` of its own that goes with it, and where the system removes a user's shared
//! memory at logout or when a service stops (`RemoveIPC` of systemd-logind and of units). Neither can be asked for, so only one
//! case is certain, and everything else is not:
//!
//! 1. The process is in the initial pid and user namespaces, by their well-known numbers. So process 1 is the machine's.
//! 2. Its mount namespace is that of process 1. So its `/dev/shm` is the machine's, not a container's or a sandbox's.
//! 3. It runs as root, whose shared memory `RemoveIPC` leaves alone.
//!
//! That `/dev/shm` is a tmpfs is looked at by the caller (`shared_memory`). A new boot is another life of the machine.

use std::fs;

/// `PROC_PID_INIT_INO` and `PROC_USER_INIT_INO` of `linux/proc_ns.h`.
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";
const INITIAL_USER_NAMESPACE: &str = "user:[4026531837]";

/// What the decision needs to know.
struct Place {
    pid: Option<String>,
    user: Option<String>,
    mount: Option<String>,
    mount_of_init: Option<String>,
    is_root: bool,
}

/// See the module.
pub(super) fn outlives_process() -> bool {
    let link = |path: &str| Some(fs::read_link(path).ok()?.to_string_lossy().into_owned());
    decide(&Place {
        pid: link("/proc/self/ns/pid"),
        user: link("/proc/self/ns/user"),
        mount: link("/proc/self/ns/mnt"),
        mount_of_init: link("/proc/1/ns/mnt"),
        is_root: super::shared_memory::effective_user() == 0,
    })
}

fn decide(place: &Place) -> bool {
    let initial =
        place.pid.as_deref() == Some(INITIAL_PID_NAMESPACE) && place.user.as_deref() == Some(INITIAL_USER_NAMESPACE);
    initial && place.mount.is_some() && place.mount == place.mount_of_init && place.is_root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_beside_the_machines_first_process_is_certain() {
        let some = |text: &str| Some(text.to_owned());
        let certain = || Place {
            pid: some(INITIAL_PID_NAMESPACE),
            user: some(INITIAL_USER_NAMESPACE),
            mount: some("mnt:[7]"),
            mount_of_init: some("mnt:[7]"),
            is_root: true,
        };
        assert!(decide(&certain()));
        let doubts = [
            ("a container", Place { pid: some("pid:[4026532000]"), ..certain() }),
            ("a user namespace, where anybody is root", Place { user: some("user:[4026532000]"), ..certain() }),
            ("a sandbox with mounts of its own", Place { mount: some("mnt:[8]"), ..certain() }),
            ("process 1 may not be looked at", Place { mount_of_init: None, ..certain() }),
            ("no /proc", Place { mount: None, mount_of_init: None, ..certain() }),
            ("a user who may log out", Place { is_root: false, ..certain() }),
        ];
        for (doubt, place) in doubts {
            assert!(!decide(&place), "{doubt}");
        }
    }
}

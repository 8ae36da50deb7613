//! A memory limit on this process itself, for runs in which engines come and go in one process: each gets what it may use beyond
//! what the process holds when the engine begins, page cache included.
//!
//! An allocator may keep what an engine gave back. The next store of the same engine can take it again and so have a little more
//! than its limit; whatever needs that to be exact runs each engine in a process of its own (`launch`).

use super::cgroup::{Cgroup, Parent};

/// A process's own group. Dropped, it puts the process back where it was.
#[derive(Debug)]
pub struct OwnLimit {
    parent: Parent,
    group: Cgroup,
}

impl OwnLimit {
    /// Puts this process into a group of its own, with no limit yet. What it used before does not count there.
    ///
    /// # Errors
    /// Where groups cannot be made.
    pub fn enter(parent: Parent) -> Result<Self, String> {
        // Half of what a signed number holds: the kernel cuts it down to what it can count.
        let group = parent.limit(&format!("{}-figures", std::process::id()), u64::MAX / 4)?;
        group.admit(std::process::id())?;
        Ok(Self { parent, group })
    }

    /// From now on, at most so many bytes more than are in use.
    ///
    /// # Errors
    /// Where the group's files cannot be read or written.
    pub fn beyond_now(&self, bytes: u64) -> Result<(), String> {
        self.group.set_limit(self.group.used()?.saturating_add(bytes))
    }
}

impl Drop for OwnLimit {
    fn drop(&mut self) {
        if let Err(error) = self.parent.admit(std::process::id()) {
            eprintln!("bench-compare: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// On the real kernel, where it permits: the group is there, holds what it is told, and is gone afterwards.
    #[test]
    fn a_process_holds_itself_and_lets_go() {
        let entered = Parent::find().and_then(OwnLimit::enter);
        let limit = match entered {
            Ok(limit) => limit,
            Err(why) => return println!("skipped: {why}"),
        };
        limit.beyond_now(1 << 30).unwrap();
        let own = || fs::read_to_string("/proc/self/cgroup").unwrap();
        let name = format!("bench-compare-{}-figures", std::process::id());
        assert!(own().contains(&name), "{}", own());
        // What is touched now counts.
        let before = limit.group.used().unwrap();
        let memory = std::hint::black_box(vec![1_u8; 64 << 20]);
        let grown = limit.group.used().unwrap() - before;
        assert!((60 << 20..200 << 20).contains(&grown), "{grown} bytes for {}", memory.len());
        drop(limit);
        assert!(!own().contains(&name), "{}", own());
    }
}

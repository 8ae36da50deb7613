//! The resource use of a child, and whether it is within limits. Measured from outside, by the parent.

use super::work::Work;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A smaller budget counts as this much: the buffers of background work have fixed sizes.
const BUDGET_FLOOR: u64 = 128 << 20;
const MEMORY_MORE: u64 = 64 << 20;
const DISK_MORE: u64 = 256 << 20;
const FILES_MAX: u64 = 768;
const THREADS_MORE: u64 = 24;
/// Threads of the soak besides writers: main, observer, and the reader of standard input.
const OWN_THREADS: u64 = 3;

/// The resource use at one moment; 0 if the system does not report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUse {
    /// Resident memory in bytes.
    pub memory: u64,
    /// Open files.
    pub files: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes on disk of the store.
    pub disk: u64,
}

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits(ResourceUse);

impl Limits {
    /// For a round with this budget and this many background threads.
    pub fn new(work: &Work, budget: u64, workers: u64, live_bytes: u64) -> Self {
        // A model in each writer, its snapshots and the observer, and copies during comparisons.
        let models = work.keys * 8 * 8;
        // Large values in flight.
        let values = (work.threads + 1) * (4 << 20);
        let budget = budget.max(BUDGET_FLOOR);
        Self(ResourceUse {
            memory: budget + budget / 2 + MEMORY_MORE + models + values,
            files: FILES_MAX,
            threads: work.threads + OWN_THREADS + workers + THREADS_MORE,
            disk: 4 * live_bytes + 2 * budget + DISK_MORE,
        })
    }

    /// Which limits are exceeded, in words.
    pub fn exceeded(&self, seen: &ResourceUse) -> Option<String> {
        let bounds = &self.0;
        [
            ("resident memory in bytes", seen.memory, bounds.memory),
            ("open files", seen.files, bounds.files),
            ("threads", seen.threads, bounds.threads),
            ("bytes on disk", seen.disk, bounds.disk),
        ]
        .into_iter()
        .find(|(_, seen, bound)| seen > bound)
        .map(|(what, seen, bound)| format!("{what}: {seen}, at most {bound} are allowed"))
    }
}

impl ResourceUse {
    /// The resource use of a process now.
    pub fn of_process(id: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let files = fs::read_dir(format!("/proc/{id}/fd")).map_or(0, |entries| entries.count() as u64);
        Self { files, ..Self::in_status(&status) }
    }

    fn in_status(status: &str) -> Self {
        let number = |name: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
        };
        Self { memory: number("VmRSS:") << 10, threads: number("Threads:"), ..Self::default() }
    }

    /// Bytes on disk of a directory's files.
    pub fn disk_of(directory: &Path) -> u64 {
        let Ok(entries) = fs::read_dir(directory) else { return 0 };
        // A file may be removed between the listing and the query of its size.
        entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum()
    }

    /// The larger of each figure.
    pub fn most(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            files: self.files.max(other.files),
            threads: self.threads.max(other.threads),
            disk: self.disk.max(other.disk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::SMALL;
    use super::*;

    #[test]
    fn what_the_kernel_tells_of_this_process() {
        let seen = ResourceUse::of_process(std::process::id());
        assert!(seen.memory > 1 << 20 && seen.threads >= 1 && seen.files >= 3, "{seen:?}");
        let text = "Name:\tx\nVmRSS:\t    2048 kB\nThreads:\t7\n";
        assert_eq!(ResourceUse::in_status(text), ResourceUse { memory: 2 << 20, threads: 7, ..ResourceUse::default() });
        assert_eq!(ResourceUse::in_status(""), ResourceUse::default());
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), vec![1; 100_000]).unwrap();
        assert!(ResourceUse::disk_of(directory.path()) >= 100_000);
    }

    #[test]
    fn each_bound_can_be_passed() {
        let bounds = Limits::new(&SMALL, 1 << 20, 2, 1000);
        assert_eq!(bounds.exceeded(&bounds.0), None);
        for (more, word) in [
            (ResourceUse { memory: 1, ..ResourceUse::default() }, "memory"),
            (ResourceUse { files: 1, ..ResourceUse::default() }, "open files"),
            (ResourceUse { threads: 1, ..ResourceUse::default() }, "threads"),
            (ResourceUse { disk: 1, ..ResourceUse::default() }, "disk"),
        ] {
            let seen = ResourceUse {
                memory: bounds.0.memory + more.memory,
                files: bounds.0.files + more.files,
                threads: bounds.0.threads + more.threads,
                disk: bounds.0.disk + more.disk,
            };
            assert!(bounds.exceeded(&seen).is_some_and(|text| text.contains(word)), "{word}");
        }
    }
}

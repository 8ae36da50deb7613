//! What the store tells about itself.

use std::fmt;

/// One level of the tree, root first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Distance from the leaves: 0 for leaves.
    pub height: u32,
    /// Trunk nodes.
    pub nodes: u64,
    /// Bundles in them.
    pub bundles: u64,
    /// Branch references in them; a branch that several nodes share counts in each.
    pub branches: u64,
    /// Bytes of these branches that are live for the level, estimated.
    pub bytes: u64,
    /// Entries of these branches, all versions.
    pub entries: u64,
}

/// What a check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Branch files looked at; read whole but for a quick check.
    pub branch_files: u64,
    /// Pages whose checksums were computed.
    pub pages: u64,
    /// Entries found in them.
    pub entries: u64,
    /// Value files looked at; read whole but for a quick check.
    pub value_files: u64,
    /// Log segments looked at.
    pub log_segments: u64,
    /// Records found in them, but for a quick check.
    pub log_records: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// A moment's figures. Counters run from the opening of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The newest sequence number.
    pub last_number: u64,
    /// Every number up to this one would survive a power loss.
    pub synced_number: u64,
    /// Every number up to this one is in branch files.
    pub incorporated_number: u64,
    /// The tree, root first.
    pub levels: Vec<LevelStats>,
    /// Branch files that the tree uses.
    pub branch_files: u64,
    /// Their bytes.
    pub branch_bytes: u64,
    /// Large values in files of their own.
    pub value_files: u64,
    /// Log segments' bytes on disk.
    pub log_bytes: u64,
    /// Bytes of shared memory that the log is written to first; 0 where it goes to its files at once (`LogMemory`).
    pub log_memory_bytes: u64,
    /// Log segments that were to be written to shared memory and found no room there.
    pub log_memory_refused: u64,
    /// Entries in memory, not yet in branch files.
    pub memory_entries: u64,
    /// Bytes that Memtables use.
    pub memory_bytes: u64,
    /// Memory generations, the one being written included.
    pub generations: u64,
    /// Bytes of the page cache in use.
    pub cache_bytes: u64,
    /// Page cache look-ups that hit.
    pub cache_hits: u64,
    /// Page cache look-ups that missed.
    pub cache_misses: u64,
    /// The whole memory budget.
    pub memory_budget: u64,
    /// Live snapshots, those of iterators included.
    pub snapshots: u64,
    /// How long ago the oldest of them was taken. One that is forgotten somewhere shows here; it keeps every version that it sees.
    pub oldest_snapshot: Option<std::time::Duration>,
    /// Puts, deletes and batch operations.
    pub writes: u64,
    /// Bytes of keys and values that they carried.
    pub user_bytes: u64,
    /// Bytes sealed into the log.
    pub logged_bytes: u64,
    /// Bytes written to branch files by incorporation.
    pub incorporated_bytes: u64,
    /// Bytes written to branch files by compaction.
    pub compacted_bytes: u64,
    /// How many of these because scans had paid as much for the runs that they met as merging them costs.
    pub scan_compacted_bytes: u64,
    /// Generations incorporated.
    pub incorporations: u64,
    /// Trunk jobs done: flushes, compactions, splits.
    pub jobs: u64,
    /// Bytes of trunk work waiting.
    pub debt_bytes: u64,
    /// Writes that backpressure slowed.
    pub slowed_writes: u64,
    /// Time that writes spent slowed, nanoseconds.
    pub slowed_ns: u64,
    /// Bytes of the file that holds room for a full disk; 0 while it is given up.
    pub ballast_bytes: u64,
    /// Whether the disk is full, so that no puts are taken.
    pub disk_full: bool,
    /// The failure that made the store read-only or that background work waits on.
    pub failure: Option<String>,
}

impl Stats {
    /// Branch bytes written per byte that users wrote; the log apart.
    pub fn write_amplification(&self) -> f64 {
        (self.incorporated_bytes + self.compacted_bytes) as f64 / self.user_bytes.max(1) as f64
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "numbers      last {}, synced {}, incorporated {}",
            self.last_number, self.synced_number, self.incorporated_number
        )?;
        for level in &self.levels {
            writeln!(
                f,
                "height {:<5} {} nodes, {} bundles, {} branches, {} bytes, {} entries",
                level.height, level.nodes, level.bundles, level.branches, level.bytes, level.entries
            )?;
        }
        writeln!(
            f,
            "files        {} branches of {} bytes, {} values, log {} bytes, ballast {} bytes",
            self.branch_files, self.branch_bytes, self.value_files, self.log_bytes, self.ballast_bytes
        )?;
        writeln!(
            f,
            "log memory   {} bytes shared, refused to {} segments",
            self.log_memory_bytes, self.log_memory_refused
        )?;
        writeln!(
            f,
            "memory       {} entries in {} generations, {} bytes; cache {} bytes; budget {}",
            self.memory_entries, self.generations, self.memory_bytes, self.cache_bytes, self.memory_budget
        )?;
        writeln!(
            f,
            "written      {} operations, {} bytes; log {}, incorporated {}, compacted {}; amplification {:.2}",
            self.writes,
            self.user_bytes,
            self.logged_bytes,
            self.incorporated_bytes,
            self.compacted_bytes,
            self.write_amplification()
        )?;
        write!(
            f,
            "background   {} incorporations, {} jobs, {} bytes waiting; {} writes slowed by {} us",
            self.incorporations,
            self.jobs,
            self.debt_bytes,
            self.slowed_writes,
            self.slowed_ns / 1000
        )?;
        if let Some(failure) = &self.failure {
            write!(f, "\nfailure      {failure}")?;
        }
        Ok(())
    }
}

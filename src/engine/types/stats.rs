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
    /// How many of them are tombstones.
    pub tombstones: u64,
    /// The most runs that a scan meets in one of the nodes.
    pub runs: u64,
    /// The most look-ups that a get makes in one of the nodes, in maplets and filters, before it reads data.
    pub probes: u64,
}

/// A branch file of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchFile {
    /// Its name in the store's directory.
    pub name: String,
    /// Distance from the leaves of the highest trunk node that refers to it.
    pub height: u32,
    /// Its length.
    pub bytes: u64,
    /// Entries, all versions and tombstones, also those that no node reads in it any more.
    pub entries: u64,
    /// Its first key.
    pub first_key: Vec<u8>,
    /// Its last key.
    pub last_key: Vec<u8>,
}

/// What a background task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundKind {
    /// Writes full memory out as branch files.
    Incorporate,
    /// Moves references to branch files from a trunk node to a child.
    Flush,
    /// Merges branch files of a trunk node into one run.
    Merge,
    /// Looks whether a leaf is to be split or rewritten, and does it.
    SampleLeaf,
    /// Splits a leaf.
    Split,
    /// Builds a maplet, which tells reads which branch files to look into.
    BuildMaplet,
    /// Writes a branch file anew without what is dead in it, on a full disk.
    RewriteLive,
    /// Removes files that nobody reads any more.
    Remove,
    /// Sorts what waits in a Membuffer.
    Drain,
    /// Takes versions out of memory that no snapshot needs.
    CleanVersions,
    /// Keeps or looks for room on the disk.
    KeepSpace,
    /// Makes one trunk node of neighbours that deletes have left with little.
    Join,
}

impl fmt::Display for BackgroundKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incorporate => "incorporate",
            Self::Flush => "flush",
            Self::Merge => "merge",
            Self::SampleLeaf => "judge",
            Self::Split => "split",
            Self::BuildMaplet => "build a maplet",
            Self::RewriteLive => "squeeze a file",
            Self::Join => "join",
            Self::Remove => "remove files",
            Self::Drain => "sweep",
            Self::CleanVersions => "reclaim",
            Self::KeepSpace => "keep room",
        })
    }
}

/// A background task that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundTask {
    /// What it does.
    pub kind: BackgroundKind,
    /// The trunk node that it works on, where it is about one.
    pub node: Option<u64>,
    /// That node's distance from the leaves.
    pub height: Option<u32>,
    /// First key of the node's range.
    pub from: Vec<u8>,
    /// First key behind it; `None` at the end.
    pub to: Option<Vec<u8>>,
    /// Bytes of what it reads that it has behind it.
    pub bytes_done: u64,
    /// What it reads in all; 0 where it reads next to nothing or that is not known.
    pub bytes_total: u64,
    /// Bytes of branch files that it has written.
    pub bytes_written: u64,
    /// How long it has run.
    pub runs_for: std::time::Duration,
    /// Whether it stands still because of `Db::pause_background`.
    pub paused: bool,
}

impl fmt::Display for BackgroundTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let (Some(node), Some(height)) = (self.node, self.height) {
            write!(f, " at node {node} of height {height}, from \"{}\"", self.from.escape_ascii())?;
            if let Some(to) = &self.to {
                write!(f, " to \"{}\"", to.escape_ascii())?;
            }
        }
        if self.bytes_total > 0 {
            write!(f, ", {} of {} bytes", self.bytes_done, self.bytes_total)?;
        }
        let paused = if self.paused { ", paused" } else { "" };
        write!(f, ", {} ms{paused}", self.runs_for.as_millis())
    }
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
    /// Bytes of the page cache in use, items included.
    pub cache_bytes: u64,
    /// Page cache look-ups that hit.
    pub cache_hits: u64,
    /// Page cache look-ups that missed.
    pub cache_misses: u64,
    /// Values that are kept in memory apart from their pages, because reading them once took a read of the disk.
    pub items: u64,
    /// Gets that found their value among them.
    pub item_hits: u64,
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
    /// Leaves split because they had outgrown their target.
    pub splits: u64,
    /// Joinings of neighbouring trunk nodes that deletes have left with little.
    pub joins: u64,
    /// Branch files written anew without what was dead in them, on a full disk.
    pub live_rewrites: u64,
    /// Bytes of branch files that merges and joinings took over as they were, because nothing overlaps them.
    pub reused_bytes: u64,
    /// Bytes of trunk work waiting.
    pub debt_bytes: u64,
    /// About how many of the tree's bytes are garbage, or newer versions that make some. Where they are many, writers are slowed.
    pub garbage_bytes: u64,
    /// Writes that backpressure slowed.
    pub slowed_writes: u64,
    /// Time that writes spent slowed, nanoseconds.
    pub slowed_ns: u64,
    /// How many of them for garbage in the tree, more than for full memory or for work that waits.
    pub garbage_slowed_writes: u64,
    /// Time of `slowed_ns` that these spent.
    pub garbage_slowed_ns: u64,
    /// Writes that waited because all memory was full.
    pub stalled_writes: u64,
    /// Time that they waited, nanoseconds.
    pub stalled_ns: u64,
    /// The longest that a single write was slowed or waited for memory, nanoseconds.
    pub longest_delay_ns: u64,
    /// Commits of transactions that failed because others had written what was read.
    pub conflicts: u64,
    /// Times that an update, or its like, began again because another write was quicker.
    pub retried_updates: u64,
    /// What background work does at the moment.
    pub running: Vec<BackgroundTask>,
    /// Bytes a second that it may write; `None` where it may as it can.
    pub background_write_limit: Option<u64>,
    /// Whether merges are held by `Db::pause_background`.
    pub background_paused: bool,
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
                "height {:<5} {} nodes, {} bundles, {} branches, {} bytes, {} entries, {} of them tombstones, {} runs, {} probes",
                level.height,
                level.nodes,
                level.bundles,
                level.branches,
                level.bytes,
                level.entries,
                level.tombstones,
                level.runs,
                level.probes
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
            "memory       {} entries in {} generations, {} bytes; cache {} bytes, {} items; budget {}",
            self.memory_entries, self.generations, self.memory_bytes, self.cache_bytes, self.items, self.memory_budget
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
            "background   {} incorporations, {} jobs, {} splits, {} joins, {} bytes waiting; {} writes slowed by {} us",
            self.incorporations,
            self.jobs,
            self.splits,
            self.joins,
            self.debt_bytes,
            self.slowed_writes,
            self.slowed_ns / 1000
        )?;
        if self.garbage_slowed_writes > 0 {
            write!(
                f,
                "\ngarbage      {} bytes; {} of the writes slowed for it, by {} us",
                self.garbage_bytes,
                self.garbage_slowed_writes,
                self.garbage_slowed_ns / 1000
            )?;
        }
        if self.stalled_writes > 0 || self.longest_delay_ns > 0 {
            write!(
                f,
                "\nwriters      {} waited for memory for {} us; the longest delay {} us",
                self.stalled_writes,
                self.stalled_ns / 1000,
                self.longest_delay_ns / 1000
            )?;
        }
        if self.conflicts > 0 || self.retried_updates > 0 {
            let (conflicts, updates) = (self.conflicts, self.retried_updates);
            write!(f, "\nconflicts    {conflicts} of transactions; {updates} times an update began again")?;
        }
        if let Some(limit) = self.background_write_limit {
            write!(f, "\nlimit        {limit} bytes of background writes a second")?;
        }
        if self.background_paused {
            write!(f, "\npaused       merges wait")?;
        }
        for task in &self.running {
            write!(f, "\nrunning      {task}")?;
        }
        if let Some(failure) = &self.failure {
            write!(f, "\nfailure      {failure}")?;
        }
        Ok(())
    }
}

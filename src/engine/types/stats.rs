//! Statistics of a store.

use std::fmt;
use std::time::Duration;

/// Statistics of one level of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelStats {
    /// Distance from the leaves: 0 for leaves. In a leveled or tiered store the distance from the deepest level.
    pub height: u32,
    /// Trunk nodes; 0 in a leveled or tiered store.
    pub nodes: u64,
    /// Bundles in these nodes, or runs of the level.
    pub bundles: u64,
    /// Branch references in these nodes. A branch that several nodes share counts in each.
    pub branches: u64,
    /// Estimated bytes of these branches that belong to the key ranges of the nodes.
    pub bytes: u64,
    /// Entries of these branches, all versions.
    pub entries: u64,
    /// Number of these entries that are tombstones.
    pub tombstones: u64,
    /// The most runs that a scan merges in one of the nodes. In a trunk at most 32, as long as merges can run and
    /// nothing is ingested.
    pub runs: u64,
    /// The most maplet and filter lookups that a get makes in one of the nodes before it reads data.
    pub probes: u64,
    /// Pages of these branches that reads did not find in the page cache since the store was opened. A branch takes its
    /// count along when it moves to another level, and away when it is merged. One that several nodes share counts in
    /// each.
    pub cache_misses: u64,
}

/// A branch file of the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BranchFile {
    /// Name in the store's directory.
    pub name: String,
    /// Height of the highest trunk node that refers to the file; 0 for leaves.
    pub height: u32,
    /// File size in bytes.
    pub bytes: u64,
    /// Entries: all versions and tombstones, including those that no node reads any more.
    pub entries: u64,
    /// Its pages that reads did not find in the page cache since the store was opened.
    pub cache_misses: u64,
    /// The first key.
    pub first_key: Vec<u8>,
    /// The last key.
    pub last_key: Vec<u8>,
}

/// Kind of a background task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BackgroundKind {
    /// Writes full Memtables to branch files.
    #[default]
    Incorporate,
    /// Moves references to branch files from a trunk node to a child.
    Flush,
    /// Merges branch files of a trunk node into one run.
    Merge,
    /// Estimates how much of a leaf is live, and splits or rewrites the leaf if needed.
    SampleLeaf,
    /// Splits a leaf.
    Split,
    /// Builds a maplet, which tells reads which branch files may have a key.
    BuildMaplet,
    /// Rewrites a branch file without its dead data, on a full disk.
    RewriteLive,
    /// Removes obsolete files.
    Remove,
    /// Drains a Membuffer: sorts its keys into the Memtable.
    Drain,
    /// Removes versions from memory that no snapshot needs.
    CleanVersions,
    /// Reserves disk space, or frees it on a full disk.
    KeepSpace,
    /// Joins neighbouring trunk nodes that deletes have left with little data.
    Join,
    /// Makes the memory pages of a large Memtable's index present, before writers touch them.
    PopulateIndex,
}

#[cfg(feature = "metrics")]
impl BackgroundKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 13] = [
        Self::Incorporate,
        Self::Flush,
        Self::Merge,
        Self::SampleLeaf,
        Self::Split,
        Self::BuildMaplet,
        Self::RewriteLive,
        Self::Remove,
        Self::Drain,
        Self::CleanVersions,
        Self::KeepSpace,
        Self::Join,
        Self::PopulateIndex,
    ];
}

impl fmt::Display for BackgroundKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incorporate => "incorporate",
            Self::Flush => "flush",
            Self::Merge => "merge",
            Self::SampleLeaf => "sample a leaf",
            Self::Split => "split",
            Self::BuildMaplet => "build a maplet",
            Self::RewriteLive => "rewrite live data",
            Self::Join => "join",
            Self::Remove => "remove files",
            Self::Drain => "drain",
            Self::CleanVersions => "clean versions",
            Self::KeepSpace => "keep space",
            Self::PopulateIndex => "populate an index",
        })
    }
}

/// A running background task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackgroundTask {
    /// Kind of the task.
    pub kind: BackgroundKind,
    /// The trunk node that it works on, if any.
    pub node: Option<u64>,
    /// Height of that node; 0 for leaves.
    pub height: Option<u32>,
    /// First key of the node's range.
    pub from: Vec<u8>,
    /// First key after the node's range; `None` if the range has no end.
    pub to: Option<Vec<u8>>,
    /// Bytes of input processed so far.
    pub bytes_done: u64,
    /// Bytes of input in all; 0 if there is little or it is not known.
    pub bytes_total: u64,
    /// Bytes of branch files written so far.
    pub bytes_written: u64,
    /// How long the task has run.
    pub runs_for: Duration,
    /// Whether `Db::pause_background` holds the task.
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

/// Statistics of a store at one moment. Counters start at the opening of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The newest sequence number.
    pub last_number: u64,
    /// All writes up to this sequence number would survive a power loss.
    pub synced_number: u64,
    /// All writes up to this sequence number are in branch files.
    pub incorporated_number: u64,
    /// How the data is kept on disk: `trunk`, `leveled`, `tiered` or `skip`. Empty in `LiveStats`.
    pub disk_component: &'static str,
    /// The levels of the tree, root first; or the levels of a leveled or tiered store, the newest first.
    pub levels: Vec<LevelStats>,
    /// Branch files that the tree uses.
    pub branch_files: u64,
    /// Size of these files in bytes.
    pub branch_bytes: u64,
    /// Large values, each in a value file.
    pub value_files: u64,
    /// Size of the log segments on disk in bytes.
    pub log_bytes: u64,
    /// Size of the shadows, the newest part of the log, in bytes.
    pub log_shadow_bytes: u64,
    /// Log segments that got no shadow, for lack of space or because idle writers own most of every shadow, and were
    /// mapped themselves.
    pub log_shadows_refused: u64,
    /// Writes that opening found behind the first gap in the log and discarded, after a power loss, in a copy on another
    /// file system, or with `Options::force_cut`. There may have been more: what is behind damage in a chunk of the log
    /// cannot be found.
    pub log_discarded_writes: u64,
    /// Entries in memory that are not in branch files yet.
    pub memory_entries: u64,
    /// Memory of the Memtables in bytes.
    pub memory_bytes: u64,
    /// Memory generations, including the active one.
    pub generations: u64,
    /// Memory of the page cache and of the cached items, in bytes.
    pub cache_bytes: u64,
    /// Page cache lookups that hit.
    pub cache_hits: u64,
    /// Page cache lookups that missed.
    pub cache_misses: u64,
    /// The part of `cache_bytes` that leaves have. If stores share a cache, this and the next two are of all of them.
    pub cache_leaf_bytes: u64,
    /// The part of `cache_bytes` that index pages have, and fences: first bytes of the keys of leaves.
    pub cache_index_bytes: u64,
    /// The part of `cache_bytes` that filters and maplets have.
    pub cache_filter_bytes: u64,
    /// Items in the item cache: values that are cached without their pages, after a read from disk.
    pub items: u64,
    /// Gets that the item cache answered.
    pub item_hits: u64,
    /// Searches of iterators by the number of runs in which they searched: 1, 2, 3, 4, 5 or 6, 7 or 8, 9 to 16, more. A
    /// seek is one search, and so is each step of a scan from one leaf of the tree to the next. Memtables are no runs.
    /// Where threads share a counter, some are lost; the same holds for `rows_ahead`.
    pub searches: [u64; 8],
    /// Pairs that iterators copied from their pages ahead of their user, several at once, whether the user took them or
    /// not.
    pub rows_ahead: u64,
    /// Times that reads waited for pages that were not in the page cache: reads of users, and the few by which
    /// background work begins merges and samples leaves. Pages that were read together are one wait. Not counted are
    /// waits for value files, and for what is read once when a file is first used.
    pub read_waits: u64,
    /// Time of all these waits, in nanoseconds.
    pub read_wait_ns: u64,
    /// The memory budget in bytes.
    pub memory_budget: u64,
    /// Live snapshots, including those of iterators and transactions.
    pub snapshots: u64,
    /// Age of the oldest live snapshot. A large age shows a leaked snapshot, which retains all versions that it can
    /// read.
    pub oldest_snapshot: Option<Duration>,
    /// Puts and deletes, including those in batches.
    pub writes: u64,
    /// Bytes of keys and values in these writes.
    pub user_bytes: u64,
    /// Bytes written to the log.
    pub logged_bytes: u64,
    /// Bytes of branch files written by incorporation.
    pub incorporated_bytes: u64,
    /// Bytes of branch files written by compaction.
    pub compacted_bytes: u64,
    /// The part of `compacted_bytes` that scans triggered, because they had spent half as much on runs as the
    /// compaction costs.
    pub scan_compacted_bytes: u64,
    /// The part of `compacted_bytes` that was written while nobody wrote, to make reads cheaper.
    pub quiet_compacted_bytes: u64,
    /// Bytes that may be rewritten while nobody writes: half of what users have written since the store was created, as far
    /// as it is in branch files, less what was rewritten so. 0 in a store with levels, where nothing is.
    pub quiet_credit_bytes: u64,
    /// Memory generations incorporated.
    pub incorporations: u64,
    /// Bytes of branch files written by ingests (`Keyspace::ingest`).
    pub ingested_bytes: u64,
    /// Ingests that have taken effect.
    pub ingests: u64,
    /// Bytes of the writes that are kept for followers (`Db::changes`). They are not in any other figure.
    pub change_bytes: u64,
    /// The number after which writes are kept for followers, if `change_bytes` is not 0.
    pub changes_after: u64,
    /// How often all kept writes were given up since the store was opened: on a full disk, or after an error of their files.
    pub changes_lost: u64,
    /// Trunk jobs done: flushes, compactions and splits.
    pub jobs: u64,
    /// Leaves split because they exceeded their target size.
    pub splits: u64,
    /// Joins of neighbouring trunk nodes that deletes had left with little data.
    pub joins: u64,
    /// Branch files rewritten without their dead data, on a full disk.
    pub live_rewrites: u64,
    /// Bytes of branch files that merges and joins reused unchanged, because nothing overlaps them.
    pub reused_bytes: u64,
    /// In a store with levels: entries that merges placed 0, 1, … levels further than the level that they merged into. A
    /// file that moved to the next level without being rewritten counts as one level for each of its entries.
    pub skipped: [u64; 7],
    /// In a store with levels that skip: bytes of the branches that are in memory now (`LevelsOptions::buffer_bytes`).
    pub buffer_bytes: u64,
    /// Bytes of the branch files that are kept only because they have what is in memory. A part of `branch_bytes`.
    pub parent_bytes: u64,
    /// Bytes of branches that merges left in memory.
    pub buffered_bytes: u64,
    /// Bytes in the manifest that say where on the disk the entries of these branches are.
    pub transition_bytes: u64,
    /// Bytes of branch files by checkpoints of what was in memory. A part of `compacted_bytes`.
    pub checkpoint_bytes: u64,
    /// Entries that scans took from the branches in memory.
    pub buffered_rows: u64,
    /// Bytes of trunk work that is due.
    pub debt_bytes: u64,
    /// Estimated bytes of garbage in the tree, and of newer versions that make older ones garbage. Much garbage slows
    /// writers.
    pub garbage_bytes: u64,
    /// Writes slowed by backpressure.
    pub slowed_writes: u64,
    /// Time for which writes were slowed, in nanoseconds.
    pub slowed_ns: u64,
    /// The part of `slowed_writes` for which garbage in the tree was the main reason.
    pub garbage_slowed_writes: u64,
    /// The part of `slowed_ns` for which garbage in the tree was the main reason.
    pub garbage_slowed_ns: u64,
    /// Writes that waited because all memory generations were full.
    pub stalled_writes: u64,
    /// Time for which they waited, in nanoseconds.
    pub stalled_ns: u64,
    /// The longest time that a single write was slowed or waited for memory, in nanoseconds.
    pub longest_delay_ns: u64,
    /// Commits of transactions that failed with `Error::Conflict`.
    pub conflicts: u64,
    /// Retries of updates, compare-and-swaps and `put_if_absent` calls that lost a race with another write.
    pub retried_updates: u64,
    /// Pairs that compaction filters have removed. This and the next four count since the store was opened.
    pub compaction_filter_removed: u64,
    /// Pairs to which compaction filters have given a new value.
    pub compaction_filter_replaced: u64,
    /// Pairs that stayed because a compaction filter panicked.
    pub compaction_filter_panics: u64,
    /// Pairs that stayed because the value that a compaction filter gave them was too large.
    pub compaction_filter_refused: u64,
    /// Merges that were repeated without compaction filters, because a snapshot was taken while they ran that can read what
    /// the filters had changed.
    pub compaction_filter_repeated: u64,
    /// Background tasks that run at the moment.
    pub running: Vec<BackgroundTask>,
    /// Limit for background writes in bytes per second; `None` if there is none.
    pub background_write_limit: Option<u64>,
    /// Whether `Db::pause_background` holds merges.
    pub background_paused: bool,
    /// Size of the file that reserves space for a full disk, in bytes; 0 while the space is given up.
    pub ballast_bytes: u64,
    /// Whether the disk is full, so that puts are rejected.
    pub disk_full: bool,
    /// The failure that made the store read-only or blocks background work.
    pub failure: Option<String>,
}

impl Stats {
    /// Bytes of branch files written for each byte of user data. The log does not count.
    pub fn write_amplification(&self) -> f64 {
        (self.incorporated_bytes + self.ingested_bytes + self.compacted_bytes) as f64 / self.user_bytes.max(1) as f64
    }

    /// The parts of `cache_bytes`, by what they hold.
    #[cfg(feature = "metrics")]
    pub(crate) fn cache_bytes_by_kind(&self) -> [(&'static str, u64); 4] {
        let kinds = [self.cache_leaf_bytes, self.cache_index_bytes, self.cache_filter_bytes];
        let other = self.cache_bytes.saturating_sub(kinds.iter().sum());
        let [leaf, index, filter] = kinds;
        [("leaf", leaf), ("index", index), ("filter", filter), ("other", other)]
    }

    /// About how many keys the store has: the entries in memory and in all levels, but for tombstones in levels and one
    /// entry that each of them hides. (A tombstone in the deepest level hides nothing, if that is one run.) A key with
    /// several entries that were not merged yet counts several times, and so does a delete that is still in memory, so
    /// right after writes the estimate is usually too high; after `Db::compact` of everything it is the number of keys.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// for number in 0..1000_u32 {
    ///     db.put(number.to_be_bytes(), "silt")?;
    /// }
    /// db.compact()?;
    /// assert_eq!(db.stats().approximate_keys(), 1000);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn approximate_keys(&self) -> u64 {
        let sum = |of: fn(&LevelStats) -> u64| self.levels.iter().map(of).fold(0, u64::saturating_add);
        let tombstones = sum(|level| level.tombstones);
        let hide_nothing =
            self.levels.last().filter(|deepest| deepest.runs <= 1).map_or(0, |deepest| deepest.tombstones);
        let gone = tombstones.saturating_mul(2).saturating_sub(hide_nothing);
        self.memory_entries.saturating_add(sum(|level| level.entries).saturating_sub(gone))
    }
}

/// Statistics that another process published about a store that it has open for writing: the result of
/// `Db::live_stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveStats {
    /// The statistics. Keys of background tasks are truncated to 64 bytes.
    pub stats: Stats,
    /// Process id of the writer, in its own process namespace.
    pub process: u32,
    /// Age of the statistics by the system's clock. A writer publishes about once a second while its statistics change.
    pub age: Duration,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "numbers      last {}, synced {}, incorporated {}",
            self.last_number, self.synced_number, self.incorporated_number
        )?;
        if !self.disk_component.is_empty() {
            writeln!(f, "component    {}", self.disk_component)?;
        }
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
        if self.buffered_bytes + self.buffer_bytes + self.parent_bytes > 0 {
            writeln!(
                f,
                "buffers      {} bytes, and {} of files kept for them; {} in all, {} of records, {} by checkpoints",
                self.buffer_bytes, self.parent_bytes, self.buffered_bytes, self.transition_bytes, self.checkpoint_bytes
            )?;
        }
        writeln!(
            f,
            "log shadows  {} bytes, none for {} segments; opening discarded {} writes that it found behind the first gap",
            self.log_shadow_bytes, self.log_shadows_refused, self.log_discarded_writes
        )?;
        writeln!(
            f,
            "memory       {} entries in {} generations, {} bytes; cache {} bytes, {} items; budget {}",
            self.memory_entries, self.generations, self.memory_bytes, self.cache_bytes, self.items, self.memory_budget
        )?;
        let runs: u64 = self.searches.iter().sum();
        if runs + self.read_waits > 0 {
            writeln!(
                f,
                "reads        {} waits for the disk, {} us; searches by runs met {:?}, {} rows ahead",
                self.read_waits,
                self.read_wait_ns / 1000,
                self.searches,
                self.rows_ahead
            )?;
        }
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
            "background   {} incorporations, {} jobs, {} splits, {} joins, {} bytes due; {} writes slowed by {} us",
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
                "\ngarbage      {} bytes; {} writes slowed because of it, by {} us",
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
            write!(f, "\nconflicts    {conflicts} of transactions; {updates} updates retried")?;
        }
        if self.ingests > 0 {
            write!(f, "\ningested     {} bytes in {} ingests", self.ingested_bytes, self.ingests)?;
        }
        if self.change_bytes > 0 || self.changes_lost > 0 {
            let (bytes, after, lost) = (self.change_bytes, self.changes_after, self.changes_lost);
            write!(f, "\nchanges      {bytes} bytes kept, those after number {after}; given up {lost} times")?;
        }
        let filtered = self.compaction_filter_removed + self.compaction_filter_replaced;
        let unfiltered = self.compaction_filter_panics + self.compaction_filter_refused;
        if filtered + unfiltered + self.compaction_filter_repeated > 0 {
            write!(
                f,
                "\nfiltered     {} pairs removed, {} replaced; {unfiltered} failed; {} merges repeated without",
                self.compaction_filter_removed, self.compaction_filter_replaced, self.compaction_filter_repeated
            )?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Each level once was cut off at zero by itself, so that a level of deletes hid nothing.
    #[test]
    fn deletes_hide_keys_of_other_levels() {
        let level = |entries, tombstones| LevelStats { entries, tombstones, ..LevelStats::default() };
        let keys = |levels, memory_entries| Stats { levels, memory_entries, ..Stats::default() }.approximate_keys();
        assert_eq!(keys(vec![level(5_000, 5_000), level(10_000, 0)], 7), 5_007);
        assert_eq!(keys(vec![level(10, 10)], 3), 3);
    }
}

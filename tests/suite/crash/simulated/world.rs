//! A store on which a run is executed, with its promises so far.

use super::death::{Death, SYNC_INTERVAL, options};
use super::promise::{Contents, Promise};
use super::step::{Changes, KEYS, Step, name};
use crate::support::{tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{DiskComponent, Options, Snapshot, WriteBatch, WriteOptions};
use std::sync::Arc;
use std::time::Duration;

/// More background tasks than are ever due at a time.
const WORK_MAX: usize = 200;
/// At least the time that a store waits before it checks for space again.
const FULL_DISK_LOOK: Duration = Duration::from_secs(1);

/// More than the time without writes after which data is rewritten for readers.
const QUIET_SECONDS: usize = 3;
const SECOND: Duration = Duration::from_secs(1);

/// A store, its simulated disk and its promises.
pub struct World {
    pub disk: SimulatedStorage,
    pub db: Option<DeterministicDb>,
    pub promise: Promise,
    /// The faults of the disk, injected again after every death.
    faults: &'static str,
    maplets: bool,
    tree: Tree,
    snapshots: Vec<(Snapshot, Contents)>,
}

/// The sizes of the tree's parts, or levels instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tree {
    /// The usual sizes: the data of these runs is one node.
    Usual,
    /// Small leaves, below nodes with this number of children.
    Small { fanout: usize },
    /// No tree, but levels.
    Levels(Shape),
}

/// The shape of levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Leveled,
    Tiered,
    Skip,
}

impl Shape {
    pub const ALL: [Self; 3] = [Self::Leveled, Self::Tiered, Self::Skip];

    /// Each third seed has the same.
    pub fn of(seed: u64) -> Self {
        Self::ALL[seed as usize % 3]
    }

    fn component(self) -> DiskComponent {
        match self {
            Self::Leveled => tiny_levels(1),
            Self::Tiered => tiny_levels(3),
            Self::Skip => small_skip(),
        }
    }
}

/// Of sizes with which the data of a run is in three levels, so that keys skip one, and wait in memory.
fn small_skip() -> DiskComponent {
    let DiskComponent::Levels(levels) = tiny_skip() else { unreachable!("`tiny_skip` has levels") };
    DiskComponent::Levels(levels.file_bytes(4096).base_level_bytes(4096))
}

/// The statistics of a tree that show which work was done.
#[derive(Clone, Copy, Debug)]
pub struct Grown {
    pub height: u32,
    leaves: u64,
    /// Bytes that merges have written since the opening, and bytes of files that they reused.
    merged_bytes: u64,
    reused_bytes: u64,
    /// Files whose live data was rewritten.
    live_rewrites: u64,
    /// Bytes rewritten in quiet times.
    quiet_bytes: u64,
    /// Bytes that wait in memory, those that merges have left there since the opening, and those that checkpoints have written.
    pub buffer_bytes: u64,
    buffered_bytes: u64,
    checkpoint_bytes: u64,
}

impl Grown {
    pub fn of(db: &DeterministicDb) -> Self {
        let stats = db.stats();
        let leaves = stats.levels.iter().filter(|level| level.height == 0).map(|level| level.nodes).sum();
        let height = stats.levels.iter().map(|level| level.height).max().unwrap_or(0);
        Self {
            height,
            leaves,
            merged_bytes: stats.compacted_bytes,
            reused_bytes: stats.reused_bytes,
            live_rewrites: stats.live_rewrites,
            quiet_bytes: stats.quiet_compacted_bytes,
            buffer_bytes: stats.buffer_bytes,
            buffered_bytes: stats.buffered_bytes,
            checkpoint_bytes: stats.checkpoint_bytes,
        }
    }
}

/// How many deaths or faults happened during each kind of work on the tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strikes {
    /// In operations on a tree of more than one node.
    pub on_trees: u64,
    /// In operations in which leaves were split.
    pub in_splits: u64,
    /// In operations in which leaves were joined.
    pub in_joins: u64,
    /// In operations with a merge in a tree of more than one node.
    pub in_merges: u64,
    /// In operations in which a merge or a join reused files.
    pub in_reuses: u64,
    /// In operations in which live data was rewritten.
    pub in_live_rewrites: u64,
    /// In quiet times in which data was rewritten.
    pub in_quiet_times: u64,
    /// In operations with a merge that left keys in memory.
    pub in_buffering: u64,
    /// In operations with a merge of what waited in memory, or with a checkpoint.
    pub in_writing_buffers: u64,
    /// In operations with a checkpoint.
    pub in_checkpoints: u64,
}

impl Strikes {
    /// Adds the strikes of an operation that changed the tree from `before` to `after`.
    pub fn note(&mut self, before: Grown, after: Grown, strikes: u64) {
        let note = |noted: bool, count: &mut u64| *count += if noted { strikes } else { 0 };
        note(before.height > 0, &mut self.on_trees);
        note(before.leaves < after.leaves, &mut self.in_splits);
        note(before.leaves > after.leaves, &mut self.in_joins);
        note(before.height > 0 && before.merged_bytes < after.merged_bytes, &mut self.in_merges);
        note(before.reused_bytes < after.reused_bytes, &mut self.in_reuses);
        note(before.live_rewrites < after.live_rewrites, &mut self.in_live_rewrites);
        note(before.quiet_bytes < after.quiet_bytes, &mut self.in_quiet_times);
        note(before.buffered_bytes < after.buffered_bytes, &mut self.in_buffering);
        note(before.buffer_bytes > after.buffer_bytes, &mut self.in_writing_buffers);
        note(before.checkpoint_bytes < after.checkpoint_bytes, &mut self.in_checkpoints);
    }

    pub fn add(&mut self, other: Self) {
        self.on_trees += other.on_trees;
        self.in_splits += other.in_splits;
        self.in_joins += other.in_joins;
        self.in_merges += other.in_merges;
        self.in_reuses += other.in_reuses;
        self.in_live_rewrites += other.in_live_rewrites;
        self.in_quiet_times += other.in_quiet_times;
        self.in_buffering += other.in_buffering;
        self.in_writing_buffers += other.in_writing_buffers;
        self.in_checkpoints += other.in_checkpoints;
    }

    /// The smallest of the counts of a trunk.
    pub fn least(&self) -> u64 {
        let Self { on_trees, in_splits, in_joins, in_merges, in_reuses, in_live_rewrites, .. } = *self;
        [on_trees, in_splits, in_joins, in_merges, in_reuses, in_live_rewrites].into_iter().min().unwrap_or(0)
    }

    /// The smallest of the counts of what waits in memory.
    pub fn least_of_buffers(&self) -> u64 {
        self.in_buffering.min(self.in_writing_buffers).min(self.in_checkpoints)
    }
}

/// Opens the store on a disk. If maplets are on, they are built for few runs already, so that there are many.
pub fn open(disk: &SimulatedStorage, mut options: Options, tree: Tree) -> alluvium::Result<DeterministicDb> {
    if let Tree::Levels(shape) = tree {
        options.disk_component = Some(shape.component());
    }
    DeterministicDb::open_tuned(Arc::new(disk.clone()), options, true, |figures| {
        figures.probes_max = 2;
        // Files of a few entries are mostly overhead.
        figures.quiet_percent = 100_000;
        let Tree::Small { fanout } = tree else { return };
        figures.branch_bytes = 16 << 10;
        figures.fanout = fanout;
        figures.runs_max = 2;
        figures.runs_limit = 6;
        figures.runs_bound = 10;
        figures.part_bytes = 8 << 10;
        figures.part_bytes_min = 4 << 10;
        figures.leaf_bytes_min = 24 << 10;
        figures.leaf_percent_of_all = 10;
        figures.garbage_percent = 20;
    })
}

impl World {
    /// Opens a store that has made these promises.
    pub fn open(
        disk: SimulatedStorage,
        promise: Promise,
        faults: &'static str,
        (maplets, tree): (bool, Tree),
    ) -> Result<Self, String> {
        disk.inject(faults);
        let db = open(&disk, options().maplets(maplets), tree)
            .map_err(|error| format!("the store does not open: {error}"))?;
        Ok(Self { disk, db: Some(db), promise, faults, maplets, tree, snapshots: Vec::new() })
    }

    pub fn db(&self) -> &DeterministicDb {
        self.db.as_ref().expect("the store is open between steps")
    }

    /// The promise while the step runs: its write has begun.
    pub fn promise_during(&self, step: Step, at: usize) -> Promise {
        let mut during = match step {
            Step::PowerCut(_) => self.promise.clone().after_power_loss(),
            _ => self.promise.clone(),
        };
        if let Some(changes) = step.changes(at) {
            during.begin(changes);
        }
        during
    }

    /// Executes one operation. An error names the broken promise.
    pub fn apply(&mut self, step: Step, at: usize) -> Result<(), String> {
        if let Some(changes) = step.changes(at) {
            self.promise.begin(changes.clone());
            write(self.db(), &changes, step).map_err(|error| format!("{step} failed: {error}"))?;
            self.promise.acknowledge();
            if matches!(step, Step::PutSync(_)) {
                self.promise.sync();
            }
            return self.check_keys(&changes);
        }
        let done = match step {
            Step::Sync => self.db().sync(),
            Step::Flush => self.db().flush(),
            Step::Compact => self.db().compact(),
            Step::CompactRange(key) => self.db().compact_range(Step::range_from(key)),
            Step::Optimize(key) => self.db().optimize(Step::range_from(key)),
            Step::Work => {
                self.db().step();
                Ok(())
            }
            Step::Wait => {
                self.disk.advance(SYNC_INTERVAL);
                self.db().step();
                Ok(())
            }
            Step::Quiet => {
                for _ in 0..QUIET_SECONDS {
                    self.disk.advance(SECOND);
                    (0..WORK_MAX).take_while(|_| self.db().step()).for_each(drop);
                }
                Ok(())
            }
            Step::Full => return self.fill_the_disk(),
            Step::Snapshot => {
                let snapshot = self.db().snapshot();
                self.snapshots.push((snapshot, self.promise.contents()));
                Ok(())
            }
            Step::Reopen => {
                self.check_snapshots()?;
                self.snapshots.clear();
                let closed = self.db.take().map_or(Ok(()), DeterministicDb::close);
                closed.map_err(|error| format!("the store does not close: {error}"))?;
                self.promise.sync();
                return self.reopen(Death::Kill);
            }
            Step::Kill => return self.die(Death::Kill),
            Step::PowerCut(seed) => return self.die(Death::PowerCut(seed)),
            _ => unreachable!("the others are writes"),
        };
        done.map_err(|error| format!("{step} failed: {error}"))?;
        if !matches!(step, Step::Work | Step::Quiet | Step::Snapshot) {
            self.promise.sync();
        }
        Ok(())
    }

    /// The disk is full until background work has freed what it can; then there is space again.
    fn fill_the_disk(&mut self) -> Result<(), String> {
        let db = self.db();
        self.disk.set_capacity(Some(self.disk.used()));
        match db.flush() {
            Err(error) if !error.is_disk_full() => return Err(format!("a flush on a full disk failed: {error}")),
            _ => (0..WORK_MAX).take_while(|_| db.step()).for_each(drop),
        }
        self.disk.set_capacity(None);
        for _ in 0..WORK_MAX {
            self.disk.advance(FULL_DISK_LOOK);
            if !db.step() && !db.stats().disk_full {
                return Ok(());
            }
        }
        Err(format!("the disk has space, but the store does not resume: {}", db.stats()))
    }

    fn die(&mut self, death: Death) -> Result<(), String> {
        self.check_snapshots()?;
        self.snapshots.clear();
        self.disk = death.strike(&self.disk);
        self.disk.inject(self.faults);
        self.db = None;
        self.reopen(death)
    }

    fn reopen(&mut self, death: Death) -> Result<(), String> {
        let at_least = if death.loses_unsynced() { self.promise.synced } else { self.promise.acknowledged };
        let options = options().maplets(self.maplets);
        let db = open(&self.disk, options, self.tree).map_err(|error| format!("cannot open after {death}: {error}"))?;
        let found = contents(&db)?;
        self.promise.prefix(&found, at_least).map_err(|error| format!("after {death} {error}"))?;
        self.db = Some(db);
        self.promise = Promise::of(found);
        Ok(())
    }

    /// Checks everything once more at the end of a run.
    pub fn check(&self) -> Result<(), String> {
        let found = contents(self.db())?;
        if found != self.promise.contents() {
            return Err(format!("the running store shows {found:?}"));
        }
        self.db().verify().map_err(|error| format!("verify: {error}"))?;
        self.check_snapshots()
    }

    fn check_snapshots(&self) -> Result<(), String> {
        for (snapshot, contents) in &self.snapshots {
            let pairs: Result<Vec<_>, _> = snapshot.iter().and_then(Iterator::collect);
            let pairs = pairs.map_err(|error| format!("a scan of a snapshot failed: {error}"))?;
            let pairs = pairs.into_iter().map(|(key, value)| (String::from_utf8_lossy(&key).into_owned(), value));
            if pairs.collect::<Contents>() != *contents {
                return Err("a snapshot has changed".into());
            }
        }
        Ok(())
    }

    fn check_keys(&self, changes: &Changes) -> Result<(), String> {
        for (key, value) in changes {
            let found = self.db().get(key).map_err(|error| format!("get of {key}: {error}"))?;
            if found != *value {
                return Err(format!("{key} is not what was just written"));
            }
        }
        Ok(())
    }
}

/// Executes the write of a step.
pub fn write(db: &DeterministicDb, changes: &Changes, step: Step) -> alluvium::Result<()> {
    match (step, &changes[..]) {
        (Step::PutSync(_), [(key, Some(value))]) => db.put_with(key, value, WriteOptions::sync()),
        (Step::Merge(_), [(key, Some(value))]) => db.merge(key, value),
        (Step::Update(_), [(key, Some(value))]) => db.update(key, |_| Some(value.clone())).map(drop),
        (Step::Transaction(key), _) => transact(db, key, changes),
        (Step::DeleteRange(key), _) => db.delete_range(Step::range_from(key)),
        (Step::Replace(key), [(first, Some(value)), ..]) => {
            let mut batch = WriteBatch::new();
            batch.delete(first.as_str()).delete_range(Step::range_from(key)).put(first.as_str(), value.as_slice());
            db.write(batch)
        }
        (_, [(key, Some(value))]) => db.put(key, value),
        (_, [(key, None)]) => db.delete(key),
        _ => {
            let mut batch = WriteBatch::new();
            for (key, value) in changes {
                match value {
                    Some(value) => batch.put(key.as_str(), value.as_slice()),
                    None => batch.delete(key.as_str()),
                };
            }
            db.write(batch)
        }
    }
}

/// A transaction that is validated under latches for even keys, and by a registered range for odd keys.
fn transact(db: &DeterministicDb, key: u8, changes: &Changes) -> alluvium::Result<()> {
    let transaction = db.transaction()?;
    let own = transaction.get(name(key))?;
    if key % 2 == 1 {
        let scanned = transaction.range(Step::range_from(key))?.next().transpose()?;
        assert!(own.is_none() || scanned.map(|(_, value)| value) == own, "a get and a scan of one transaction differ");
    }
    for (key, value) in changes {
        match value {
            Some(value) => transaction.put(key, value)?,
            None => transaction.delete(key)?,
        }
    }
    transaction.commit()
}

/// The contents of the store; gets must agree with the iterator.
pub fn contents(db: &DeterministicDb) -> Result<Contents, String> {
    let pairs: Result<Vec<_>, _> = db.iter().and_then(Iterator::collect);
    let pairs = pairs.map_err(|error| format!("a scan failed: {error}"))?;
    let found: Contents =
        pairs.into_iter().map(|(key, value)| (String::from_utf8_lossy(&key).into_owned(), value)).collect();
    for key in (0..KEYS).map(name) {
        let got = db.get(&key).map_err(|error| format!("get of {key}: {error}"))?;
        if got.as_ref() != found.get(&key) {
            return Err(format!("get of {key} and the iterator differ"));
        }
    }
    Ok(found)
}

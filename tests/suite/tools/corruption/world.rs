//! A store with all kinds of files and known writes, on a simulated disk. Most have merges, by the operator `Append`, and
//! range deletes.

use crate::support::{Random, tiny_skip, tiny_unsynced};
use alluvium::internals::{DeterministicDb, LogOnlyWriter};
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{OpenMode, Storage};
use alluvium::{MergeOperator, Options, RepairReport, Snapshot, WriteBatch};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a write and the value after it.
pub type Version = (u64, Option<Vec<u8>>);

/// Files by name.
pub type Image = BTreeMap<String, Vec<u8>>;

/// Whether log segments have their smallest usual size, or are so small that a hundred writes fill several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Usual,
    Small,
    /// Usual segments, and levels instead of a tree.
    Levels,
}

/// How the store's last process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Closed,
    /// The log segment that it wrote last.
    Killed {
        current: String,
    },
}

/// The store and its expected contents.
pub struct World {
    pub disk: SimulatedStorage,
    pub image: Image,
    /// Earlier states of its files, oldest first, each with the last number at that time.
    pub stale: Vec<(u64, Image)>,
    /// All versions of every key, oldest first.
    pub versions: BTreeMap<Vec<u8>, Vec<Version>>,
    /// The number and the operand of each merge, oldest first.
    pub merges: BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>>,
    /// The number and the range of each range delete, oldest first.
    pub range_deletes: Vec<(u64, Range<Vec<u8>>)>,
    /// Whether it has merges and range deletes.
    mixed: bool,
    /// Of its merges.
    operator: Arc<dyn MergeOperator>,
    /// All numbers up to this one were synced; after a close, all numbers.
    pub synced: u64,
    pub end: End,
}

/// Opens an existing store.
pub fn open(disk: &SimulatedStorage) -> alluvium::Result<DeterministicDb> {
    open_as(disk, Size::Usual, merging(Some(Arc::new(Append))).create_if_missing(false))
}

fn merging(operator: Option<Arc<dyn MergeOperator>>) -> Options {
    let mut options = tiny_unsynced();
    options.merge_operator = operator;
    options
}

fn open_as(disk: &SimulatedStorage, size: Size, options: Options) -> alluvium::Result<DeterministicDb> {
    match size {
        Size::Levels => {
            let options = options.disk_component(tiny_skip());
            DeterministicDb::open(Arc::new(disk.clone()), options)
        }
        Size::Usual => DeterministicDb::open(Arc::new(disk.clone()), options),
        Size::Small => DeterministicDb::open_small(Arc::new(disk.clone()), options),
    }
}

impl World {
    /// A store that was closed.
    pub fn new(seed: u64) -> Self {
        Self::with_end(seed, Size::Usual, true)
    }

    /// Three openings, with branch files on two levels, value files, and records in the log. The last opening syncs
    /// once, in the middle of its writes; a close syncs all of them.
    pub fn with_end(seed: u64, size: Size, closes: bool) -> Self {
        Self::begin(seed, true).continued(seed, size, closes)
    }

    /// The same without merges and range deletes.
    pub fn of_puts_and_deletes(seed: u64, size: Size, closes: bool) -> Self {
        Self::begin(seed, false).continued(seed, size, closes)
    }

    fn begin(seed: u64, mixed: bool) -> Self {
        Self {
            disk: SimulatedStorage::new(seed),
            image: Image::new(),
            stale: Vec::new(),
            versions: BTreeMap::new(),
            merges: BTreeMap::new(),
            range_deletes: Vec::new(),
            mixed,
            operator: Arc::new(Append),
            synced: 0,
            end: End::Closed,
        }
    }

    fn continued(self, seed: u64, size: Size, closes: bool) -> Self {
        let (disk, mut random, mut world) = (self.disk.clone(), Random(seed), self);
        for (opening, writes) in [(0, 700), (1, 500), (2, 190)] {
            let merge_operator = world.mixed.then(|| Arc::clone(&world.operator));
            let db = open_as(&disk, size, merging(merge_operator)).unwrap();
            let mut log = (opening == 2 && size == Size::Small).then(|| db.log_writer());
            // With these, incorporations and merges leave the operands of a key as they are, one after the other.
            let mut snapshots: Vec<Snapshot> = Vec::new();
            for at in 0..writes {
                snapshots.extend((world.mixed && at % 5 == 0).then(|| db.snapshot()));
                world.write_to(&db, log.as_mut(), &mut random, at % 149 == 100);
                if at % 40 == 0 {
                    db.step();
                }
                if opening == 2 && at == writes / 4 * 3 && world.mixed && log.is_none() {
                    // The tree gets operands and range tombstones that no later opening merges.
                    db.flush().unwrap();
                }
                if opening == 2 && at == writes / 2 {
                    db.sync().unwrap();
                    world.synced = db.stats().last_number;
                }
                if opening > 0 && at % 23 == 22 {
                    world.stale.push((db.stats().last_number, disk.current_image()));
                }
            }
            if opening < 2 {
                db.flush().unwrap();
                while db.step() {}
            } else if !closes {
                world.write_to(&db, log.as_mut(), &mut random, false);
                let current = disk.current_image().into_keys().filter(|name| name.ends_with(".log")).max().unwrap();
                world.end = End::Killed { current };
                world.disk = disk.clone_disk();
                break;
            }
            world.synced = db.stats().last_number;
            drop(log);
            db.close().unwrap();
        }
        world.image = world.disk.current_image();
        world
    }

    fn write_to(&mut self, db: &DeterministicDb, log: Option<&mut LogOnlyWriter>, random: &mut Random, large: bool) {
        match log {
            Some(log) => self.write_to_log(db, log, random),
            None => self.write(db, random, 300, large),
        }
    }

    /// A write that stays in the log: a small store incorporates so early that its log has only one segment.
    fn write_to_log(&mut self, db: &DeterministicDb, writer: &mut LogOnlyWriter, random: &mut Random) {
        let (key, length) = (format!("key{:03}", random.below(300)).into_bytes(), 100 + random.below(200) as usize);
        let value = random.bytes(length);
        writer.put(&key, &value).unwrap();
        self.versions.entry(key).or_default().push((db.stats().last_number, Some(value)));
    }

    fn write(&mut self, db: &DeterministicDb, random: &mut Random, keys: u64, large: bool) {
        let (mut batch, mut written) = (WriteBatch::new(), BTreeMap::new());
        let (mut operands, mut deleted_range) = (Vec::new(), None);
        if self.mixed && random.one_in(12) {
            let from = random.below(keys);
            let [from, to] = [from, from + 1 + random.below(8)].map(|key| format!("key{key:03}").into_bytes());
            batch.delete_range(&from..&to);
            let deleted: Vec<_> = self.versions.range(from.clone()..to.clone()).map(|(key, _)| key.clone()).collect();
            deleted_range = Some(from..to);
            written.extend(deleted.into_iter().filter(|key| self.right(key).is_some()).map(|key| (key, None)));
        }
        for _ in 0..if random.one_in(10) { 3 } else { 1 } {
            // Some keys are written so often that they have several operands.
            let often = self.mixed && random.one_in(3);
            let key = if often { random.below(keys / 15) } else { random.below(keys) };
            let key = format!("key{key:03}").into_bytes();
            let length = if large { 270_000 } else { random.below(250) as usize };
            let value = (!random.one_in(8)).then(|| random.bytes(length));
            match &value {
                Some(operand) if self.mixed && !large && random.below(4) < if often { 3 } else { 2 } => {
                    batch.merge(&key, operand);
                    let older = match written.get(&key) {
                        Some(older) => older.as_deref(),
                        None => self.versions.get(&key).and_then(|versions| versions.last()?.1.as_deref()),
                    };
                    let value = [older.unwrap_or(&[]), operand].concat();
                    // After a put of the same batch, the result counts as put.
                    if !written.get(&key).is_some_and(Option::is_some) || operands.iter().any(|(of, _)| *of == key) {
                        operands.push((key.clone(), operand.clone()));
                    }
                    written.insert(key, Some(value));
                    continue;
                }
                Some(value) => batch.put(&key, value),
                None => batch.delete(&key),
            };
            operands.retain(|(merged, _)| *merged != key);
            written.insert(key, value);
        }
        db.write(batch).unwrap();
        let number = db.stats().last_number;
        for (key, value) in written {
            self.versions.entry(key).or_default().push((number, value));
        }
        self.range_deletes.extend(deleted_range.map(|range| (number, range)));
        for (key, operand) in operands {
            self.merges.entry(key).or_default().push((number, operand));
        }
    }

    /// Whether the newest write of a key is a merge.
    pub fn ends_with_a_merge(&self, key: &[u8]) -> bool {
        let last = self.merges.get(key).and_then(|merges| merges.last());
        last.is_some_and(|(number, _)| self.versions[key].last().is_some_and(|(newest, _)| newest == number))
    }

    /// Whether a value consists of whole values and operands that were written to the key, whichever they are.
    pub fn has_pieces_of(&self, key: &[u8], value: &[u8]) -> bool {
        let merges = || self.merges.get(key).into_iter().flatten();
        let is_put = |(number, _): &&Version| merges().all(|(merged, _)| merged != number);
        let puts = self.versions[key].iter().filter(is_put).filter_map(|(_, value)| value.as_deref());
        let pieces: Vec<&[u8]> = puts.chain(merges().map(|(_, operand)| &operand[..])).collect();
        let mut ends = vec![false; value.len() + 1];
        ends[0] = true;
        for at in 0..value.len() {
            if ends[at] {
                let here = pieces.iter().filter(|piece| value[at..].starts_with(piece));
                here.for_each(|piece| ends[at + piece.len()] = true);
            }
        }
        ends[value.len()]
    }

    /// A store with levels of which some keys wait in memory, in branches that depend on at least two files. It has no
    /// merges and no range deletes: what has these does not wait in memory.
    pub fn with_parents(seed: u64) -> Self {
        let mut world = Self::of_puts_and_deletes(seed, Size::Levels, true);
        let (db, mut random) = (open(&world.disk).unwrap(), Random(seed));
        let mut rounds = 0;
        while world.parents(&db).len() < 2 {
            rounds += 1;
            assert!(rounds < 200, "no key waits in memory: {}", db.stats());
            (0..50).for_each(|_| world.write(&db, &mut random, 5000, false));
            db.flush().unwrap();
            while db.step() {}
        }
        world.synced = db.stats().last_number;
        db.close().unwrap();
        world.image = world.disk.current_image();
        world
    }

    /// The branch files that no run has: they are kept for what is in memory.
    pub fn parents(&self, db: &DeterministicDb) -> Vec<String> {
        let in_runs: Vec<String> = db.branch_files().into_iter().map(|file| file.name).collect();
        let files = self.disk.current_image().into_keys().filter(|name| name.ends_with(".branch"));
        files.filter(|name| !in_runs.contains(name)).collect()
    }

    /// The expected value of a key.
    pub fn right(&self, key: &[u8]) -> Option<&[u8]> {
        self.at(key, u64::MAX)
    }

    /// The value that a key had at this number.
    pub fn at(&self, key: &[u8], number: u64) -> Option<&[u8]> {
        self.version_at(key, number).and_then(|(_, value)| value.as_deref())
    }

    fn version_at(&self, key: &[u8], number: u64) -> Option<&Version> {
        let versions = &self.versions[key];
        versions[..versions.partition_point(|(of, _)| *of <= number)].last()
    }

    /// Whether a key may have this value if the writes after a number may be lost.
    pub fn is_of_number_or_later(&self, key: &[u8], number: u64, found: Option<&[u8]>) -> bool {
        let later = self.versions[key].iter().filter(|(of, _)| *of > number);
        found == self.at(key, number) || later.into_iter().any(|(_, value)| value.as_deref() == found)
    }

    /// The same disk with other files.
    pub fn with(&self, changed: &Image, removed: &[String]) -> SimulatedStorage {
        let disk = self.disk.clone_disk();
        for name in changed.keys().chain(removed) {
            if disk.current_image().contains_key(name) {
                disk.remove(name).unwrap();
            }
        }
        for (name, bytes) in changed {
            let file = disk.open(name, OpenMode::Create).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            file.sync().unwrap();
        }
        disk.sync_directory().unwrap();
        disk
    }

    /// The numbers of the writes that make the value of a key at this number: the newest one and, below a merge, what that
    /// is merged into.
    fn needed_at(&self, key: &[u8], number: u64) -> Vec<u64> {
        let is_merge = |number: &u64| self.merges.get(key).is_some_and(|all| all.iter().any(|(of, _)| of == number));
        let numbers: Vec<u64> = self.versions[key].iter().map(|(of, _)| *of).filter(|of| *of <= number).collect();
        let kept = numbers.iter().rev().take_while(|number| is_merge(number)).count() + 1;
        numbers[numbers.len().saturating_sub(kept)..].to_vec()
    }

    /// Whether repair reported that the newest value of this key may be lost.
    pub fn reports_loss(&self, report: &RepairReport, key: &[u8]) -> bool {
        self.reports_loss_at(report, key, u64::MAX)
    }

    /// Whether repair reported that the value that this key had at this number may be lost.
    pub fn reports_loss_at(&self, report: &RepairReport, key: &[u8], number: u64) -> bool {
        let needed = self.needed_at(key, number);
        report.losses.iter().any(|loss| {
            let by_number = loss.numbers.as_ref().is_some_and(|lost| needed.iter().any(|number| lost.contains(number)));
            let by_key = match &loss.keys {
                Some(alluvium::LostKeys::One(lost)) => lost == key,
                Some(alluvium::LostKeys::Between { after, before }) => {
                    after.as_deref().is_none_or(|after| after <= key)
                        && before.as_deref().is_none_or(|before| key <= before)
                }
                _ => false,
            };
            by_number || by_key
        })
    }
}

/// `Append` that counts how often it joins several operands.
#[derive(Default)]
struct Counting {
    chains: AtomicU64,
}

impl MergeOperator for Counting {
    fn name(&self) -> &str {
        "test.append"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        self.chains.fetch_add(u64::from(operands.len() > 1), Ordering::Relaxed);
        Append.full_merge(key, base, operands, out)
    }
}

/// Whether a branch file has range tombstones; see `docs/format/branch.md`, Footer.
pub fn has_range_tombstones(branch: &[u8]) -> bool {
    let footer = branch.len() - 4096 + 32;
    let [tombstones, properties] = [104, 112].map(|at| &branch[footer + at..][..8]);
    tombstones != properties
}

/// The damage meets merges and range deletes: operands in chains in the tree, range tombstones in branch files, and both
/// in the log.
#[test]
fn worlds_have_merges_and_range_deletes_in_tree_and_log() {
    for (size, closes) in [(Size::Usual, true), (Size::Usual, false), (Size::Levels, true), (Size::Small, true)] {
        let operator = Arc::new(Counting::default());
        let merge_operator: Arc<dyn MergeOperator> = operator.clone();
        let begun = World { operator: Arc::clone(&merge_operator), ..World::begin(5, true) };
        let world = begun.continued(5, size, closes);
        let branches = world.image.iter().filter(|(name, _)| name.ends_with(".branch"));
        let of_tombstones = branches.filter(|(_, bytes)| has_range_tombstones(bytes)).count();
        let db = open_as(&world.disk.clone_disk(), size, merging(Some(merge_operator))).unwrap();
        let incorporated = db.stats().incorporated_number;
        let in_log = |number: u64| number > incorporated;
        operator.chains.store(0, Ordering::Relaxed);
        for (key, versions) in world.versions.iter().filter(|(_, versions)| !in_log(versions.last().unwrap().0)) {
            assert_eq!(db.get(key).unwrap(), versions.last().unwrap().1, "{size:?}");
        }
        let chains = operator.chains.load(Ordering::Relaxed);
        // The last writes of a store with small segments are puts (`write_to_log`).
        if size != Size::Small {
            assert!(chains > 0 && of_tombstones > 0, "{size:?}: {chains}, {of_tombstones}");
            assert!(world.merges.values().any(|merges| in_log(merges.last().unwrap().0)), "{size:?}");
            assert!(world.range_deletes.iter().any(|(number, _)| in_log(*number)), "{size:?}");
        }
        let plain = World::of_puts_and_deletes(5, size, closes);
        assert!(plain.merges.is_empty() && plain.range_deletes.is_empty());
        assert!(plain.image.iter().all(|(name, bytes)| !name.ends_with(".branch") || !has_range_tombstones(bytes)));
    }
}

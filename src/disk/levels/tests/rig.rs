//! Levels without a store: the test itself does the work of the background threads and the manifest, and checks
//! everything after each step.

use crate::branch::{BlockingPages, BranchContext, BranchResources, Compression, ExtentMemory};
use crate::branch::{file_name, parse_file_name};
use crate::cache::{FileTable, PageCache};
use crate::disk::levels::{Job, Levels, LevelsOptions, LevelsTuning, LevelsVersion, Outcome};
use crate::disk::levels::{check_runs, check_stored, check_structure};
use crate::disk::runs::from_memory::FromMemory;
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::manifest::ManifestState;
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::merge::{Cursor, MergeOperator, RangeTombstone, RangeTombstones, Retention, VisibleCursor};
use crate::util::key::encoded;
use crate::util::random::splitmix64;
use crate::util::sync::{Arc, AtomicBool};
use crate::util::{DatabaseId, FileNumber, FileNumbers, KeyspaceId, Kind, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};

/// The size of a Memtable of the rig.
pub const MEMTABLE: u64 = 16 << 10;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// A key from a number, in the number's order.
pub fn number_key(number: u64) -> Vec<u8> {
    encoded(KeyspaceId::DEFAULT, format!("{number:08}").as_bytes())
}

/// A write of any kind.
#[derive(Clone, Debug)]
pub enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    /// Deletes the keys from the first to below the second.
    RangeDelete(Vec<u8>, Vec<u8>),
}

/// Appends operands to the value, or to a marker if there is no value.
pub struct Append;

const NO_BASE: &[u8] = b"^";

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(base.unwrap_or(NO_BASE));
        operands.iter().for_each(|operand| out.extend_from_slice(operand));
        Ok(())
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(older);
        out.extend_from_slice(newer);
        // Not always, so that some chains of operands remain.
        !older.len().is_multiple_of(3)
    }
}

pub struct Rig {
    pub disk: SimulatedStorage,
    pub context: Arc<BranchContext>,
    pub levels: Levels,
    pub version: Arc<LevelsVersion>,
    pub state: ManifestState,
    /// Every write ever, oldest first: the write of number n is at n - 1.
    writes: Vec<Write>,
    pub last: u64,
    pub pins: BTreeSet<u64>,
}

/// Options so small that several levels form.
pub fn small(options: LevelsOptions) -> LevelsOptions {
    LevelsOptions {
        size_ratio: 3,
        runs_per_level: options.runs_per_level.min(3),
        level0_runs: 3,
        file_bytes: Some(8192),
        base_level_bytes: Some(64 << 10),
        ..options
    }
}

impl Rig {
    pub fn new(options: &LevelsOptions) -> Self {
        let disk = SimulatedStorage::new(1);
        disk.create_directory().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let context = BranchContext::new(BranchResources {
            storage: Arc::clone(&storage),
            database: DatabaseId(42),
            cache: Arc::new(PageCache::new(64 << 20)),
            files: Arc::new(FileTable::new(storage, 100)),
            numbers: Arc::new(FileNumbers::new(FileNumber(1))),
            form: Compression::None.into(),
            extents: ExtentMemory::new(64 << 20),
        });
        let mut state = ManifestState::default();
        state.apply(&Levels::create_edit(options.shape(MEMTABLE).unwrap())).unwrap();
        let (levels, version) = Levels::open(Arc::clone(&context), tuning(&state), &state).unwrap();
        Self { disk, context, levels, version, state, writes: Vec::new(), last: 0, pins: BTreeSet::new() }
    }

    pub fn retention(&self) -> Retention {
        Retention::new(self.pins.iter().map(|pin| SequenceNumber(*pin)).collect())
    }

    /// Numbers the writes, as a Memtable would hold them, and incorporates them.
    pub fn incorporate(&mut self, writes: Vec<Write>) {
        let (mut entries, mut deletions) = (Vec::new(), Vec::new());
        for write in writes {
            self.last += 1;
            match &write {
                Write::Put(key, value) => entries.push(VecEntry::new(key.clone(), self.last, Kind::Put, value.clone())),
                Write::Delete(key) => entries.push(VecEntry::new(key.clone(), self.last, Kind::Delete, Vec::new())),
                Write::Merge(key, operand) => {
                    entries.push(VecEntry::new(key.clone(), self.last, Kind::Merge, operand.clone()));
                }
                Write::RangeDelete(start, end) => deletions.push(RangeTombstone {
                    start: start.clone(),
                    end: end.clone(),
                    number: SequenceNumber(self.last),
                }),
            }
            self.writes.push(write);
        }
        let through = SequenceNumber(self.last);
        let retention = self.retention();
        let (never, tombstones) = (AtomicBool::new(false), RangeTombstones::new(deletions));
        let entries = &mut VecCursor::new(entries);
        let source = FromMemory { entries, tombstones: &tombstones, through, is_oldest: true };
        let outcome = self.levels.incorporate(&self.version, source, &retention, &never).unwrap().unwrap();
        self.apply(outcome);
    }

    /// Applies an outcome, and replays its edit.
    pub fn apply(&mut self, outcome: Outcome) {
        let is_merge = outcome.is_merge();
        let applied = self.levels.apply(outcome, &self.version);
        if !applied.is_empty() {
            self.state.apply(&applied.edit).unwrap();
        }
        self.version = Arc::clone(&applied.version);
        applied.finish();
        if is_merge {
            // As the publisher of a store.
            self.levels.clear_failures();
        }
        self.remove_obsolete_files();
        self.check();
    }

    fn remove_obsolete_files(&self) {
        for file in self.context.take_obsolete_branches() {
            self.disk.remove(&file_name(file)).unwrap();
        }
    }

    /// Does a job's I/O.
    pub fn run(&self, job: &Job) -> Outcome {
        self.levels.run(job, &self.version, &self.retention(), &AtomicBool::new(false)).unwrap()
    }

    /// Runs a job to its end.
    pub fn finish(&mut self, job: &Job) {
        let outcome = self.run(job);
        self.apply(outcome);
    }

    pub fn pick(&self) -> Option<Job> {
        self.levels.pick(&self.version, &self.retention())
    }

    /// Does all due work. Returns the jobs as text.
    pub fn work(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        while let Some(job) = self.pick() {
            done.push(job.to_string());
            self.finish(&job);
            assert!(done.len() < 10_000, "work does not end: {:?}\n{}", &done[9_980..], self.describe());
        }
        let levels = self.version.levels();
        let debts = levels.len() > 1 && self.version.debt() > 0;
        assert!(!debts, "debt of {} is left\n{}", self.version.debt(), self.describe());
        done
    }

    /// Checks that manifest and version agree, and that the disk has the files that the manifest names.
    pub fn check(&self) {
        self.state.check().unwrap();
        check_structure(&self.version).unwrap();
        check_runs(&self.version, &self.state).unwrap();
        let figures = self.version.figures();
        assert_eq!(figures.files, self.state.branches.len() as u64);
        assert_eq!(figures.file_bytes, self.state.branches.values().map(|meta| meta.bytes).sum::<u64>());
        let files = self.files();
        assert!(self.state.branches.keys().all(|file| files.contains(file)));
    }

    fn files(&self) -> BTreeSet<FileNumber> {
        self.disk.list().unwrap().iter().filter_map(|name| parse_file_name(name)).collect()
    }

    /// Opens the levels again from a snapshot of the manifest. The version must be the same.
    pub fn reopen(&mut self) {
        assert_eq!(self.levels.running(), 0);
        self.remove_obsolete_files();
        assert_eq!(self.files(), self.state.branches.keys().copied().collect());
        let mut state = ManifestState::default();
        state.apply(&self.state.snapshot_edit()).unwrap();
        assert_eq!(state, self.state);
        let before = self.describe();
        (self.levels, self.version) = Levels::open(Arc::clone(&self.context), tuning(&state), &state).unwrap();
        assert_eq!(self.describe(), before);
    }

    /// The runs as text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (level, run) in self.version.runs() {
            text += &format!("level {level} run {}:", run.id.0);
            for part in run.run.parts() {
                let meta = part.meta();
                let key = |key: &[u8]| key[4..].escape_ascii().to_string();
                text += &format!(" {} [{}, {}]", meta.file.0, key(&meta.key_min), key(&meta.key_max));
            }
            text.push('\n');
        }
        text
    }

    /// The pairs that a reader at `pin` must see.
    pub fn expected(&self, pin: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut pairs: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for write in &self.writes[..self.writes.len().min(pin as usize)] {
            match write {
                Write::Put(key, value) => drop(pairs.insert(key.clone(), value.clone())),
                Write::Delete(key) => drop(pairs.remove(key)),
                Write::Merge(key, operand) => {
                    pairs.entry(key.clone()).or_insert_with(|| NO_BASE.to_vec()).extend_from_slice(operand);
                }
                Write::RangeDelete(start, end) => pairs.retain(|key, _| key < start || key >= end),
            }
        }
        pairs
    }

    /// Checks the order of versions, scans in both directions and gets, at every pin and at the newest number.
    pub fn check_reads(&self, random: &mut Random, gets: usize) {
        let shape = self.state.levels.unwrap();
        check_stored(&self.context, (shape, &self.state), true, &mut |found| found).unwrap();
        for pin in self.pins.iter().copied().chain([SequenceNumber::MAX.0]) {
            let expected = self.expected(pin);
            for backward in [false, true] {
                let seen = self.scan(pin, backward);
                assert!(seen == expected, "scan at {pin}: {} keys, not {}", seen.len(), expected.len());
            }
            for _ in 0..gets {
                let key = match &self.writes[random.below(self.writes.len())] {
                    Write::Put(key, _) | Write::Delete(key) | Write::Merge(key, _) | Write::RangeDelete(key, _) => key,
                };
                assert_eq!(self.get(key, pin).as_ref(), expected.get(key), "{} at {pin}", key.escape_ascii());
            }
        }
        self.check_seeks(random, gets);
    }

    fn scan(&self, pin: u64, backward: bool) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let cursor = VisibleCursor::new(self.version.cursor(), SequenceNumber(pin), Vec::new(), None);
        let mut cursor = cursor.masked(self.version.has_range_tombstones());
        let mut seen = BTreeMap::new();
        if backward {
            cursor.seek_last().unwrap()
        } else {
            cursor.seek_first().unwrap()
        }
        while cursor.valid() {
            let entry = cursor.entry();
            let operands: Vec<&[u8]> = cursor.operands().iter().map(|operand| &operand[..]).collect();
            let value = folded(entry.kind, entry.value, &operands).unwrap();
            assert!(seen.insert(entry.key.to_vec(), value).is_none());
            if backward { cursor.prev().unwrap() } else { cursor.next().unwrap() }
        }
        seen
    }

    /// The value that a get finds at `pin`, operands gathered one by one.
    pub fn get(&self, key: &[u8], pin: u64) -> Option<Vec<u8>> {
        let hash = crate::util::hash::encoded_key_hash(key);
        let (mut at, mut operands) = (SequenceNumber(pin), Vec::new());
        loop {
            let mut out = Vec::new();
            let kind = match self.version.get(key, hash, at, &mut BlockingPages::new(), &mut out).unwrap() {
                Some((number, Kind::Merge)) => {
                    operands.insert(0, out);
                    at = SequenceNumber(number.0 - 1);
                    continue;
                }
                Some((_, kind)) => kind,
                None => Kind::Delete,
            };
            let operands: Vec<&[u8]> = operands.iter().map(|operand: &Vec<u8>| &operand[..]).collect();
            return folded(kind, &out, &operands);
        }
    }

    /// Seeks and steps of the cursor, against a list of all its entries.
    fn check_seeks(&self, random: &mut Random, seeks: usize) {
        let mut entries = Vec::new();
        let mut cursor = self.version.cursor();
        cursor.seek_first().unwrap();
        while cursor.valid() {
            entries.push(VecEntry::from(cursor.entry()));
            cursor.next().unwrap();
        }
        assert!(entries.is_sorted_by(|one, other| one.as_ref().order(&other.key, other.number).is_lt()));
        for _ in 0..seeks {
            let key = number_key(random.next() % 4000);
            let number = SequenceNumber(random.next() % (self.last + 2));
            let mut at = Some(entries.partition_point(|entry| entry.as_ref().order(&key, number).is_lt()));
            if random.below(2) == 0 {
                cursor.seek(&key, number).unwrap();
            } else {
                at = entries.partition_point(|entry| entry.as_ref().order(&key, number).is_le()).checked_sub(1);
                cursor.seek_for_prev(&key, number).unwrap();
            }
            for _ in 0..random.below(6) {
                let Some(position) = at.filter(|at| *at < entries.len()) else { break };
                assert_eq!(VecEntry::from(cursor.entry()), entries[position]);
                if random.below(2) == 0 {
                    cursor.next().unwrap();
                    at = Some(position + 1);
                } else {
                    cursor.prev().unwrap();
                    at = position.checked_sub(1);
                }
            }
            let found = cursor.valid().then(|| VecEntry::from(cursor.entry()));
            assert_eq!(found.as_ref(), at.and_then(|at| entries.get(at)));
        }
    }
}

/// The tuning of a state.
fn tuning(state: &ManifestState) -> LevelsTuning {
    LevelsTuning { shape: state.levels.unwrap(), memtable_bytes: MEMTABLE, merge_operator: Some(Arc::new(Append)) }
}

/// The result of applying operands, oldest first, to an entry of this kind.
fn folded(kind: Kind, value: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
    let base = match kind {
        Kind::Put => Some(value),
        Kind::Delete | Kind::RangeDelete => None,
        other => panic!("an entry of kind {other:?}"),
    };
    if operands.is_empty() {
        return base.map(<[u8]>::to_vec);
    }
    let mut out = Vec::new();
    Append.full_merge(b"", base, operands, &mut out).unwrap();
    Some(out)
}

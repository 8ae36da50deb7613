//! Levels without a store: the test itself does the work of the background threads and the manifest, and checks
//! everything after each step.

use crate::branch::{BlockingPages, BranchContext, file_name, parse_file_name};
use crate::disk::levels::{Job, Levels, LevelsOptions, LevelsTuning, LevelsVersion, Outcome};
use crate::disk::levels::{check_runs, check_stored, check_structure};
use crate::disk::runs::from_memory::FromMemory;
use crate::disk::runs::testing::{self, Append, NO_BASE};
pub use crate::disk::runs::testing::{AnyWrite, Random, key, number_key};
use crate::format::manifest_edit::ManifestEdit;
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::manifest::ManifestState;
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::merge::{Cursor, MergeOperators, Retention};
use crate::util::sync::{Arc, AtomicBool};
use crate::util::{FileNumber, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};

/// The size of a Memtable of the rig.
pub const MEMTABLE: u64 = 16 << 10;

pub struct Rig {
    pub disk: SimulatedStorage,
    pub context: Arc<BranchContext>,
    pub levels: Levels,
    pub version: Arc<LevelsVersion>,
    pub state: ManifestState,
    /// Every write ever, oldest first: the write of number n is at n - 1.
    writes: Vec<AnyWrite>,
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
        let (disk, context) = testing::disk();
        let mut state = ManifestState::default();
        state.apply(&Levels::create_edit(options.shape(MEMTABLE).unwrap())).unwrap();
        let (levels, version) = Levels::open(Arc::clone(&context), tuning(&state), &state).unwrap();
        Self { disk, context, levels, version, state, writes: Vec::new(), last: 0, pins: BTreeSet::new() }
    }

    pub fn retention(&self) -> Retention {
        Retention::new(self.pins.iter().map(|pin| SequenceNumber(*pin)).collect())
    }

    /// Numbers the writes, as a Memtable would hold them, and incorporates them.
    pub fn incorporate(&mut self, writes: Vec<AnyWrite>) {
        let (entries, tombstones) = testing::from_memory(&writes, self.last + 1);
        self.last += writes.len() as u64;
        self.writes.extend(writes);
        let through = SequenceNumber(self.last);
        let (retention, never) = (self.retention(), AtomicBool::new(false));
        let source =
            FromMemory { entries: &mut VecCursor::new(entries), tombstones: &tombstones, through, is_oldest: true };
        let outcome = self.levels.incorporate(&self.version, source, &retention, &never).unwrap().unwrap();
        self.apply(outcome);
    }

    /// Applies an outcome, and replays its edit, which it returns.
    pub fn apply(&mut self, outcome: Outcome) -> ManifestEdit {
        let is_merge = outcome.is_merge();
        let applied = self.levels.apply(outcome, &self.version);
        if !applied.is_empty() {
            self.state.apply(&applied.edit).unwrap();
        }
        self.version = Arc::clone(&applied.version);
        let edit = applied.edit.clone();
        applied.finish();
        if is_merge {
            // As the publisher of a store.
            self.levels.clear_failures();
        }
        self.remove_obsolete_files();
        self.check();
        edit
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
        let lost = self.state.branches.keys().find(|file| !files.contains(file));
        assert_eq!(lost, None, "a file of the manifest is not on the disk");
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

    /// Opens the levels as after a crash: what the manifest does not name is removed, whatever was in memory is gone.
    pub fn crash(&mut self) {
        let strays = self.files().into_iter().filter(|file| !self.state.branches.contains_key(file));
        strays.for_each(|file| self.disk.remove(&file_name(file)).unwrap());
        (self.levels, self.version) =
            Levels::open(Arc::clone(&self.context), tuning(&self.state), &self.state).unwrap();
        self.check();
    }

    /// The runs as text.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (level, run) in self.version.runs() {
            text += &format!("level {level} run {}:", run.id.0);
            for part in run.run.parts() {
                let meta = part.meta();
                let key = |key: &[u8]| key[4..].escape_ascii().to_string();
                let place = if part.in_buffer().is_some() { " in memory" } else { "" };
                text += &format!(" {}{place} [{}, {}]", meta.file.0, key(&meta.key_min), key(&meta.key_max));
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
                AnyWrite::Put(key, value) => drop(pairs.insert(key.clone(), value.clone())),
                AnyWrite::Delete(key) => drop(pairs.remove(key)),
                AnyWrite::Merge(key, operand) => {
                    pairs.entry(key.clone()).or_insert_with(|| NO_BASE.to_vec()).extend_from_slice(operand);
                }
                AnyWrite::RangeDelete(start, end) => pairs.retain(|key, _| key < start || key >= end),
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
                let key = self.writes[random.below(self.writes.len())].key();
                assert_eq!(self.get(key, pin).as_ref(), expected.get(key), "{} at {pin}", key.escape_ascii());
            }
        }
        self.check_seeks(random, gets);
    }

    fn scan(&self, pin: u64, backward: bool) -> BTreeMap<Vec<u8>, Vec<u8>> {
        testing::scan(self.version.cursor(), self.version.has_range_tombstones(), pin, backward)
    }

    /// The value that a get finds at `pin`.
    pub fn get(&self, key: &[u8], pin: u64) -> Option<Vec<u8>> {
        let hash = crate::util::hash::encoded_key_hash(key);
        testing::get(pin, |at, out| self.version.get(key, hash, at, &mut BlockingPages::new(), out).unwrap())
    }

    /// Seeks and steps of the cursor, against a list of all its entries.
    fn check_seeks(&self, random: &mut Random, seeks: usize) {
        let mut cursor = self.version.cursor();
        let entries = testing::entries(&mut cursor);
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
pub fn tuning(state: &ManifestState) -> LevelsTuning {
    LevelsTuning::new(state.levels.unwrap(), MEMTABLE, 32 * MEMTABLE, MergeOperators::new(Some(Arc::new(Append))))
}

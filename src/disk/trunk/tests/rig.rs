//! A trunk without a store: the test itself does the work of the background threads and the manifest, and checks
//! everything after each step.

use crate::branch::{BlockingPages, BranchContext, file_name, maplet_name, parse_file_name, parse_maplet_name};
use crate::disk::runs::from_memory::FromMemory;
use crate::disk::runs::testing::{self, NO_BASE};
pub use crate::disk::runs::testing::{AnyWrite, Append, Random, key, number_key};
use crate::disk::trunk::Applied;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::{Job, Outcome, Tree, Trunk, TrunkOptions, check_structure, check_tree};
use crate::io::Storage;
use crate::io::simulated::{Operation, SimulatedStorage};
use crate::manifest::ManifestState;
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::merge::{Cursor, Retention};
use crate::util::sync::{Arc, AtomicBool};
use crate::util::{FileNumber, SequenceNumber};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// A key and its new value. `None` deletes.
pub type Write = (Vec<u8>, Option<Vec<u8>>);

impl From<Write> for AnyWrite {
    fn from((key, value): Write) -> Self {
        match value {
            Some(value) => Self::Put(key, value),
            None => Self::Delete(key),
        }
    }
}

pub struct Rig {
    pub disk: SimulatedStorage,
    pub context: Arc<BranchContext>,
    pub trunk: Trunk,
    pub tree: Arc<Tree>,
    pub state: ManifestState,
    options: TrunkOptions,
    /// Every write ever, oldest first: the write of number n is at n - 1.
    writes: Vec<AnyWrite>,
    /// Every key ever written, and the numbers of its writes.
    keys: BTreeMap<Vec<u8>, Vec<u64>>,
    range_deletes: Vec<u64>,
    pub last: u64,
    pub pins: BTreeSet<u64>,
    pub user_entries: u64,
    pub user_bytes: u64,
    /// Whether to check the whole structure after every change; slow for large loads.
    pub checks: bool,
}

/// Options for branches of about `branch_bytes`, with everything else scaled down as well.
pub fn small_options(branch_bytes: u64) -> TrunkOptions {
    TrunkOptions { leaf_bytes_min: 128 << 10, part_bytes_min: 4096, probes_max: 3, ..TrunkOptions::new(branch_bytes) }
}

impl Rig {
    pub fn new(options: TrunkOptions) -> Self {
        let (disk, context) = testing::disk();
        let mut state = ManifestState::default();
        state.apply(&Trunk::create_edit()).unwrap();
        let (trunk, tree) = Trunk::open(Arc::clone(&context), options.clone(), &state).unwrap();
        Self {
            disk,
            context,
            trunk,
            tree,
            state,
            options,
            writes: Vec::new(),
            keys: BTreeMap::new(),
            range_deletes: Vec::new(),
            last: 0,
            pins: BTreeSet::new(),
            user_entries: 0,
            user_bytes: 0,
            checks: true,
        }
    }

    pub fn retention(&self) -> Retention {
        Retention::new(self.pins.iter().map(|pin| SequenceNumber(*pin)).collect())
    }

    /// Numbers the writes, as a Memtable would hold them, and incorporates them.
    pub fn incorporate(&mut self, writes: Vec<Write>) {
        let outcome = self.incorporation(writes);
        self.apply(outcome);
    }

    /// As `incorporate`, but does not apply the outcome.
    pub fn incorporation(&mut self, writes: Vec<Write>) -> Outcome {
        self.incorporation_of(writes.into_iter().map(AnyWrite::from).collect())
    }

    /// As `incorporation`, for writes of any kind.
    pub fn incorporation_of(&mut self, writes: Vec<AnyWrite>) -> Outcome {
        let (entries, tombstones) = testing::from_memory(&writes, self.last + 1);
        for write in writes {
            self.last += 1;
            self.user_entries += 1;
            self.user_bytes += write.bytes() as u64;
            if let AnyWrite::RangeDelete(..) = write {
                self.range_deletes.push(self.last);
            } else {
                self.keys.entry(write.key().clone()).or_default().push(self.last);
            }
            self.writes.push(write);
        }
        let through = SequenceNumber(self.last);
        let (retention, never) = (self.retention(), AtomicBool::new(false));
        let source =
            FromMemory { entries: &mut VecCursor::new(entries), tombstones: &tombstones, through, is_oldest: true };
        self.trunk.incorporate(&self.tree, source, &retention, &never).unwrap().unwrap()
    }

    pub fn apply(&mut self, outcome: Outcome) {
        let is_merge = outcome.is_merge();
        let applied = self.trunk.apply(outcome, &self.tree);
        self.publish(applied);
        if is_merge {
            // As the publisher of a store.
            self.trunk.clear_failures();
        }
    }

    fn publish(&mut self, applied: Applied) {
        if !applied.is_empty() {
            self.state.apply(&applied.edit).unwrap();
        }
        self.tree = Arc::clone(&applied.tree);
        applied.finish();
        self.remove_obsolete_files();
        if self.checks {
            self.check();
        }
    }

    /// Removes the files of obsolete branches and maplets.
    pub fn remove_obsolete_files(&self) {
        for file in self.context.take_obsolete_branches() {
            self.disk.remove(&file_name(file)).unwrap();
        }
        for file in self.context.take_obsolete_maplets() {
            self.disk.remove(&maplet_name(file)).unwrap();
        }
    }

    /// Runs a job to its end.
    pub fn finish(&mut self, job: &Job) {
        let outcome = self.trunk.run(job, &self.tree, &self.retention(), &AtomicBool::new(false)).unwrap();
        self.apply(outcome);
    }

    /// Does all due work. Returns the jobs as text.
    pub fn work(&mut self) -> Vec<String> {
        let mut done = Vec::new();
        while let Some(job) = self.trunk.pick(&self.tree, &self.retention()) {
            done.push(job.to_string());
            self.finish(&job);
            assert!(done.len() < 10_000, "work does not end: {:?}\n{}", &done[9_980..], self.tree.describe());
        }
        let has_few = |node: &Node| !node.is_leaf() && node.pivots.len() < 2 && self.options.fanout > 2;
        self.tree.visit(&mut |node| assert!(!has_few(node), "a node with one child remains\n{}", self.tree.describe()));
        done
    }

    /// Checks that manifest and tree agree, and that the disk has the files that the manifest names.
    pub fn check(&self) {
        self.state.check().unwrap();
        check_structure(&self.tree).unwrap();
        let mut nodes = 0;
        self.tree.visit(&mut |node| {
            nodes += 1;
            assert_eq!(self.state.nodes.get(&node.id), Some(&node.image()));
            if !node.is_leaf() {
                let children = node.pivots.len();
                assert!(children >= 1 && children <= self.options.fanout, "{children} children");
            }
        });
        assert_eq!(nodes, self.state.nodes.len());
        let files = self.files();
        assert!(self.state.branches.keys().all(|file| files.contains(file)));
        assert_eq!(self.maplets(), self.state.maplets.keys().copied().collect());
        let names = self.disk.list().unwrap();
        assert!(self.state.maplets.keys().all(|file| names.contains(&maplet_name(*file))));
        let figures = self.tree.figures();
        assert_eq!(figures.files, self.state.branches.len() as u64);
        assert_eq!(figures.levels.iter().map(|level| level.load.bytes).sum::<u64>(), self.tree.bytes());
    }

    /// As `check`, and also checks that the disk has no other file. No old tree and no job may be in use.
    pub fn check_files(&self) {
        self.remove_obsolete_files();
        self.check();
        assert_eq!(self.files(), self.state.branches.keys().copied().collect());
        let names = self.disk.list().unwrap();
        let found: BTreeSet<FileNumber> = names.iter().filter_map(|name| parse_maplet_name(name)).collect();
        assert_eq!(found, self.maplets());
    }

    /// The maplets that serve the tree.
    pub fn maplets(&self) -> BTreeSet<FileNumber> {
        self.tree.maplets().iter().map(|maplet| maplet.meta().file).collect()
    }

    /// Checks that every maplet has every key of its branches.
    pub fn check_maplets(&self) {
        let branches: Vec<_> = self.tree.branches().into_iter().cloned().collect();
        self.tree.maplets().into_iter().for_each(|maplet| maplet.verify(&branches, true).unwrap());
    }

    fn files(&self) -> BTreeSet<FileNumber> {
        self.disk.list().unwrap().iter().filter_map(|name| parse_file_name(name)).collect()
    }

    /// The pairs that a reader at `pin` must see.
    pub fn expected(&self, pin: u64) -> BTreeMap<&[u8], Cow<'_, [u8]>> {
        let shown = |key: &'_ Vec<u8>, numbers: &Vec<u64>| {
            let covers = |number: &&u64| match &self.writes[**number as usize - 1] {
                AnyWrite::RangeDelete(start, end) => **number <= pin && start <= key && key < end,
                _ => false,
            };
            let floor = self.range_deletes.iter().filter(covers).max().copied().unwrap_or(0);
            let mut value: Option<Cow<'_, [u8]>> = None;
            for number in numbers.iter().filter(|number| (floor..=pin).contains(*number)) {
                value = match &self.writes[*number as usize - 1] {
                    AnyWrite::Put(_, value) => Some(Cow::Borrowed(value)),
                    AnyWrite::Merge(_, operand) => {
                        Some(Cow::Owned([&value.unwrap_or(Cow::Borrowed(NO_BASE)), &operand[..]].concat()))
                    }
                    _ => None,
                };
            }
            value
        };
        self.keys.iter().filter_map(|(key, numbers)| Some((&key[..], shown(key, numbers)?))).collect()
    }

    /// Checks scans in both directions and gets, at every pin and at the newest number.
    pub fn check_reads(&self, random: &mut Random, gets: usize) {
        check_tree(&self.context, &self.state, true, &mut |found| found).unwrap();
        let forward = testing::entries(&mut self.tree.cursor());
        let mut pins: Vec<u64> = self.pins.iter().copied().collect();
        pins.push(SequenceNumber::MAX.0);
        for pin in pins {
            let expected = self.expected(pin);
            for backward in [false, true] {
                let seen = self.scan(pin, backward);
                let same = seen.iter().map(|(key, value)| (&key[..], &value[..]));
                assert!(
                    same.eq(expected.iter().map(|(key, value)| (*key, &value[..]))),
                    "scan at {pin}: {} keys, not {}",
                    seen.len(),
                    expected.len()
                );
            }
            self.check_gets(random, gets, pin, &expected);
        }
        self.check_seeks(random, gets, &forward);
        // The scans of this check pay for no merges.
        self.tree.visit(&mut |node| node.scans.clear());
    }

    /// The pairs that a scan shows at `pin`.
    fn scan(&self, pin: u64, backward: bool) -> BTreeMap<Vec<u8>, Vec<u8>> {
        testing::scan(self.tree.cursor(), self.tree.has_range_tombstones(), pin, backward)
    }

    /// The value that a get finds at `pin`.
    pub fn get(&self, key: &[u8], pin: u64) -> Option<Vec<u8>> {
        let hash = crate::util::hash::encoded_key_hash(key);
        testing::get(pin, |at, out| self.tree.get(key, hash, at, &mut BlockingPages::new(), out).unwrap())
    }

    fn check_gets(&self, random: &mut Random, gets: usize, pin: u64, expected: &BTreeMap<&[u8], Cow<'_, [u8]>>) {
        let keys: Vec<&Vec<u8>> = self.keys.keys().collect();
        for _ in 0..gets {
            let mut key = keys[random.below(keys.len())].clone();
            if random.below(8) == 0 {
                key.push(b'x');
            }
            let found = self.get(&key, pin);
            assert_eq!(
                found.as_deref(),
                expected.get(&key[..]).map(|value| &value[..]),
                "{} at {pin}",
                key.escape_ascii()
            );
        }
    }

    fn check_seeks(&self, random: &mut Random, seeks: usize, entries: &[VecEntry]) {
        let mut cursor = self.tree.cursor();
        let keys: Vec<&Vec<u8>> = self.keys.keys().collect();
        for _ in 0..seeks {
            let mut key = keys[random.below(keys.len())].clone();
            if random.below(4) == 0 {
                key.pop();
            }
            let number = SequenceNumber(random.next() % (self.last + 2));
            let before = entries.partition_point(|entry| entry.as_ref().order(&key, number).is_lt());
            let mut at = Some(before).filter(|at| *at < entries.len());
            if random.below(2) == 0 {
                cursor.seek(&key, number).unwrap();
            } else {
                let through = entries.partition_point(|entry| entry.as_ref().order(&key, number).is_le());
                at = through.checked_sub(1);
                cursor.seek_for_prev(&key, number).unwrap();
            }
            for _ in 0..random.below(6) {
                let Some(position) = at else { break };
                assert_eq!(VecEntry::from(cursor.entry()), entries[position]);
                if random.below(2) == 0 {
                    cursor.next().unwrap();
                    at = Some(position + 1).filter(|at| *at < entries.len());
                } else {
                    cursor.prev().unwrap();
                    at = position.checked_sub(1);
                }
            }
            assert_eq!(cursor.valid(), at.is_some());
            if let Some(position) = at {
                assert_eq!(VecEntry::from(cursor.entry()), entries[position]);
            }
        }
    }

    /// Opens the trunk again from the manifest. The tree must be the same, and no branch may be opened or read, so that
    /// a store of many branches opens fast.
    pub fn reopen(&mut self) {
        assert_eq!(self.trunk.running(), 0);
        self.check_files();
        let accesses = || [Operation::Open, Operation::Read].map(|operation| self.disk.operation_count(operation));
        let before = accesses();
        let (trunk, tree) = Trunk::open(Arc::clone(&self.context), self.options.clone(), &self.state).unwrap();
        assert_eq!(accesses(), before, "opening accessed branches");
        // A slot that had only one run for a while dropped its maplet. It may use it again if a neighbour retained it.
        let split_maplets = |tree: &Tree| -> (Vec<String>, Vec<String>) {
            let text = tree.describe();
            text.lines().map(str::to_owned).partition(|line| line.contains(" has maplets"))
        };
        let ((found, rest), (expected, before)) = (split_maplets(&tree), split_maplets(&self.tree));
        assert_eq!(rest, before);
        assert!(found.len() >= expected.len(), "{expected:?}\n{found:?}");
        assert_eq!(tree.bytes(), self.tree.bytes());
        assert_eq!(tree.debt(), self.tree.debt());
        let served: BTreeSet<FileNumber> = tree.maplets().iter().map(|maplet| maplet.meta().file).collect();
        assert_eq!(served, self.maplets());
        self.check_maplets();
        let branches = tree.branches();
        assert_eq!(branches.len(), self.state.branches.len());
        branches.into_iter().for_each(|branch| assert!(branch.verify().is_ok(), "{:?}", branch.verify()));
        self.trunk = trunk;
        self.tree = tree;
    }

    /// Opens the trunk again with other options.
    pub fn reopen_with(&mut self, options: TrunkOptions) {
        self.options = options;
        (self.trunk, self.tree) = Trunk::open(Arc::clone(&self.context), self.options.clone(), &self.state).unwrap();
    }

    /// Entries written per user entry.
    pub fn writes_per_entry(&self) -> f64 {
        let written = self.trunk.written();
        (written.incorporated_entries + written.compacted_entries) as f64 / self.user_entries as f64
    }

    /// File bytes written per user byte.
    pub fn write_amplification(&self) -> f64 {
        let written = self.trunk.written();
        (written.incorporated_bytes + written.compacted_bytes + written.mapped_bytes) as f64 / self.user_bytes as f64
    }
}

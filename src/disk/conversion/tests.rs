//! Every component is converted to every other one. The contents are compared with those before, entry by entry.

use super::*;
use crate::disk::component::{Component, ComponentOptions};
use crate::disk::levels::LevelsOptions;
use crate::disk::runs::from_memory::FromMemory;
use crate::disk::runs::testing::{self, AnyWrite, Random, number_key};
use crate::disk::version::check_stored;
use crate::merge::vec_cursor::{VecCursor, VecEntry};
use crate::util::sync::AtomicBool;
use crate::util::{Kind, SequenceNumber};
use std::collections::BTreeSet;

const MEMTABLE: u64 = 16 << 10;
const KEYS: u64 = 3000;

/// Levels so small that several form.
fn levels(runs_per_level: u32) -> DiskComponent {
    let (file_bytes, base_level_bytes) = (Some(8192), Some(64 << 10));
    let usual = LevelsOptions::leveled();
    DiskComponent::Levels(LevelsOptions {
        size_ratio: 3,
        level0_runs: 3,
        runs_per_level,
        file_bytes,
        base_level_bytes,
        ..usual
    })
}

fn all() -> [DiskComponent; 3] {
    [DiskComponent::Trunk, levels(1), levels(3)]
}

fn any_write(random: &mut Random) -> AnyWrite {
    let key = number_key(random.next() % KEYS);
    match random.below(100) {
        0..65 => AnyWrite::Put(key, vec![random.next() as u8; 20 + random.below(100)]),
        65..85 => AnyWrite::Delete(key),
        85..98 => AnyWrite::Merge(key, vec![random.next() as u8; 1 + random.below(9)]),
        _ => {
            let from = random.next() % KEYS;
            AnyWrite::RangeDelete(number_key(from), number_key(from + 1 + random.next() % (KEYS / 20)))
        }
    }
}

struct Store {
    context: Arc<BranchContext>,
    component: Component,
    version: Version,
    state: ManifestState,
    last: u64,
}

impl Store {
    /// A store with random writes of every kind. Some of the work of merging is not done.
    fn new(kind: &DiskComponent, seed: u64, rounds: usize) -> Self {
        let (_, context) = testing::disk();
        let options = options(Some(kind.clone()));
        let mut state = ManifestState::default();
        state.apply(&Component::create_edit(&options).unwrap()).unwrap();
        let (component, version) = Component::open(Arc::clone(&context), options, &state).unwrap();
        let mut store = Self { context, component, version, state, last: 0 };
        let mut random = Random(seed);
        for _ in 0..rounds {
            let writes: Vec<AnyWrite> = (0..200).map(|_| any_write(&mut random)).collect();
            store.incorporate(&writes);
            while random.below(8) > 0 && store.work() {}
        }
        store
    }

    fn incorporate(&mut self, writes: &[AnyWrite]) {
        let (entries, tombstones) = testing::from_memory(writes, self.last + 1);
        self.last += writes.len() as u64;
        let (through, never) = (SequenceNumber(self.last), AtomicBool::new(false));
        let source =
            FromMemory { entries: &mut VecCursor::new(entries), tombstones: &tombstones, through, is_oldest: true };
        let outcome = self.component.incorporate(&self.version, source, &Retention::default(), &never).unwrap();
        self.apply(outcome.unwrap());
    }

    /// Does one piece of due work; false if there is none.
    fn work(&mut self) -> bool {
        let (retention, never) = (Retention::default(), AtomicBool::new(false));
        let Some(job) = self.component.pick(&self.version, &retention) else { return false };
        let outcome = self.component.run(&job, &self.version, &retention, &never).unwrap();
        self.apply(outcome);
        true
    }

    fn apply(&mut self, outcome: crate::disk::Outcome) {
        let mut applied = self.component.apply(outcome, &self.version);
        if !applied.is_empty() {
            self.state.apply(applied.edit()).unwrap();
        }
        self.version = applied.version();
        applied.finish();
    }

    /// The pairs that a reader sees.
    fn pairs(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let masked = self.version.has_range_tombstones();
        testing::scan(self.version.cursor(), masked, SequenceNumber::MAX.0, false)
    }

    fn entries(&self) -> Vec<VecEntry> {
        testing::entries(&mut self.version.cursor())
    }

    fn converted(&self, to: &DiskComponent) -> Self {
        let conversion = Conversion::new(to, MEMTABLE).unwrap();
        let (mut reports, mut last) = (0, 0);
        let parts = conversion
            .write(&self.context, &self.version, &mut |file, read| {
                assert!(file.ends_with(".branch") && read >= last);
                (reports, last) = (reports + 1, read);
            })
            .unwrap();
        assert!(reports > parts.len() / 20 || parts.is_empty(), "{reports} pieces for {} files", parts.len());
        assert!(parts.iter().map(|part| part.bytes).sum::<u64>() <= conversion.bytes_needed(self.version.bytes()));
        let state = conversion.state(&self.state, &parts).unwrap();
        state.check().unwrap();
        let (component, version) =
            Component::open(Arc::clone(&self.context), options(Some(to.clone())), &state).unwrap();
        version.check_structure().unwrap();
        version.check_against(&state).unwrap();
        check_stored(&self.context, &state, true, &mut |found| found).unwrap();
        Self { context: Arc::clone(&self.context), component, version, state, last: self.last }
    }
}

fn options(chosen: Option<DiskComponent>) -> ComponentOptions {
    let trunk =
        TrunkOptions { leaf_bytes_min: 64 << 10, part_bytes_min: 4096, fanout: 3, ..TrunkOptions::new(MEMTABLE) };
    ComponentOptions { chosen, trunk, memory: 1 << 20 }
}

#[test]
fn every_component_becomes_every_other_one() {
    for (seed, from) in all().iter().enumerate() {
        let store = Store::new(from, seed as u64, 40);
        let (pairs, before) = (store.pairs(), store.entries());
        assert!(pairs.len() > 500 && store.version.has_range_tombstones(), "{} pairs", pairs.len());
        for to in all() {
            let what = format!("{from:?} to {to:?}");
            let mut converted = store.converted(&to);
            assert!(to.is_of(converted.state.levels.as_ref()), "{what}");
            assert!(converted.pairs() == pairs, "{what}");
            // The entries are those from before, with their numbers, without versions and tombstones that hide nothing.
            let entries = converted.entries();
            assert!(entries.len() < before.len(), "{what}: {} entries of {}", entries.len(), before.len());
            let parts = |entry: &'_ VecEntry| (entry.key.clone(), entry.number, entry.kind, entry.value.clone());
            let known: BTreeSet<_> = before.iter().map(parts).collect();
            assert_eq!(entries.iter().find(|entry| !known.contains(&parts(entry))), None, "{what}");
            assert!(entries.iter().all(|entry| entry.kind != Kind::Delete), "{what}");
            assert!(!converted.version.has_range_tombstones(), "{what}");
            // Due work changes nothing, and further writes are newer.
            let mut random = Random(7);
            while converted.work() {}
            assert!(converted.pairs() == pairs, "{what}, after merges");
            converted.incorporate(&(0..200).map(|_| any_write(&mut random)).collect::<Vec<_>>());
            let written = converted.pairs();
            while converted.work() {}
            assert!(written != pairs && converted.pairs() == written, "{what}, after writes and merges");
        }
    }
}

/// A run as large as all data must not be rewritten level by level, and the trunk's one leaf is split by reference.
#[test]
fn what_a_conversion_wrote_is_not_rewritten_soon() {
    let store = Store::new(&levels(1), 5, 60);
    for to in all() {
        let mut converted = store.converted(&to);
        let parts: BTreeSet<_> = converted.state.branches.keys().copied().collect();
        assert_eq!(converted.version.debt(), 0, "{to:?}");
        while converted.work() {}
        let leaves = converted.version.figures().levels.last().map_or(0, |level| level.nodes);
        assert!(leaves > 1 || to != DiskComponent::Trunk, "the leaf was not split");
        let left = converted.state.branches.keys().filter(|file| parts.contains(*file)).count();
        assert_eq!(left, parts.len(), "{to:?}: files were rewritten");
    }
}

#[test]
fn a_store_without_data_is_converted() {
    for from in all() {
        for rounds in [0, 1] {
            let mut store = Store::new(&from, 3, 0);
            // With writes, but nothing to see.
            (0..rounds).for_each(|_| store.incorporate(&[AnyWrite::Delete(number_key(1))]));
            for to in all() {
                let mut converted = store.converted(&to);
                assert!(converted.state.branches.is_empty() && converted.pairs().is_empty(), "{from:?} to {to:?}");
                converted.incorporate(&[AnyWrite::Put(number_key(1), vec![1])]);
                assert_eq!(converted.pairs().len(), 1, "{from:?} to {to:?}");
            }
        }
    }
}

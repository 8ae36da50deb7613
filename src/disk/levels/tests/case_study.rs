//! The case of SkipStore §5.2.3 (figures 6 to 8), with its files, keys and counts: what moves between files and buffers, what
//! the edit records of it, and which files stay as parents.
//!
//! The paper's B5 is here the buffer of level 6: with `max_skip` 2 a key that level 5 does not have goes there. In the paper
//! one record (B2S) removes a key range from B3 and B4; here the edit names the branches that are gone.

use super::rig::{MEMTABLE, number_key};
use crate::branch::{BlockingPages, Branch, BranchBuilder, BranchContext, Origin, write_out};
use crate::disk::levels::plan::compaction::{Compaction, Input, Output};
use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::levels::{Levels, LevelsOptions, LevelsTuning, check_runs};
use crate::disk::runs::testing;
use crate::format::manifest_edit::{BranchMeta, BufferedMeta, ItemRun, ManifestEdit, ParentItems, RunChange, RunId};
use crate::manifest::ManifestState;
use crate::merge::{EntryRef, Retention};
use crate::util::hash::encoded_key_hash;
use crate::util::sync::{Arc, AtomicBool};
use crate::util::{FileNumber, Kind, SequenceNumber};
use std::collections::BTreeMap;

const K1: u64 = 10;
/// The first key of T33.
const KS: u64 = 30;
const K3: u64 = 33;
const K4: u64 = 44;
const K5: u64 = 55;
const K6: u64 = 66;
/// The last key of T44.
const KE: u64 = 70;
const K7: u64 = 77;
/// The parents of K3 and K6, which earlier merges consumed.
const T23: u64 = 23;
const T31: u64 = 31;
/// Of level 3 and of level 4.
const T33: u64 = 33;
const T34: u64 = 34;
const T43: u64 = 43;
const T44: u64 = 44;
/// Level 5 has all keys of the case but those that skip it.
const T55: u64 = 55;
/// The buffered branches: of B3 with K1 and with K3, of B4 with K6 and with K7.
const B3_K1: u64 = 61;
const B3_K3: u64 = 62;
const B4_K6: u64 = 63;
const B4_K7: u64 = 64;

/// Keys with their numbers, in key order.
type Entries<'a> = &'a [(u64, u64)];

fn build(context: &Arc<BranchContext>, file: u64, entries: Entries<'_>) -> BranchMeta {
    let mut builder = BranchBuilder::buffered(context, FileNumber(file));
    for (key, number) in entries {
        let (key, value) = (number_key(*key), format!("value {number}"));
        let entry = EntryRef { key: &key, number: SequenceNumber(*number), kind: Kind::Put, value: value.as_bytes() };
        builder.add(entry).unwrap();
    }
    let (meta, built) = builder.finish_buffered().unwrap();
    write_out(context, &meta, &built).unwrap();
    meta
}

/// One entry of a parent.
fn one(parent: u64, at: u64) -> ParentItems {
    ParentItems { parent: FileNumber(parent), runs: vec![ItemRun { skipped: at, count: 1 }] }
}

/// A buffered branch of one entry of a parent.
fn buffered(context: &Arc<BranchContext>, file: u64, entry: (u64, u64), parent: ParentItems) -> BufferedMeta {
    let meta = build(context, file, &[entry]);
    context.storage.remove(&crate::branch::file_name(meta.file)).unwrap();
    BufferedMeta { meta, parents: vec![parent] }
}

fn run(id: u64, level: u32, files: &[u64]) -> RunChange {
    let added = files.iter().copied().map(FileNumber).collect();
    RunChange { id: RunId(id), level, dropped: Vec::new(), added }
}

/// Figure 6 before the compaction, and figure 7a.
fn before(context: &Arc<BranchContext>) -> ManifestState {
    let options = LevelsOptions { buffer_bytes: Some(1 << 20), ..LevelsOptions::skip() };
    let mut state = ManifestState::default();
    state.apply(&Levels::create_edit(options.shape(MEMTABLE).unwrap())).unwrap();
    let files = [
        (T23, &[(K1, 90), (K3, 91)][..]),
        (T31, &[(K6, 80), (K7, 81)]),
        (T33, &[(KS, 70), (40, 71)]),
        (T34, &[(50, 72), (60, 73)]),
        (T43, &[(31, 50), (K4, 51), (K5, 52)]),
        (T44, &[(61, 53), (KE, 54)]),
        (T55, &[(KS, 1), (31, 2), (K3, 3), (40, 4), (50, 5), (60, 6), (61, 7), (KE, 8)]),
    ];
    let edit = ManifestEdit {
        branches_added: files.iter().map(|(file, entries)| build(context, *file, entries)).collect(),
        buffered_added: vec![
            buffered(context, B3_K1, (K1, 90), one(T23, 0)),
            buffered(context, B3_K3, (K3, 91), one(T23, 1)),
            buffered(context, B4_K6, (K6, 80), one(T31, 0)),
            buffered(context, B4_K7, (K7, 81), one(T31, 1)),
        ],
        runs: vec![
            run(1, 3, &[T33, T34]),
            run(2, 4, &[T43, T44]),
            run(3, 5, &[T55]),
            run(4, 3, &[B3_K1, B3_K3]),
            run(5, 4, &[B4_K6, B4_K7]),
        ],
        next_run: Some(RunId(6)),
        next_file: Some(FileNumber(100)),
        ..ManifestEdit::default()
    };
    state.apply(&edit).unwrap();
    state.check().unwrap();
    while context.numbers.take() < FileNumber(99) {}
    state
}

fn open(context: &Arc<BranchContext>, state: &ManifestState) -> (Levels, Arc<LevelsVersion>) {
    let tuning = LevelsTuning::new(state.levels.unwrap(), MEMTABLE, 64 << 20, Arc::default());
    let (levels, version) = Levels::open(Arc::clone(context), tuning, state).unwrap();
    check_runs(&version, state).unwrap();
    (levels, version)
}

/// `PSST->CC`.
fn counts(version: &LevelsVersion) -> BTreeMap<u64, u64> {
    version.parents().iter().map(|(file, parent)| (file.0, parent.items)).collect()
}

/// The compaction of [Ks, Ke]: T33, T34, T43, T44, and what B3 and B4 have there.
fn compaction(version: &LevelsVersion) -> Compaction {
    let wanted = [T33, T34, T43, T44, B3_K3, B4_K6].map(FileNumber);
    let inputs = version.runs().filter(|(level, _)| *level < 5).map(|(level, run)| {
        let parts = run.run.parts().iter().filter(|part| wanted.contains(&part.meta().file));
        Input { level, run: run.id, parts: parts.cloned().collect() }
    });
    let compaction = Compaction::new(version, inputs.collect(), Output::Joined { level: 4 }).unwrap();
    assert_eq!(compaction.files().len(), wanted.len());
    compaction
}

fn places(branch: &Branch) -> Vec<(u64, u64)> {
    let origins = branch.in_buffer().unwrap().origins();
    let all = (0..origins.count() as u64).map(|at| origins.get(at).unwrap());
    all.map(|Origin { parent, at }| (parent.0, at)).collect()
}

#[test]
fn keys_move_between_files_and_buffers_as_in_the_paper() {
    let (_, context) = testing::disk();
    let mut state = before(&context);
    let (levels, version) = open(&context, &state);
    // Figure 7a.
    assert_eq!(counts(&version), [(T23, 2), (T31, 2)].into());
    let job = levels.job_of(&version, compaction(&version));
    let outcome = levels.run(&job, &version, &Retention::default(), &AtomicBool::new(false)).unwrap();
    let applied = levels.apply(outcome, &version);
    // K4 and K5 from T43 (S2B), K6 with the parent that it had (B2B): lines 1 to 3 of figure 8.
    let [record] = &applied.edit.buffered_added[..] else { panic!("{:?}", applied.edit) };
    let s2b = ParentItems { parent: FileNumber(T43), runs: vec![ItemRun { skipped: 1, count: 2 }] };
    assert_eq!(record.parents, [one(T31, 0), s2b]);
    // K3 and K6 left B3 and B4, and nothing else did: line 4.
    assert_eq!(applied.edit.buffered_dropped, [B3_K3, B4_K6].map(FileNumber));
    // T43 stays for K4 and K5. T23 still has K1.
    assert_eq!(applied.edit.branches_dropped, [T33, T34, T44].map(FileNumber));
    state.apply(&applied.edit).unwrap();
    state.check().unwrap();
    let after = Arc::clone(&applied.version);
    applied.finish();
    drop(job);
    check_runs(&after, &state).unwrap();
    // Figures 7b to 7d.
    assert_eq!(counts(&after), [(T23, 1), (T31, 2), (T43, 2)].into());
    let of_level = |version: &LevelsVersion, level: usize| -> Vec<Arc<Branch>> {
        version.levels()[level].branches().cloned().collect()
    };
    let [b5] = &of_level(&after, 6)[..] else { panic!("{:?}", after.levels()[6]) };
    assert_eq!(places(b5), [(T43, 1), (T43, 2), (T31, 0)]);
    // K3 is in the file in the place of T43 and T44, with all keys that level 5 has.
    let [own] = &of_level(&after, 4)[1..] else { panic!("{:?}", after.levels()[4]) };
    assert!(own.in_buffer().is_none());
    assert_eq!((own.meta().entries, own.meta().number_max), (8, SequenceNumber(91)));
    // A recovery makes the same of the files, with the same values (§5.3).
    drop((levels, version));
    let (_, recovered) = open(&context, &state);
    assert_eq!(places(&of_level(&recovered, 6)[0]), places(b5));
    for version in [&after, &recovered] {
        for (key, number) in [(K1, 90), (K3, 91), (K4, 51), (K5, 52), (K6, 80), (K7, 81), (KS, 70), (KE, 54)] {
            let (key, mut value) = (number_key(key), Vec::new());
            let at = SequenceNumber::MAX;
            let found = version.get(&key, encoded_key_hash(&key), at, &mut BlockingPages::new(), &mut value).unwrap();
            assert_eq!(found, Some((SequenceNumber(number), Kind::Put)));
            assert_eq!(String::from_utf8(value).unwrap(), format!("value {number}"));
        }
    }
}

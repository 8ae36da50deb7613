//! Versions made by hand: files of given entries, branches in memory made of given entries of them, and merges of chosen
//! parts.

use super::rig::{Rig, key, small};
use crate::branch::{BranchBuilder, BranchContext, Origin, Origins};
use crate::disk::levels::plan::compaction::{Compaction, Input, Output};
use crate::disk::levels::{Levels, LevelsOptions, LevelsTuning, Outcome};
use crate::format::manifest_edit::{BranchMeta, BufferedMeta, ManifestEdit, ParentItems, RunChange, RunId};
use crate::merge::vec_cursor::VecEntry;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Kind, SequenceNumber};
use std::collections::BTreeMap;

/// A put of a key with a number.
pub fn put(text: &str, number: u64, value: &[u8]) -> VecEntry {
    VecEntry::new(key(text), number, Kind::Put, value)
}

/// A tombstone.
pub fn deletion(text: &str, number: u64) -> VecEntry {
    VecEntry::new(key(text), number, Kind::Delete, &[][..])
}

/// A version with much memory that is being made.
pub fn crafted() -> Crafted {
    Crafted::new(&LevelsOptions { buffer_bytes: Some(1 << 20), ..small(LevelsOptions::skip()) })
}

/// A version that is being made.
pub struct Crafted {
    pub rig: Rig,
    context: Arc<BranchContext>,
    edit: ManifestEdit,
    /// Of files and of branches in memory.
    entries: BTreeMap<FileNumber, Vec<VecEntry>>,
}

impl Crafted {
    pub fn new(options: &LevelsOptions) -> Self {
        let rig = Rig::new(options);
        let context = Arc::clone(&rig.context);
        Self { rig, context, edit: ManifestEdit::default(), entries: BTreeMap::new() }
    }

    /// Writes a file of these entries, which are in order.
    pub fn file(&mut self, entries: Vec<VecEntry>) -> FileNumber {
        let mut builder = BranchBuilder::create(&self.context).unwrap();
        entries.iter().for_each(|entry| builder.add(entry.as_ref()).unwrap());
        let meta = builder.finish().unwrap();
        let file = meta.file;
        self.edit.branches_added.push(meta);
        self.entries.insert(file, entries);
        file
    }

    /// A branch in memory, of these entries of files: each by its place in the file.
    pub fn in_memory(&mut self, items: &[(FileNumber, u64)]) -> FileNumber {
        let (meta, parents) = self.buffered(items);
        let file = meta.file;
        self.edit.buffered_added.push(BufferedMeta { meta, parents });
        file
    }

    fn buffered(&self, items: &[(FileNumber, u64)]) -> (BranchMeta, Vec<ParentItems>) {
        let entry = |(file, at): &(FileNumber, u64)| self.entries[file][*at as usize].clone();
        let mut items: Vec<_> = items.iter().map(|item| (entry(item), *item)).collect();
        items.sort_by(|(one, _), (other, _)| one.as_ref().order(&other.key, other.number));
        let mut builder = BranchBuilder::buffered(&self.context, self.context.numbers.take());
        let mut origins = Origins::default();
        for (entry, (parent, at)) in &items {
            builder.add(entry.as_ref()).unwrap();
            assert!(origins.push(Origin { parent: *parent, at: *at }));
        }
        (builder.finish_buffered().unwrap().0, origins.by_parent())
    }

    /// A run of these parts, in key order.
    pub fn run(&mut self, id: u64, level: u32, parts: &[FileNumber]) {
        self.edit.runs.push(RunChange { id: RunId(id), level, dropped: Vec::new(), added: parts.to_vec() });
    }

    /// The store that has it.
    pub fn open(self) -> Rig {
        let Self { mut rig, context, edit, .. } = self;
        rig.state.apply(&edit).unwrap();
        // As much memory as the options say, whatever the budget of the rig.
        let tuning = super::rig::tuning(&rig.state);
        let tuning = LevelsTuning { buffer_bytes: tuning.shape.buffer_bytes, ..tuning };
        (rig.levels, rig.version) = Levels::open(context, tuning, &rig.state).unwrap();
        rig.check();
        rig
    }
}

/// The parts of a run that the named branches are.
pub fn input(rig: &Rig, level: usize, run: u64, files: &[FileNumber]) -> Input {
    let run = rig.version.levels()[level].runs.iter().find(|found| found.id == RunId(run)).unwrap();
    let parts = run.run.parts().iter().filter(|part| files.contains(&part.meta().file)).cloned().collect::<Vec<_>>();
    assert_eq!(parts.len(), files.len());
    Input::of(level, run, &parts)
}

/// The merge of these inputs, newest first.
pub fn compaction(rig: &Rig, inputs: Vec<Input>, output: Output) -> Compaction {
    Compaction::new(&rig.version, inputs, output).unwrap()
}

/// Does the I/O of a compaction that no picker chose. Its claim is held as long as the outcome lives.
pub fn merge(rig: &Rig, compaction: &Compaction) -> Outcome {
    rig.run(&rig.levels.job_of(&rig.version, compaction.clone()))
}

/// A compaction that no picker chose, from its I/O to its end.
pub fn run(rig: &mut Rig, inputs: Vec<Input>, output: Output) -> ManifestEdit {
    let compaction = compaction(rig, inputs, output);
    let outcome = merge(rig, &compaction);
    drop(compaction);
    rig.apply(outcome)
}

/// The newest value of a key.
pub fn get(rig: &Rig, text: &str) -> Option<Vec<u8>> {
    rig.get(&key(text), SequenceNumber::MAX.0)
}

/// The files of the manifest.
pub fn files_of(rig: &Rig) -> Vec<FileNumber> {
    rig.state.branches.keys().copied().collect()
}

/// The number of entries in memory of each parent (the paper's `PSST->CC`).
pub fn counts(rig: &Rig) -> BTreeMap<FileNumber, u64> {
    rig.version.parents().iter().map(|(file, parent)| (file, parent.items)).collect()
}

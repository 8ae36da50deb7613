//! The editor: makes a new version out of the newest one, and the edit that says the same to the manifest. One thread,
//! which holds the edit mutex.
//!
//! Between the choice of a compaction and its outcome, runs may have been added and other files moved, but the inputs are
//! where they were: the claim is held. A result whose inputs are gone all the same would be wrong anywhere; it is dropped
//! whole.
//!
//! One edit says what moves between files and memory and where it goes, with the files that gain and lose parents by it
//! (SkipStore §5.2.1: S2B, B2B and B2S). What leaves a buffer leaves it as a whole branch, never as a key range.
//! *Otherwise:* a replay removes keys that came into the range meanwhile.

use super::applied::Applied;
use crate::branch::Branch;
use crate::disk::levels::jobs::outcome::{Change, Outcome};
use crate::disk::levels::plan::compaction::{Input, Output};
use crate::disk::levels::state::key_range::KeyRange;
use crate::disk::levels::state::parents::Parents;
use crate::disk::levels::state::version::{Level, LevelRun, LevelsVersion};
use crate::format::manifest_edit::{ManifestEdit, RunChange, RunId};
use crate::util::sync::{Arc, AtomicU64, Ordering};
use crate::util::{FileNumber, FileNumbers};
use std::collections::{BTreeMap, BTreeSet};

/// What the editor needs of the component.
#[derive(Clone, Copy)]
pub struct EditContext<'a> {
    /// The next run id. Relaxed: it changes under the edit mutex.
    pub next_run: &'a AtomicU64,
    pub files: &'a FileNumbers,
}

/// See `Levels::apply`.
pub fn apply(context: EditContext<'_>, outcome: Outcome, version: &Arc<LevelsVersion>) -> Applied {
    let mut editor = Editor::new(context, version);
    let (mut added, mut incorporated, mut obsolete) = (Vec::new(), None, Vec::new());
    match outcome.change {
        Change::Nothing => {}
        Change::Incorporate { parts, through } => {
            added = parts.take();
            incorporated = through;
            editor.add(&added, Output::NewRun { level: 0 });
        }
        Change::Compact { inputs, output, merged, skipped, .. } => {
            let (run, mut new) = merged.take();
            let skipped: Vec<_> = skipped.into_iter().map(|skipped| (skipped.level, skipped.parts.take())).collect();
            new.extend(skipped.iter().flat_map(|(_, parts)| parts).cloned());
            if editor.has(&inputs) {
                let kept: BTreeSet<FileNumber> = run.iter().map(|part| part.meta().file).collect();
                let parts = inputs.iter().flat_map(|input| &input.parts);
                obsolete.extend(parts.filter(|part| !kept.contains(&part.meta().file)).cloned());
                inputs.iter().for_each(|input| editor.remove(input));
                editor.add(&run, output);
                for (level, parts) in &skipped {
                    parts.iter().for_each(|part| editor.place(*level, part));
                }
                added = new;
            } else {
                debug_assert!(false, "the inputs of a compaction are gone");
                obsolete = new;
            }
        }
    }
    let (mut edit, new) = editor.finish(version, &obsolete);
    for branch in &added {
        match branch.in_buffer() {
            Some(buffered) => edit.buffered_added.push(buffered.record(branch.meta())),
            None => edit.branches_added.push(branch.meta().clone()),
        }
    }
    let is_change = !edit.runs.is_empty() || incorporated.is_some();
    if is_change {
        obsolete.retain(|branch| new.parents().get(branch.meta().file).is_none());
        let released = version.parents().iter().filter(|(file, _)| new.parents().get(*file).is_none());
        obsolete.extend(released.map(|(_, parent)| Arc::clone(&parent.branch)));
        let (buffered, files): (Vec<_>, Vec<_>) = obsolete.iter().partition(|branch| branch.in_buffer().is_some());
        edit.branches_dropped = files.into_iter().map(|branch| branch.meta().file).collect();
        edit.buffered_dropped = buffered.into_iter().map(|branch| branch.meta().file).collect();
        edit.incorporated = incorporated;
        edit.next_file = Some(context.files.next());
        edit.next_run = Some(RunId(context.next_run.load(Ordering::Relaxed)));
    }
    Applied { edit, version: new, obsolete, claim: outcome.claim }
}

/// See the module.
struct Editor<'a> {
    context: EditContext<'a>,
    levels: Vec<Level>,
    /// By run.
    changes: BTreeMap<RunId, RunChange>,
}

impl<'a> Editor<'a> {
    fn new(context: EditContext<'a>, version: &LevelsVersion) -> Self {
        Self { context, levels: version.levels().to_vec(), changes: BTreeMap::new() }
    }

    fn run_mut(&mut self, level: usize, id: RunId) -> Option<&mut LevelRun> {
        self.levels.get_mut(level)?.runs.iter_mut().find(|run| run.id == id)
    }

    /// Whether all inputs are where they were.
    fn has(&self, inputs: &[Input]) -> bool {
        inputs.iter().all(|input| {
            let runs = self.levels.get(input.level).map(|level| &level.runs);
            let Some(run) = runs.and_then(|runs| runs.iter().find(|run| run.id == input.run)) else { return false };
            input.parts.iter().all(|part| run.has(part))
        })
    }

    /// The parts leave their run. An empty run stays in `levels` until `finish`.
    fn remove(&mut self, input: &Input) {
        let Some(run) = self.run_mut(input.level, input.run) else { return };
        let files: BTreeSet<FileNumber> = input.parts.iter().map(|part| part.meta().file).collect();
        let kept = run.run.parts().iter().filter(|part| !files.contains(&part.meta().file)).cloned().collect();
        *run = LevelRun::new(run.id, kept);
        self.change(input.run, input.level).dropped.extend(files);
    }

    /// The parts, which are in key order, join a run.
    fn add(&mut self, parts: &[Arc<Branch>], output: Output) {
        if parts.is_empty() {
            return;
        }
        let level = output.level();
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Level::default);
        }
        let oldest = || self.levels[level].runs.last().map(|run| run.id);
        let existing = match output {
            Output::Joined { .. } => oldest(),
            Output::NewRun { .. } => None,
            Output::Into { run, .. } => Some(run),
        };
        let id = existing.unwrap_or_else(|| RunId(self.context.next_run.fetch_add(1, Ordering::Relaxed)));
        match self.run_mut(level, id) {
            Some(run) => {
                let mut all = [run.run.parts(), parts].concat();
                all.sort_by(|one, other| one.meta().key_min.cmp(&other.meta().key_min));
                *run = LevelRun::new(id, all);
            }
            None => {
                // In the order of ids, the newest first. (A run to which waiting runs are joined may be gone, if the rest of it
                // was merged meanwhile.)
                let runs = &mut self.levels[level].runs;
                let at = runs.partition_point(|run| run.id > id);
                runs.insert(at, LevelRun::new(id, parts.to_vec()));
            }
        }
        self.change(id, level).added.extend(parts.iter().map(|part| part.meta().file));
    }

    /// A part of keys that skipped levels joins a level. They are newer than everything that the level has, so it joins
    /// the oldest run above which no run has files in its range, or becomes a new run.
    fn place(&mut self, level: usize, part: &Arc<Branch>) {
        let range = KeyRange::of(part);
        let runs = self.levels.get(level).map_or(&[][..], |level| &level.runs);
        let free = runs.iter().take_while(|run| run.parts_in(&range).is_empty()).last();
        let output = free.map_or(Output::NewRun { level }, |run| Output::Into { level, run: run.id });
        self.add(std::slice::from_ref(part), output);
    }

    fn change(&mut self, id: RunId, level: usize) -> &mut RunChange {
        let level = u32::try_from(level).unwrap_or(u32::MAX);
        self.changes.entry(id).or_insert_with(|| RunChange { id, level, ..RunChange::default() })
    }

    /// The edit so far, and the new version. `left`: the branches that left their runs.
    fn finish(self, version: &Arc<LevelsVersion>, left: &[Arc<Branch>]) -> (ManifestEdit, Arc<LevelsVersion>) {
        let runs: Vec<RunChange> = self.changes.into_values().map(without_unchanged).collect();
        if runs.is_empty() {
            return (ManifestEdit::default(), Arc::clone(version));
        }
        let mut levels = self.levels;
        levels.iter_mut().for_each(|level| level.runs.retain(|run| !run.run.parts().is_empty()));
        let left: BTreeMap<FileNumber, &Arc<Branch>> = left.iter().map(|branch| (branch.meta().file, branch)).collect();
        let parents = Parents::of(levels.iter().flat_map(Level::branches), |file| {
            let known = version.parents().get(file).map(|parent| &parent.branch);
            known.or_else(|| left.get(&file).copied()).cloned()
        });
        let version = LevelsVersion::new(levels, parents, Arc::clone(version.tuning()));
        (ManifestEdit { runs, ..ManifestEdit::default() }, version)
    }
}

/// A file that leaves a run and comes back to it does not change.
fn without_unchanged(mut change: RunChange) -> RunChange {
    let dropped: BTreeSet<FileNumber> = change.dropped.iter().copied().collect();
    let back: BTreeSet<FileNumber> = change.added.iter().copied().filter(|file| dropped.contains(file)).collect();
    change.dropped.retain(|file| !back.contains(file));
    change.added.retain(|file| !back.contains(file));
    change
}

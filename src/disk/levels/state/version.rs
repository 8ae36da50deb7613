//! The levels as readers see them: immutable. Any thread; no locks. `read/` has the functions that read a version.
//!
//! Invariants:
//! 1. The runs of a level are newest first: their ids descend.
//! 2. No run is empty, and the deepest level has a run.

use super::key_range::KeyRange;
use super::parents::Parents;
use super::targets::Targets;
use crate::branch::Branch;
use crate::disk::levels::tuning::LevelsTuning;
use crate::disk::runs::load::Load;
use crate::disk::runs::run::Run;
use crate::format::manifest_edit::RunId;
use crate::util::FileNumber;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use std::collections::BTreeMap;

/// A run of a level.
#[derive(Clone, Debug)]
pub struct LevelRun {
    /// Its identity.
    pub id: RunId,
    /// Its part files.
    pub run: Arc<Run>,
    /// The data in them.
    pub load: Load,
}

impl LevelRun {
    /// A run of these parts, in key order.
    pub fn new(id: RunId, parts: Vec<Arc<Branch>>) -> Self {
        let mut load = Load::default();
        parts.iter().for_each(|part| load += Load::of(part));
        Self { id, run: Run::new(parts), load }
    }

    /// Whether the run has this part.
    pub fn has(&self, part: &Arc<Branch>) -> bool {
        let at = self.run.position(&part.meta().key_min);
        self.run.parts().get(at).is_some_and(|found| Arc::ptr_eq(found, part))
    }

    /// The parts that the range meets.
    pub fn parts_in(&self, range: &KeyRange) -> &[Arc<Branch>] {
        let parts = self.run.parts();
        let from = self.run.position(&range.lower);
        let count = parts[from..].partition_point(|part| part.meta().key_min[..] < *range.upper);
        &parts[from..from + count]
    }
}

/// A level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// Newest first.
    pub runs: Vec<LevelRun>,
}

impl Level {
    /// All data in it.
    pub fn load(&self) -> Load {
        let mut load = Load::default();
        self.runs.iter().for_each(|run| load += run.load);
        load
    }

    /// All its branches, the newest run first.
    pub fn branches(&self) -> impl Iterator<Item = &Arc<Branch>> {
        self.runs.iter().flat_map(|run| run.run.parts())
    }
}

/// See the module. While it is held, all its branch files are readable.
#[derive(Debug)]
pub struct LevelsVersion {
    levels: Vec<Level>,
    tuning: Arc<LevelsTuning>,
    targets: Targets,
    load: Load,
    parents: Parents,
    buffered_bytes: u64,
    debt: u64,
    has_range_tombstones: bool,
}

impl LevelsVersion {
    /// A version of these levels, level 0 first, and of the parents of their buffered branches.
    pub fn new(mut levels: Vec<Level>, parents: Parents, tuning: Arc<LevelsTuning>) -> Arc<Self> {
        while levels.pop_if(|level| level.runs.is_empty()).is_some() {}
        let mut load = Load::default();
        levels.iter().for_each(|level| load += level.load());
        let bytes: Vec<u64> = levels.iter().map(|level| level.load().bytes).collect();
        let is_behind = levels.first().is_some_and(|level| level.runs.len() >= tuning.level_runs(0));
        let targets = Targets::new(&bytes, is_behind, &tuning.shape);
        let debt = levels.iter().enumerate().map(|(at, level)| debt_of(at, level, &tuning, &targets)).sum();
        let has_range_tombstones =
            levels.iter().flat_map(|level| &level.runs).any(|run| run.run.has_range_tombstones());
        let buffered = levels.iter().flat_map(Level::branches).filter(|branch| branch.in_buffer().is_some());
        let buffered_bytes = buffered.map(|branch| branch.meta().bytes).sum();
        Arc::new(Self { levels, tuning, targets, load, parents, buffered_bytes, debt, has_range_tombstones })
    }

    /// The files that are kept for what is in memory.
    pub fn parents(&self) -> &Parents {
        &self.parents
    }

    /// Bytes of the branches that are in memory only.
    pub fn buffered_bytes(&self) -> u64 {
        self.buffered_bytes
    }

    /// Whether the run is the level's own, its oldest. The others of a leveled store have keys that skipped levels.
    pub fn is_own(&self, level: usize, run: RunId) -> bool {
        self.levels.get(level).and_then(|level| level.runs.last()).is_none_or(|own| own.id == run)
    }

    /// How many more bytes merges may leave in memory.
    pub fn buffer_space(&self) -> u64 {
        self.tuning.usable_buffer_bytes().saturating_sub(self.buffered_bytes)
    }

    /// Level 0 first. The last one is the deepest that has data.
    pub fn levels(&self) -> &[Level] {
        &self.levels
    }

    /// The tuning.
    pub fn tuning(&self) -> &Arc<LevelsTuning> {
        &self.tuning
    }

    /// In a leveled store: how large its levels may be, and which one level 0 is merged into.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// All runs, newest first, with their levels.
    pub fn runs(&self) -> impl Iterator<Item = (usize, &LevelRun)> {
        self.levels.iter().enumerate().flat_map(|(at, level)| level.runs.iter().map(move |run| (at, run)))
    }

    /// All data.
    pub fn load(&self) -> Load {
        self.load
    }

    /// Whether any branch has range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        self.has_range_tombstones
    }

    /// The bytes that have to leave their level before no level is full. (As in the trunk, what they will be merged
    /// with does not count.)
    pub fn debt(&self) -> u64 {
        self.debt
    }

    /// Every branch file, once, by file number: of runs, and parents.
    pub fn branches(&self) -> Vec<&Arc<Branch>> {
        let of_runs = self.levels.iter().flat_map(Level::branches).filter(|branch| branch.in_buffer().is_none());
        let branches = of_runs.chain(self.parents.iter().map(|(_, parent)| &parent.branch));
        let sorted: BTreeMap<FileNumber, &Arc<Branch>> = branches.map(|branch| (branch.meta().file, branch)).collect();
        sorted.into_values().collect()
    }

    /// Calls `visit` with every branch file of a run and the distance of its level from the deepest one, level 0 first.
    pub fn visit_branches<'a>(&'a self, visit: &mut dyn FnMut(u32, &'a Arc<Branch>)) {
        for (at, level) in self.levels.iter().enumerate() {
            let files = level.branches().filter(|branch| branch.in_buffer().is_none());
            files.for_each(|branch| visit(self.height(at), branch));
        }
    }

    /// The distance of a level from the deepest one.
    pub fn height(&self, level: usize) -> u32 {
        self.levels.len().saturating_sub(level + 1) as u32
    }

    /// Whether data that is older than the newest of the runs `from` of a level, and not in `inputs`, overlaps the range.
    pub fn has_older(
        &self,
        (level, from): (usize, RunId),
        range: &KeyRange,
        is_input: impl Fn(&Branch) -> bool,
    ) -> bool {
        let is_older = |(at, run): &(usize, &LevelRun)| *at > level || (*at == level && run.id <= from);
        let mut older = self.runs().filter(is_older).flat_map(|(_, run)| run.parts_in(range));
        older.any(
            |part| planted!(!is_input(part), Bug::TombstoneOverBuffer => !is_input(part) && part.in_buffer().is_none()),
        )
    }
}

/// A full level 0 owes all its bytes, because its runs are merged together. A deeper level owes what it has too much:
/// in a tiered store the oldest of the runs past a full level, in a leveled one bytes, and the newest of the runs of keys
/// that skipped levels if there are too many.
fn debt_of(at: usize, level: &Level, tuning: &LevelsTuning, targets: &Targets) -> u64 {
    if at > 0 && tuning.is_leveled() {
        let too_much = level.load().bytes.saturating_sub(targets.bytes(at));
        if !tuning.skips() {
            return too_much;
        }
        let too_many = level.runs.len().saturating_sub(1 + tuning.shape.skip_runs as usize);
        return too_much + level.runs.iter().take(too_many).map(|run| run.load.bytes).sum::<u64>();
    }
    let full = tuning.level_runs(at);
    if at == 0 {
        let bytes = level.load().bytes;
        let is_full = level.runs.len() >= full || (tuning.is_leveled() && bytes > targets.bytes(0));
        return if is_full { bytes } else { 0 };
    }
    level.runs.iter().rev().take(level.runs.len().saturating_sub(full)).map(|run| run.load.bytes).sum()
}

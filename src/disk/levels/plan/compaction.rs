//! Compactions: what a picker chooses. Plain data; any thread.

use crate::branch::Branch;
use crate::disk::levels::state::key_range::KeyRange;
use crate::disk::levels::state::version::{LevelRun, LevelsVersion};
use crate::disk::runs::garbage;
use crate::disk::runs::load::Load;
use crate::disk::runs::run;
use crate::format::manifest_edit::RunId;
use crate::util::FileNumber;
use crate::util::sync::Arc;
use std::collections::BTreeSet;
use std::fmt;

/// Part files of one run that take part.
#[derive(Clone, Debug)]
pub struct Input {
    pub level: usize,
    pub run: RunId,
    /// In key order.
    pub parts: Vec<Arc<Branch>>,
}

impl Input {
    /// Some parts of a run.
    pub fn of(level: usize, run: &LevelRun, parts: &[Arc<Branch>]) -> Self {
        Self { level, run: run.id, parts: parts.to_vec() }
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.meta().bytes).sum()
    }

    /// A whole run.
    pub fn whole(level: usize, run: &LevelRun) -> Self {
        Self::of(level, run, run.run.parts())
    }
}

/// Where the result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Into the oldest run of the level, which has nothing else in the range. In a leveled store that is the level's own
    /// run; newer ones have keys that skipped levels.
    Joined { level: usize },
    /// Into a new run of the level, its newest.
    NewRun { level: usize },
    /// Into one of the runs that it comes from, the newest of them.
    Into { level: usize, run: RunId },
}

impl Output {
    /// The level.
    pub fn level(&self) -> usize {
        match self {
            Self::Joined { level } | Self::NewRun { level } | Self::Into { level, .. } => *level,
        }
    }
}

/// Part files that become part files of one run.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// Newest first. Not empty.
    pub inputs: Vec<Input>,
    pub output: Output,
    /// The smallest range that includes all inputs.
    pub range: KeyRange,
    /// Whether no older data overlaps the range.
    pub bottom: bool,
    /// The deepest level in which it may place keys: the output level, or a deeper one for keys that skip.
    pub deepest: usize,
    /// Whether what waits may stay in memory: keys that skip, and the output if it is not of a level's own run.
    pub buffers: bool,
}

impl Compaction {
    /// A compaction of these inputs, newest first; `None` if there are none.
    pub fn new(version: &LevelsVersion, mut inputs: Vec<Input>, output: Output) -> Option<Self> {
        inputs.retain(|input| !input.parts.is_empty());
        let range = KeyRange::of_all(inputs.iter().flat_map(|input| &input.parts))?;
        let newest = (inputs[0].level, inputs[0].run);
        let deepest = match output {
            Output::Joined { level } => version.tuning().deepest_skip(level),
            Output::NewRun { level } | Output::Into { level, .. } => level,
        };
        let buffers = match output {
            Output::Joined { .. } => version.buffer_space() > 0,
            // Runs of keys that skipped levels join: all of it would be in memory, beside its inputs for a moment.
            Output::Into { level, run } if level > 0 && !version.is_own(level, run) => {
                let files = inputs.iter().flat_map(|input| &input.parts).filter(|part| part.in_buffer().is_none());
                let of_files: u64 = files.map(|part| part.meta().bytes).sum();
                let all: u64 = inputs.iter().map(Input::bytes).sum();
                of_files < version.buffer_space() && all <= version.tuning().joined_buffer_bytes()
            }
            Output::NewRun { .. } | Output::Into { .. } => false,
        };
        let mut compaction = Self { inputs, output, range, bottom: false, deepest, buffers };
        let files = compaction.files();
        compaction.bottom = !version.has_older(newest, &compaction.range, |branch| files.contains(&branch.meta().file));
        Some(compaction)
    }

    /// The level of its newest input.
    pub fn level(&self) -> usize {
        self.inputs[0].level
    }

    /// The same, with everything written to files.
    pub fn into_files(self) -> Self {
        Self { buffers: false, ..self }
    }

    /// Whether its own output stays in memory.
    pub fn is_output_buffered(&self) -> bool {
        self.buffers && matches!(self.output, Output::Into { .. })
    }

    /// All part files that take part, newest run first.
    pub fn parts(&self) -> impl Iterator<Item = &Arc<Branch>> {
        self.inputs.iter().flat_map(|input| &input.parts)
    }

    /// The files that take part.
    pub fn files(&self) -> BTreeSet<FileNumber> {
        self.parts().map(|part| part.meta().file).collect()
    }

    /// The data to be read.
    pub fn load(&self) -> Load {
        let mut load = Load::default();
        self.parts().for_each(|part| load += Load::of(part));
        load
    }

    /// Whether the files only change their place: they overlap nothing, and a merge would drop nothing.
    pub fn is_move(&self) -> bool {
        // Small files of level 0 are merged because they are small.
        let stays = |run: RunId| self.inputs.iter().all(|input| input.run == run);
        if matches!(self.output, Output::Into { level, run } if level == 0 || stays(run)) {
            return false;
        }
        // What is in memory becomes part of a file.
        if self.parts().any(|part| part.in_buffer().is_some()) {
            return false;
        }
        if self.bottom && self.parts().any(|part| garbage::may_have_garbage(part)) {
            return false;
        }
        let mut parts: Vec<_> = self.parts().collect();
        parts.sort_by(|one, other| one.meta().key_min.cmp(&other.meta().key_min));
        parts.array_windows().all(|[one, other]| run::follows(one, other))
    }
}

impl fmt::Display for Compaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_move() { "move" } else { "merge" })?;
        for input in &self.inputs {
            write!(f, " level {} run {} files", input.level, input.run.0)?;
            input.parts.iter().try_for_each(|part| write!(f, " {}", part.meta().file.0))?;
            f.write_str(",")?;
        }
        match self.output {
            Output::Joined { level } => write!(f, " into level {level}"),
            Output::NewRun { level } => write!(f, " as a new run of level {level}"),
            Output::Into { level, run } => write!(f, " into level {level} run {}", run.0),
        }?;
        f.write_str(if self.bottom { ", the oldest data" } else { "" })?;
        f.write_str(if self.is_output_buffered() { ", in memory" } else { "" })
    }
}

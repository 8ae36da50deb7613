//! Which files lie under others, and which overlap each other. Pure functions of versions; any thread.

use super::compaction::{Compaction, Input, Output};
use crate::branch::Branch;
use crate::disk::levels::state::key_range::KeyRange;
use crate::disk::levels::state::version::{LevelRun, LevelsVersion};
use crate::util::sync::Arc;

/// A part, and what lies under it in its level: in the level's older runs. With the range of all.
pub fn of_level_under(version: &LevelsVersion, level: usize, part: &Arc<Branch>) -> Option<(Vec<Input>, KeyRange)> {
    let runs = &version.levels()[level].runs;
    let at = runs.iter().position(|run| run.has(part))?;
    let mut range = KeyRange::of(part);
    let mut inputs = vec![Input::of(level, &runs[at], std::slice::from_ref(part))];
    inputs.extend(under(level, &runs[at + 1..], &mut range));
    Some((inputs, range))
}

/// The parts of the runs, newest first, that a merge of `range` has to take, because what it merges is newer. What is
/// taken extends the range for the older runs. (Of newer runs nothing is taken for that: they stay above.)
pub fn under(level: usize, runs: &[LevelRun], range: &mut KeyRange) -> Vec<Input> {
    let mut inputs = Vec::new();
    for run in runs {
        let parts = run.parts_in(range);
        if let Some(taken) = KeyRange::of_all(parts) {
            inputs.push(Input::of(level, run, parts));
            *range = range.clone().with(taken);
        }
    }
    inputs
}

/// In a leveled store that skips levels: the compaction of a part with what lies under it in its level; `None` if
/// nothing does and it is of the level's own run.
pub fn within_level(version: &LevelsVersion, level: usize, part: &Arc<Branch>) -> Option<Compaction> {
    let (inputs, _) = of_level_under(version, level, part)?;
    let own = version.levels()[level].runs.last()?.id;
    if inputs.iter().all(|input| input.run == own) {
        return None;
    }
    Compaction::new(version, inputs, Output::Joined { level })
}

/// The ranges of groups of files of the runs, such as level 0 has: the files of a group overlap each other, in a chain, and no other file.
pub fn groups(runs: &[LevelRun]) -> Vec<KeyRange> {
    // For each group its range, its oldest run counted from the newest, and its bytes.
    let mut ranges: Vec<(KeyRange, usize, u64)> = runs
        .iter()
        .enumerate()
        .flat_map(|(at, run)| run.run.parts().iter().map(move |part| (KeyRange::of(part), at, part.meta().bytes)))
        .collect();
    ranges.sort_by(|(one, ..), (other, ..)| one.lower.cmp(&other.lower));
    let mut groups: Vec<(KeyRange, usize, u64)> = Vec::new();
    for (range, run, bytes) in ranges {
        match groups.pop_if(|(last, ..)| range.lower < last.upper) {
            Some((last, oldest, sum)) => groups.push((last.with(range), oldest.max(run), sum + bytes)),
            None => groups.push((range, run, bytes)),
        }
    }
    groups.sort_by_key(|(_, oldest, bytes)| (std::cmp::Reverse(*oldest), std::cmp::Reverse(*bytes)));
    groups.into_iter().map(|(range, ..)| range).collect()
}

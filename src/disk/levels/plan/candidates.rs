//! Which compactions take data of a level, or of one file, one level down. Pure functions of versions; any thread.

use super::compaction::{Compaction, Input, Output};
use crate::branch::Branch;
use crate::disk::levels::options::LEVELED_LEVELS;
use crate::disk::levels::state::key_range::KeyRange;
use crate::disk::levels::state::version::{Level, LevelRun, LevelsVersion};
use crate::util::planted::planted;
use crate::util::sync::Arc;

/// The compactions of a level into the next one, the best first. They are disjoint in a leveled store.
///
/// - Level 0 of a leveled store: its files fall into groups that overlap within themselves and not each other. The
///   groups with files of the oldest run go first, because a run counts until its last file has left; then the largest.
/// - Another level of a leveled store: one file, that which overlaps least of the next level for its size.
/// - Tiered: the oldest runs of the level, as many as the merge percentage says.
pub fn of_level(version: &LevelsVersion, level: usize) -> Vec<Compaction> {
    if !version.tuning().is_leveled() {
        return of_runs(version, level).into_iter().collect();
    }
    if level == 0 {
        let groups = groups(&version.levels()[0]);
        return groups.into_iter().filter_map(|group| of_group(version, &group)).collect();
    }
    let mut scored: Vec<_> =
        version.levels()[level].branches().map(|part| (overlap(version, level, part), part)).collect();
    scored.sort_by_key(|(overlap, _)| *overlap);
    scored.into_iter().filter_map(|(_, part)| of_part(version, level, part)).collect()
}

/// The bytes of the next level that a part overlaps, for each of its own bytes, in 1/65536.
fn overlap(version: &LevelsVersion, level: usize, part: &Branch) -> u128 {
    let range = KeyRange::of(part);
    let below = version.levels().get(level + 1).into_iter().flat_map(|level| &level.runs);
    let bytes: u64 = below.flat_map(|run| run.parts_in(&range)).map(|part| part.meta().bytes).sum();
    (u128::from(bytes) << 16) / u128::from(part.meta().bytes.max(1))
}

/// In a leveled store: the compaction that takes a part to the next level; `None` from the deepest one. Of level 0,
/// everything that its group has.
pub fn of_part(version: &LevelsVersion, level: usize, part: &Arc<Branch>) -> Option<Compaction> {
    if level == 0 {
        let groups = groups(&version.levels()[0]);
        let range = KeyRange::of(part);
        return groups.into_iter().find(|group| group.meets(&range)).and_then(|group| of_group(version, &group));
    }
    let holds = |run: &&LevelRun| run.run.parts().iter().any(|other| Arc::ptr_eq(other, part));
    let run = version.levels()[level].runs.iter().find(holds)?;
    if level + 1 >= LEVELED_LEVELS {
        return None;
    }
    let input = Input::of(level, run, std::slice::from_ref(part));
    down(version, vec![input], level + 1)
}

/// The compaction of whole runs of a level, the oldest ones, to a new run of the next level.
fn of_runs(version: &LevelsVersion, level: usize) -> Option<Compaction> {
    let runs = &version.levels()[level].runs;
    let percent = version.tuning().shape.merge_percent as usize;
    let count = (runs.len() * percent).div_ceil(100).max(2).min(runs.len());
    let taken = planted!(&runs[runs.len() - count..], Bug::NewestRunsFirst => &runs[..count]);
    let inputs = taken.iter().map(|run| Input::whole(level, run)).collect();
    Compaction::new(version, inputs, Output::NewRun { level: level + 1 })
}

/// The compaction of all runs of a level: to a new run of the next level, or in the deepest level to one run there.
pub fn of_all_runs(version: &LevelsVersion, level: usize) -> Option<Compaction> {
    let runs = &version.levels()[level].runs;
    let inputs = runs.iter().map(|run| Input::whole(level, run)).collect();
    let is_deepest = level > 0 && level + 1 == version.levels().len();
    let newest = runs.first()?.id;
    let output = if is_deepest { Output::Into { level, run: newest } } else { Output::NewRun { level: level + 1 } };
    Compaction::new(version, inputs, output)
}

/// The rewriting of one part where it is.
pub fn in_place(version: &LevelsVersion, level: usize, run: &LevelRun, part: &Arc<Branch>) -> Option<Compaction> {
    let input = Input::of(level, run, std::slice::from_ref(part));
    Compaction::new(version, vec![input], Output::Into { level, run: run.id })
}

/// The ranges of groups of files of level 0: the files of a group overlap each other, in a chain, and no other file.
pub fn groups(level: &Level) -> Vec<KeyRange> {
    // For each group its range, its oldest run counted from the newest, and its bytes.
    let mut ranges: Vec<(KeyRange, usize, u64)> = level
        .runs
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

/// The compaction of a group of level 0 into the base level.
pub fn of_group(version: &LevelsVersion, group: &KeyRange) -> Option<Compaction> {
    let inputs = version.levels()[0].runs.iter().map(|run| Input::of(0, run, run.parts_in(group))).collect();
    down(version, inputs, version.targets().base())
}

/// In a leveled store: the compactions of single files of the oldest run of level 0 into the base level.
pub fn of_oldest_run(version: &LevelsVersion) -> Vec<Compaction> {
    let Some(run) = version.levels().first().and_then(|level| level.runs.last()) else { return Vec::new() };
    let base = version.targets().base();
    let one = |part| down(version, vec![Input::of(0, run, std::slice::from_ref(part))], base);
    run.run.parts().iter().filter_map(one).collect()
}

/// In a leveled store: the compaction of inputs of the level above `to`, with the parts of `to` in their range.
fn down(version: &LevelsVersion, mut inputs: Vec<Input>, to: usize) -> Option<Compaction> {
    let range = KeyRange::of_all(inputs.iter().flat_map(|input| &input.parts))?;
    if let Some(run) = version.levels().get(to).and_then(|level| level.runs.first()) {
        inputs.push(Input::of(to, run, run.parts_in(&range)));
    }
    Compaction::new(version, inputs, Output::Joined { level: to })
}

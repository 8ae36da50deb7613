//! Which compactions take data of a level, or of one file, one level down. Pure functions of versions; any thread.

use super::compaction::{Compaction, Input, Output};
use super::overlaps::{groups, of_level_under, under, within_level};
use super::score;
use super::skipped;
use crate::branch::Branch;
use crate::disk::levels::options::LEVELED_LEVELS;
use crate::disk::levels::state::key_range::KeyRange;
use crate::disk::levels::state::version::{LevelRun, LevelsVersion};
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
        let groups = groups(&version.levels()[0].runs);
        return groups.into_iter().filter_map(|group| of_group(version, &group)).collect();
    }
    if !score::is_full_by_bytes(version, level) {
        return skipped::of_level(version, level);
    }
    let mut scored: Vec<_> =
        version.levels()[level].branches().map(|part| (overlap(version, level, part), part)).collect();
    scored.sort_by_key(|(overlap, _)| *overlap);
    scored.into_iter().filter_map(|(_, part)| of_part(version, level, part)).collect()
}

/// The bytes of the next level that a part, with the older ones of its level under it, overlaps: for each byte that leaves
/// the level, in 1/65536.
fn overlap(version: &LevelsVersion, level: usize, part: &Arc<Branch>) -> u128 {
    let bytes = |inputs: &[Input]| -> u64 { inputs.iter().map(|input| input.bytes()).sum() };
    let Some((own, mut range)) = of_level_under(version, level, part) else { return u128::MAX };
    let below = version.levels().get(level + 1).map_or(Vec::new(), |next| under(level + 1, &next.runs, &mut range));
    (u128::from(bytes(&below)) << 16) / u128::from(bytes(&own).max(1))
}

/// In a leveled store: the compaction that takes a part to the next level; `None` from the deepest one. Of level 0,
/// everything that its group has.
pub fn of_part(version: &LevelsVersion, level: usize, part: &Arc<Branch>) -> Option<Compaction> {
    if level == 0 {
        let groups = groups(&version.levels()[0].runs);
        let range = KeyRange::of(part);
        return groups.into_iter().find(|group| group.meets(&range)).and_then(|group| of_group(version, &group));
    }
    if level + 1 >= LEVELED_LEVELS {
        return within_level(version, level, part);
    }
    let (inputs, _) = of_level_under(version, level, part)?;
    down(version, inputs, level + 1)
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
    let mut range = KeyRange::of_all(inputs.iter().flat_map(|input| &input.parts))?;
    if let Some(level) = version.levels().get(to) {
        inputs.extend(under(to, &level.runs, &mut range));
    }
    Compaction::new(version, inputs, Output::Joined { level: to })
}

//! The levels in use, as numbers and in words: with too few, nothing can be skipped. Pure.

use super::Series;
use crate::outcome::Outcome;

/// Levels that have data.
pub fn in_use(outcome: &Outcome) -> Option<f64> {
    let used = outcome.levels.iter().filter(|level| level.runs > 0).count();
    (used > 0).then_some(used as f64)
}

/// The levels of each engine at its last point, in words; nothing about an engine that does not tell.
pub fn conditions(series: &[Series]) -> impl Iterator<Item = String> {
    series.iter().filter_map(|series| {
        let levels = &series.ran.last()?.as_ref().ok()?.levels;
        let used = levels.iter().enumerate().filter(|(_, level)| level.runs > 0);
        let words: Vec<String> = used.map(|(at, level)| format!("level {at}: {}", level.entries)).collect();
        (!words.is_empty()).then(|| format!("entries at the last point, {}: {}", series.engine, words.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Level;
    use crate::figures::Death;

    #[test]
    fn empty_levels_are_not_in_use() {
        let level = |runs, entries| Level { runs, probes: runs, entries };
        let outcome = Outcome { levels: vec![level(0, 0), level(1, 5), level(1, 70)], ..Outcome::default() };
        assert_eq!((in_use(&outcome), in_use(&Outcome::default())), (Some(2.0), None));
        let series = |engine: &str, ran| Series { engine: engine.into(), ran };
        let silent = series("x", vec![Ok(outcome.clone()), Ok(Outcome::default())]);
        let dead = series("y", vec![Ok(outcome.clone()), Err(Death::default())]);
        let all = [series("alluvium", vec![Ok(Outcome::default()), Ok(outcome)]), silent, dead];
        let said: Vec<String> = conditions(&all).collect();
        assert_eq!(said, ["entries at the last point, alluvium: level 1: 5, level 2: 70"]);
    }
}

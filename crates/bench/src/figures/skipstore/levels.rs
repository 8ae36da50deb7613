//! The levels in use, as numbers and in words: with too few, nothing can be skipped. And what compactions left in memory.
//! Pure.

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

/// Bytes of the record of what is in memory, for a thousand bytes of the user.
pub fn record_per_mille(outcome: &Outcome) -> Option<f64> {
    let written = outcome.user_bytes_written;
    (written > 0).then_some(outcome.buffered?.recorded as f64 * 1000.0 / written as f64)
}

/// Of a hundred pairs that scans read, those that came from what compactions left in memory.
pub fn scanned_percent(outcome: &Outcome) -> Option<f64> {
    let scanned = outcome.pairs_scanned;
    (scanned > 0).then_some(outcome.buffered?.scanned as f64 * 100.0 / scanned as f64)
}

/// What each engine left in memory up to its last point; nothing about an engine that leaves nothing there.
pub fn in_memory(series: &[Series]) -> impl Iterator<Item = String> {
    series.iter().filter_map(|series| Some(format!("{}: {}", series.engine, words(series.ran.last()?.as_ref().ok()?)?)))
}

fn words(outcome: &Outcome) -> Option<String> {
    let buffered = outcome.buffered?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let seconds = (outcome.elapsed_s + outcome.settle_s).max(1e-9);
    Some(format!(
        "{:.1} MB left in memory, recorded in {:.2} MB ({:.2} per mille of the user's bytes, {:.1} KB/s), {:.1} MB written \
         by checkpoints",
        mb(buffered.left),
        mb(buffered.recorded),
        record_per_mille(outcome)?,
        buffered.recorded as f64 / 1000.0 / seconds,
        mb(buffered.checkpointed)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Buffered, Level};
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

    #[test]
    fn the_record_is_compared_with_the_user_s_bytes_and_with_time() {
        let buffered = Some(Buffered { left: 2_500_000, recorded: 30_000, checkpointed: 1_000_000, scanned: 30 });
        let user_bytes_written = 10_000_000;
        let pairs_scanned = 120;
        let outcome = Outcome {
            buffered,
            user_bytes_written,
            pairs_scanned,
            elapsed_s: 2.0,
            settle_s: 1.0,
            ..Outcome::default()
        };
        assert_eq!((record_per_mille(&outcome), scanned_percent(&outcome)), (Some(3.0), Some(25.0)));
        assert_eq!(scanned_percent(&Outcome { pairs_scanned, ..Outcome::default() }), None);
        let series = |engine: &str, ran| Series { engine: engine.into(), ran: vec![ran] };
        let dead = series("y", Err(Death::default()));
        let all = [series("alluvium", Ok(outcome)), series("x", Ok(Outcome::default())), dead];
        let said = "2.5 MB left in memory, recorded in 0.03 MB (3.00 per mille of the user's bytes, 10.0 KB/s), 1.0 MB written \
                    by checkpoints";
        assert_eq!(in_memory(&all).collect::<Vec<_>>(), [format!("alluvium: {said}")]);
    }
}

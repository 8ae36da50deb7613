//! Table 3: inserts and look-ups by the fraction of a full level's runs that one merge takes.
//!
//! The levels have eight runs, of which a quarter, a half, three quarters and all are whole numbers. The paper merges a
//! fraction of the runs in memory; here memory is written as a whole, and the fraction is that of the runs of each level
//! on disk, level 0 with a run for each buffer included. Section 2.3 says how large runs become: a level's runs have the
//! total size of the level above times the fraction.

use super::{
    Buffer, GETS, INSERTS, KEYS, Load, Place, Series, every, hits_and_misses, marks, paper_line, rate, runs_met,
};
use crate::engine::{Component, Level, LevelKnobs};
use crate::figures::drawing::{Line, Panel};
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;

/// The runs of a full level.
const RUNS: u32 = 8;
const FRACTIONS_PERCENT: [u32; 4] = [25, 50, 75, 100];
const PAPER_INSERTS: [(&str, f64); 4] = [("0.25", 1.01e6), ("0.5", 1.18e6), ("0.75", 1.15e6), ("1", 1.30e6)];
const PAPER_LOOKUPS: [(&str, f64); 4] = [("0.25", 79_008.9), ("0.5", 31_362.3), ("0.75", 99_358.7), ("1", 56_733.1)];
/// How far the measured size of runs may be from that of section 2.3: levels overfill while merges wait their turn, and
/// the newest run of a level may be smaller.
const SIZES_FROM: f64 = 0.5;
const SIZES_TO: f64 = 2.0;

/// Table 3.
pub const FRACTIONS: Figure = Figure {
    name: "kanda-table-3",
    source: "Kanda, table 3",
    claim: "with smaller merge fractions inserts slow down, because merges are more; look-ups follow no rule",
    draw: |figure, stage, engines| {
        let keys = stage.num.unwrap_or(KEYS);
        let places: Vec<Place> = FRACTIONS_PERCENT.iter().map(|percent| place(*percent)).collect();
        // At another number of keys the paper's numbers mean nothing.
        let of_paper = |numbers| (keys == KEYS).then(|| paper_line(&places, numbers)).flatten();
        let (mut panels, mut rulings) = (Vec::new(), Vec::new());
        let mut conditions = vec![format!("{keys} keys (the paper: 1 million); {RUNS} runs in a full level")];
        for buffer in Buffer::ALL {
            let [loads, hits, misses] = every(engines, &FRACTIONS_PERCENT, |factory, percent| {
                let levels = LevelKnobs { runs: Some(RUNS), merge_percent: Some(*percent), ..LevelKnobs::default() };
                Load { levels, ..Load::new(keys, buffer) }.run(stage, factory, hits_and_misses())
            })?;
            let panel = |what: &str, y, series, paper, height: fn(&Outcome) -> Option<f64>| {
                super::panel((buffer.titled(what), "fraction", y), &places, series, paper, height)
            };
            let inserts = panel("inserts", INSERTS, &loads, of_paper(&PAPER_INSERTS), rate);
            let gets = panel("hits", GETS, &hits, of_paper(&PAPER_LOOKUPS), rate);
            for (name, _) in &places {
                rulings.extend([&inserts, &gets].map(|panel| rules::ahead_at(panel, name, super::PAPER, 1.0)));
            }
            let met = panel("runs met by a look-up", "runs", &loads, None, runs_met);
            let absent = panel("misses", GETS, &misses, None, rate);
            if buffer == Buffer::Small {
                // The default buffer takes a million keys in few runs, so nothing or little is merged.
                rulings.push(rules::rises(&inserts, "0.25", "1", 1.0));
                conditions.extend(super::buffer_condition(&loads[..1]));
            }
            // Other components have no such runs.
            if buffer == Buffer::Small && stage.component.is_none_or(|component| component == Component::Tiered) {
                let sizes = run_sizes(buffer.titled("run sizes"), &places, &loads);
                rulings.extend(places.iter().map(|(name, _)| marks::within(&sizes, name, SIZES_FROM, SIZES_TO)));
                panels.push(sizes);
            }
            panels.extend([inserts, gets, absent, met]);
        }
        Ok(super::drawing(figure, stage, conditions, panels, rulings))
    },
};

fn place(percent: u32) -> Place {
    let fraction = f64::from(percent) / 100.0;
    (fraction.to_string(), fraction)
}

/// The measured size of runs over that of section 2.3.
fn run_sizes(title: String, places: &[Place], loads: &[Series]) -> Panel {
    let line = |series: &Series| {
        let points = places.iter().zip(&series.ran).zip(FRACTIONS_PERCENT).flat_map(|((place, ran), percent)| {
            let height = |outcome: &Outcome| growth(&outcome.levels, percent);
            Line::of(&series.engine, [(&place.0[..], place.1)], std::slice::from_ref(ran), height).points
        });
        Line { points: points.collect(), engine: series.engine.clone() }
    };
    let (x, y) = ("fraction".into(), "entries of a run / (entries of a full level above x fraction)".into());
    Panel { title, x, y, x_measured: false, lines: loads.iter().map(line).collect() }
}

/// The mean entries of a level's runs, over what section 2.3 says: the entries of a full level above, times the
/// fraction. The geometric mean of all levels below level 0; levels may be empty. `None` if data is in one level only.
fn growth(levels: &[Level], percent: u32) -> Option<f64> {
    let mut means = levels.iter().enumerate().filter_map(|(at, level)| Some((at, mean_entries(level)?)));
    let (first, smallest) = means.next()?;
    let (last, largest) = means.next_back()?;
    let expected = f64::from(RUNS) * f64::from(percent) / 100.0;
    Some((largest / smallest).powf(1.0 / (last - first) as f64) / expected)
}

fn mean_entries(level: &Level) -> Option<f64> {
    (level.runs > 0 && level.entries > 0).then(|| level.entries as f64 / level.runs as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_grow_by_the_runs_of_a_level_times_the_fraction() {
        let levels = |runs: &[(u64, u64)]| -> Vec<Level> {
            runs.iter().map(|(runs, entries)| Level { runs: *runs, probes: *runs, entries: *entries }).collect()
        };
        // A half of 8 runs: each run has four of the level above.
        let near = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-9;
        let kept = [(2, 200), (3, 1200), (1, 1600)];
        assert!(near(growth(&levels(&kept), 50), 1.0) && near(growth(&levels(&kept), 100), 0.5));
        assert!(near(growth(&levels(&[(0, 0), (2, 200), (0, 0), (1, 1600)]), 50), 1.0), "empty levels");
        // Too large by 2 in one of two steps.
        assert!(near(growth(&levels(&[(1, 100), (1, 800), (1, 3200)]), 50), 2f64.sqrt()));
        assert_eq!((growth(&levels(&[(5, 500)]), 50), growth(&[], 50)), (None, None));
    }

    #[test]
    fn fractions_are_named_as_in_the_paper() {
        let places: Vec<Place> = FRACTIONS_PERCENT.iter().map(|percent| place(*percent)).collect();
        for numbers in [&PAPER_INSERTS, &PAPER_LOOKUPS] {
            assert_eq!(paper_line(&places, numbers).unwrap().points.len(), 4);
        }
    }
}

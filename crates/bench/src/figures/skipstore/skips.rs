//! Table 3: how many levels items skip at compactions; and updates and gets by the most levels that they may skip.
//!
//! A leveled store counts here, too: a file that moves to the next level as it is takes its items one level further. An
//! engine whose items skip nothing else is run once, and has the same result at every place.

use super::{
    AMPLIFIED, Bench, DATA, GB, KEYS, LEVELED, PUTS, Place, Series, ahead, engines, levels, panel, rate, updates,
    warm_up, write_amp,
};
use crate::engine::{EngineOptions, Factory, LevelKnobs, Result};
use crate::figures::drawing::{Line, Panel, Point};
use crate::figures::host::Ran;
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::workload::{Job, Mix, Workload};

/// The most levels that items may skip.
const MOST: [u32; 5] = [0, 1, 2, 3, 6];
/// Those of which the whole distribution is shown: the paper's choice, and no bound.
const SHOWN: [u32; 2] = [2, 6];
const UPDATED: u64 = 10 * GB;
/// The paper's counts give 0.2271 and 0.0923 levels an item.
const OF_LEVELED: f64 = 2.4;
/// The paper's row of its own store.
const PAPER: [u64; 7] = [298_505_734, 55_748_476, 8_062_923, 2_808_652, 685_316, 3217, 341];

/// Table 3.
pub const SKIPPED: Figure = Figure {
    name: "skipstore-table-3",
    source: "SkipStore, table 3 and section 4.1",
    claim: "items skip 0.23 levels on average, 2.46 times those that move without skipping; at most two levels are best",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let places = MOST.map(|most| -> Place { (most.to_string(), f64::from(most)) });
        let (mut puts, mut gets) = (Vec::new(), Vec::new());
        for factory in engines {
            let ran = by_most(&bench, *factory)?;
            let at = |step: usize| -> Vec<Ran> { ran.iter().filter_map(|ran| ran.get(step).cloned()).collect() };
            puts.push(Series { engine: factory.name().into(), ran: at(0) });
            gets.push(Series { engine: factory.name().into(), ran: at(2) });
        }
        let across = "max_skip";
        let mut panels: Vec<Panel> = SHOWN.iter().filter_map(|most| counts(*most, &puts)).collect();
        let mean = panel(("levels skipped by 1000 items", across, "levels"), &places, &puts, levels_per_1000);
        let amp = panel(("write amplification", across, AMPLIFIED), &places, &puts, write_amp);
        let latency = panel(("mean latency of gets", across, "us"), &places, &gets, |outcome| outcome.get_mean_us);
        let both: Vec<Place> = places.iter().filter(|(_, most)| SHOWN.map(f64::from).contains(most)).cloned().collect();
        let mut rulings = ahead(&mean, &both, LEVELED, OF_LEVELED);
        rulings.push(rules::falls(&engines::as_ours(&amp), "0", "2"));
        panels.push(mean);
        panels.push(panel(("throughput of updates", across, PUTS), &places, &puts, rate));
        panels.push(panel(("mean latency of updates", across, "us"), &places, &puts, super::latency_us));
        panels.extend([amp, latency]);
        let mut conditions = vec![
            format!(
                "{} of updates at each place, then gets for {} s",
                bench.place(UPDATED).0,
                stage.duration.as_secs_f64()
            ),
            format!("the paper's items that skip 0 to 6 levels: {PAPER:?}"),
        ];
        conditions.extend(levels::conditions(&puts));
        Ok(bench.drawing(figure, conditions, panels, rulings))
    },
};

/// The outcomes of updates, of a warm-up and of gets, for each place.
fn by_most(bench: &Bench<'_>, factory: &dyn Factory) -> Result<Vec<Vec<Ran>>> {
    let skips = engines::skips(bench.stage, bench.engines, factory);
    let run = |max_skip: Option<u32>| {
        let settings = bench.settings(factory);
        let levels = LevelKnobs { max_skip, ..settings.engine.levels };
        let settings = Settings { engine: EngineOptions { levels, ..settings.engine }, ..settings };
        let mix = Mix { read: 1, choice: Some(KEYS), ..Mix::default() };
        let gets = bench.stage.timed(&settings, 1, Workload { name: "gets".into(), job: Job::Mix(mix) });
        let steps = vec![updates(&settings, bench.pairs(UPDATED)), warm_up(&settings), gets];
        bench.run(factory, &settings, steps)
    };
    if skips { MOST.into_iter().map(|most| run(Some(most))).collect() } else { Ok(vec![run(None)?; MOST.len()]) }
}

/// The numbers of items by levels skipped, where at most `most` may be.
fn counts(most: u32, puts: &[Series]) -> Option<Panel> {
    let at = MOST.iter().position(|other| *other == most)?;
    let line = |series: &Series| {
        let points = match series.ran.get(at) {
            Some(Ok(outcome)) => points(outcome.skipped.as_deref().unwrap_or_default()),
            Some(Err(death)) => vec![Point::dead("0", Some(0.0), death)],
            None => Vec::new(),
        };
        Line { engine: series.engine.clone(), points }
    };
    let lines = puts.iter().map(line).collect();
    let (x, y) = ("levels".into(), "items".into());
    Some(Panel { title: format!("levels skipped, max_skip {most}"), x, y, x_measured: false, lines })
}

fn points(items: &[u64]) -> Vec<Point> {
    items
        .iter()
        .enumerate()
        .map(|(levels, items)| Point::at(&levels.to_string(), levels as f64, *items as f64))
        .collect()
}

/// The levels that a thousand items skip. `None` if the engine does not count them, or nothing was compacted.
fn levels_per_1000(outcome: &Outcome) -> Option<f64> {
    let skipped = outcome.skipped.as_ref()?;
    let levels: u64 = skipped.iter().zip(0..).map(|(items, levels)| items * levels).sum();
    let items: u64 = skipped.iter().sum();
    (items > 0).then(|| levels as f64 * 1000.0 / items as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_the_paper_s_counts() {
        let mean = |items: &[u64]| levels_per_1000(&Outcome { skipped: Some(items.into()), ..Outcome::default() });
        let (skip, leveled) = (mean(&PAPER).unwrap(), mean(&[514_947_985, 52_349_414]).unwrap());
        assert!((skip - 227.1).abs() < 0.1 && (leveled - 92.3).abs() < 0.1, "{skip} and {leveled}");
        assert!((skip / leveled - 2.46).abs() < 0.01, "the paper has 2.56, of rounded means");
        assert_eq!((mean(&[0, 0]), mean(&[])), (None, None));
        assert_eq!(levels_per_1000(&Outcome::default()), None);
    }

    #[test]
    fn counts_are_points_by_levels() {
        let outcome = Outcome { skipped: Some(vec![5, 0, 7]), ..Outcome::default() };
        let series = Series { engine: "alluvium".into(), ran: vec![Ok(outcome); MOST.len()] };
        let panel = counts(2, &[series]).unwrap();
        assert_eq!(
            panel.lines[0].points,
            [("0", 0.0, 5.0), ("1", 1.0, 0.0), ("2", 2.0, 7.0)].map(|(n, x, y)| Point::at(n, x, y))
        );
        assert!(counts(4, &[]).is_none());
    }
}

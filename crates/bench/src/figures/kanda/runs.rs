//! Figure 5: inserts and look-ups by the number of runs of a full level, level 0 with a run for each buffer included.

use super::{Buffer, GETS, INSERTS, KEYS, Load, Place, every, hits_and_misses, rate, runs_met};
use crate::engine::LevelKnobs;
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;

const NUMBERS: [u32; 5] = [2, 4, 8, 16, 32];

/// Figure 5.
pub const RUNS: Figure = Figure {
    name: "kanda-runs",
    source: "Kanda, figure 5",
    claim: "more runs, less merging: inserts are faster and look-ups slower",
    draw: |figure, stage, engines| {
        let keys = stage.num.unwrap_or(KEYS);
        let places: Vec<Place> = NUMBERS.iter().map(|runs| (runs.to_string(), f64::from(*runs))).collect();
        let (mut panels, mut rulings) = (Vec::new(), Vec::new());
        let mut conditions =
            vec![format!("{keys} keys (the paper: 1 million); all runs of a full level are merged at a time")];
        for buffer in Buffer::ALL {
            let [loads, hits, misses] = every(engines, &NUMBERS, |factory, runs| {
                let levels = LevelKnobs { runs: Some(*runs), ..LevelKnobs::default() };
                Load { levels, ..Load::new(keys, buffer) }.run(stage, factory, hits_and_misses())
            })?;
            let panel = |what: &str, y, series, height: fn(&Outcome) -> Option<f64>| {
                super::panel((buffer.titled(what), "runs of a level", y), &places, series, None, height)
            };
            let inserts = panel("inserts", INSERTS, &loads, rate);
            let gets = panel("hits", GETS, &hits, rate);
            if buffer == Buffer::Small {
                // The default buffer takes a million keys in few runs, so nothing or little is merged.
                rulings.push(rules::rises(&inserts, "2", "32", 1.0));
                rulings.push(rules::falls(&gets, "2", "32"));
                conditions.extend(super::buffer_condition(&loads[..1]));
            }
            let absent = panel("misses", GETS, &misses, rate);
            panels.extend([inserts, gets, absent, panel("runs met by a look-up", "runs", &loads, runs_met)]);
        }
        Ok(super::drawing(figure, stage, conditions, panels, rulings))
    },
};

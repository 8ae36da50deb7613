//! Section 3.5, the two figures without a number: look-ups and inserts by the false-positive rate of the filters, which
//! all levels have alike, as in the paper.
//!
//! A filter stores the bits of a fingerprint, each of which halves the rate. The paper does not say which rates it has.

use super::{Buffer, GETS, INSERTS, Load, Place, every, hits_and_misses, rate, runs_met};
use crate::engine::LevelKnobs;
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;

const KEYS: u64 = 100_000;
/// From the coarsest filter to the finest.
const BITS: [u32; 6] = [1, 2, 4, 7, 10, 16];

/// The figures of section 3.5.
pub const FILTER: Figure = Figure {
    name: "kanda-filter",
    source: "Kanda, section 3.5",
    claim: "the lower the false-positive rate of the filters, the faster are look-ups and the slower are inserts",
    draw: |figure, stage, engines| {
        let keys = stage.num.unwrap_or(KEYS);
        let places: Vec<Place> = BITS.iter().map(|bits| place(*bits)).collect();
        let (coarse, fine) = (&places[0].0, &places[BITS.len() - 1].0);
        let (mut panels, mut rulings) = (Vec::new(), Vec::new());
        let mut conditions = vec![format!("{keys} keys (the paper: 100,000); the same rate in all levels")];
        for buffer in Buffer::ALL {
            let [loads, hits, misses] = every(engines, &BITS, |factory, bits| {
                let levels = LevelKnobs { filter_bits: Some(*bits), ..LevelKnobs::default() };
                Load { levels, ..Load::new(keys, buffer) }.run(stage, factory, hits_and_misses())
            })?;
            let panel = |what: &str, y, series, height: fn(&Outcome) -> Option<f64>| {
                let texts = (buffer.titled(what), "false positives (across: halvings)", y);
                super::panel(texts, &places, series, None, height)
            };
            let inserts = panel("inserts", INSERTS, &loads, rate);
            let gets = panel("hits", GETS, &hits, rate);
            let absent = panel("misses", GETS, &misses, rate);
            if buffer == Buffer::Small {
                // The default buffer takes so few keys in one or two runs, where filters matter little.
                rulings.extend([&gets, &absent].map(|panel| rules::rises(panel, coarse, fine, 1.0)));
                rulings.push(rules::falls(&inserts, coarse, fine));
                conditions.extend(super::buffer_condition(&loads[..1]));
            }
            panels.extend([gets, absent, inserts, panel("runs met by a look-up", "runs", &loads, runs_met)]);
        }
        Ok(super::drawing(figure, stage, conditions, panels, rulings))
    },
};

/// A rate as a fraction.
fn place(bits: u32) -> Place {
    (format!("1/{}", 1_u64 << bits), f64::from(bits))
}

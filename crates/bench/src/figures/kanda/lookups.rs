//! Table 2 and figure 2: look-ups by the number of keys, hits and misses apart, after the load and its background work.
//! The paper looks up as many keys as there are; here a point takes a fixed time.

use super::loads::{by_size, condition, sizes};
use super::{Buffer, COURSE_READS, GETS, Load, MILLION, every, hits_and_misses, marks, paper_line, rate, runs_met};
use crate::figures::{Figure, rules};

const PAPER: [(&str, f64); 4] =
    [("1 million", 51_240.0), ("5 million", 58_463.2), ("10 million", 54_283.9), ("50 million", 51_473.0)];
/// Up to this number of keys, look-ups are to be `FACTOR` times as fast as the paper's; beyond it, `FACTOR_BEYOND` times.
const NEAR_KEYS: u64 = 10 * MILLION;
const FACTOR: f64 = 10.0;
const FACTOR_BEYOND: f64 = 5.0;

/// Table 2.
pub const LOOKUPS: Figure = Figure {
    name: "kanda-table-2",
    source: "Kanda, table 2 and figure 2",
    claim: "51 to 58 thousand look-ups a second, whether 1 or 50 million keys; fewer than inserts",
    draw: |figure, stage, engines| {
        let sizes = sizes(stage);
        let places = by_size(&sizes);
        let (mut panels, mut rulings, mut conditions) = (Vec::new(), Vec::new(), vec![condition(&sizes)]);
        for buffer in Buffer::ALL {
            let [loads, hits, misses] = every(engines, &sizes, |factory, keys| {
                Load::new(*keys, buffer).run(stage, factory, hits_and_misses())
            })?;
            for (what, series) in [("hits", &hits), ("misses", &misses)] {
                let texts = (buffer.titled(what), "keys, million", GETS);
                let gets = super::panel(texts, &places, series, paper_line(&places, &PAPER), rate);
                for ((name, _), keys) in places.iter().zip(&sizes) {
                    let usual = if *keys <= NEAR_KEYS { FACTOR } else { FACTOR_BEYOND };
                    let factor = if buffer == Buffer::Usual { usual } else { 1.0 };
                    rulings.push(rules::ahead_at(&gets, name, super::PAPER, factor));
                    rulings.push(marks::at_least(&gets, name, COURSE_READS));
                }
                panels.push(gets);
            }
            let texts = (buffer.titled("runs met by a look-up"), "keys, million", "runs");
            panels.push(super::panel(texts, &places, &hits, None, runs_met));
            if buffer == Buffer::Small {
                conditions.extend(super::buffer_condition(&loads[..1]));
            }
        }
        Ok(super::drawing(figure, stage, conditions, panels, rulings))
    },
};

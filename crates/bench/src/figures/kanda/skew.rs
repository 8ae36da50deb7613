//! Section 3.4, the figure without a number: reads and writes of evenly spread keys against skewed ones, in all four
//! pairings.
//!
//! As in the paper, keys of a normal distribution stand for even ones, and those of an exponential distribution are
//! skewed. The paper's store has only the keys that were drawn for its million inserts; here every key is loaded first, so
//! that each look-up finds its key, and the pairings run on a million keys alike.

use super::{Buffer, KEYS, Load, Place, Work, every, rate};
use crate::choice::Choice;
use crate::figures::{Figure, rules};
use crate::workload::Mix;

const EVEN: Choice = Choice::Normal;
const SKEWED: Choice = Choice::Exponential;
/// The pairings: of reads, of writes.
const PAIRINGS: [(&str, Choice, Choice); 4] = [
    ("even reads, even writes", EVEN, EVEN),
    ("even reads, skewed writes", EVEN, SKEWED),
    ("skewed reads, even writes", SKEWED, EVEN),
    ("skewed reads, skewed writes", SKEWED, SKEWED),
];
/// "greatly increases the number of operations per second".
const GREATLY: f64 = 1.5;

/// The figure of section 3.4.
pub const SKEW: Figure = Figure {
    name: "kanda-skew",
    source: "Kanda, section 3.4",
    claim: "skewed reads and writes are far faster than even ones, for few keys differ and they stay in memory; with one of \
            both skewed, the writes decide",
    draw: |figure, stage, engines| {
        let keys = stage.num.unwrap_or(KEYS);
        let places: Vec<Place> =
            PAIRINGS.iter().enumerate().map(|(at, (name, ..))| ((*name).into(), at as f64 + 1.0)).collect();
        let (mut panels, mut rulings) = (Vec::new(), Vec::new());
        let mut conditions = vec![
            format!("{keys} keys (the paper: 1 million inserts), half reads, half writes of loaded keys; one thread"),
            "even: a normal distribution over all keys; skewed: an exponential one with a mean of a thousandth of them"
                .into(),
        ];
        for buffer in Buffer::ALL {
            let [loads, series] = every(engines, &PAIRINGS, |factory, pairing| {
                Load::new(keys, buffer).run(stage, factory, vec![work(pairing)])
            })?;
            let texts = (buffer.titled("reads and writes"), "pairing", "operations a second");
            let panel = super::panel(texts, &places, &series, None, rate);
            let [even, skewed_writes, skewed_reads, skewed] = PAIRINGS.map(|(name, ..)| name);
            rulings.push(rules::rises(&panel, even, skewed, GREATLY));
            rulings.push(rules::rises(&panel, skewed_reads, skewed_writes, 1.0));
            panels.push(panel);
            if buffer == Buffer::Small {
                conditions.extend(super::buffer_condition(&loads[..1]));
            }
        }
        Ok(super::drawing(figure, stage, conditions, panels, rulings))
    },
};

fn work((name, reads, writes): &(&str, Choice, Choice)) -> Work {
    let mix = Mix { read: 1, overwrite: 1, choice: Some(*reads), overwrite_choice: Some(*writes), ..Mix::default() };
    ((*name).to_string(), 1, mix)
}

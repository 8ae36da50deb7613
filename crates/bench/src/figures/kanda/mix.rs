//! Figure 3: operations per second by the share of look-ups, on a store of a million keys.

use super::{Buffer, KEYS, Load, Place, Work, marks, rate};
use crate::choice::Choice;
use crate::figures::{Figure, rules};
use crate::workload::Mix;

/// Percentages of look-ups; the other operations put loaded keys.
const LOOKUPS: [u32; 7] = [0, 10, 25, 50, 75, 90, 100];

/// Figure 3.
pub const MIX: Figure = Figure {
    name: "kanda-mix",
    source: "Kanda, figure 3",
    claim: "the more of the operations are look-ups, the fewer there are a second, because look-ups read the disk",
    draw: |figure, stage, engines| {
        let keys = stage.num.unwrap_or(KEYS);
        let places: Vec<Place> = LOOKUPS.iter().map(|share| (share.to_string(), f64::from(*share))).collect();
        let (mut panels, mut rulings) = (Vec::new(), Vec::new());
        let mut conditions = vec![format!("{keys} keys (the paper: 1 million), chosen uniformly; one thread")];
        for buffer in Buffer::ALL {
            let mut series = Vec::new();
            let mut loads = Vec::new();
            for factory in engines {
                let mut ran = Load::new(keys, buffer).run(stage, *factory, LOOKUPS.map(work).into())?;
                let engine = factory.name().to_string();
                loads.push(super::Series { engine: engine.clone(), ran: ran.drain(..1).collect() });
                series.push(super::Series { engine, ran });
            }
            let texts = (buffer.titled("gets and puts"), "look-ups, %", "operations a second");
            let panel = super::panel(texts, &places, &series, None, rate);
            rulings.push(rules::falls(&panel, "0", "100"));
            rulings.push(marks::at_least(&panel, "0", super::COURSE_UPDATES));
            rulings.push(marks::at_least(&panel, "100", super::COURSE_READS));
            panels.push(panel);
            if buffer == Buffer::Small {
                conditions.extend(super::buffer_condition(&loads[..1]));
            }
        }
        Ok(super::drawing(figure, stage, conditions, panels, rulings))
    },
};

fn work(lookups: u32) -> Work {
    let mix = Mix { read: lookups, overwrite: 100 - lookups, choice: Some(Choice::Uniform), ..Mix::default() };
    (format!("{lookups}% look-ups"), 1, mix)
}

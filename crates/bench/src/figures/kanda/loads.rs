//! Table 1 and figure 1: inserts by the number of keys, each number into a new store. The paper's rate is that of the
//! inserts; what background work still has to do is shown as a rate of its own.

use super::{
    Buffer, COURSE_UPDATES, INSERTS, Load, MILLION, Place, every, marks, number, paper_line, rate, settled_rate,
};
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};

/// The paper's numbers of keys.
const SIZES: [u64; 4] = [MILLION, 5 * MILLION, 10 * MILLION, 50 * MILLION];
const PAPER: [(&str, f64); 4] =
    [("1 million", 1.33e6), ("5 million", 1.02e6), ("10 million", 1.00e6), ("50 million", 8.33e5)];
/// "a 37% speed decrease" over all sizes.
const KEPT: f64 = 0.63;
/// What is to be held at every size.
const HELD: f64 = 1e6;

/// Table 1.
pub const LOADS: Figure = Figure {
    name: "kanda-table-1",
    source: "Kanda, table 1 and figure 1",
    claim: "inserts a second fall by 37% from 1 to 50 million keys, from 1.33 to 0.83 million; over a million with a buffer of \
            800 entries",
    draw: |figure, stage, engines| {
        let sizes = sizes(stage);
        let places = by_size(&sizes);
        let (mut panels, mut rulings, mut conditions) = (Vec::new(), Vec::new(), vec![condition(&sizes)]);
        let (first, last) = (&places[0].0, &places[places.len() - 1].0);
        for buffer in Buffer::ALL {
            let [series] =
                every(engines, &sizes, |factory, keys| Load::new(*keys, buffer).run(stage, factory, Vec::new()))?;
            let texts = (buffer.titled("inserts"), "keys, million", INSERTS);
            let paper = (buffer == Buffer::Usual).then(|| paper_line(&places, &PAPER)).flatten();
            let inserts = super::panel(texts, &places, &series, paper, rate);
            let texts = (buffer.titled("inserts and the background work they leave"), "keys, million", INSERTS);
            let settled = super::panel(texts, &places, &series, None, settled_rate);
            if buffer == Buffer::Small {
                rulings.push(marks::at_least(&inserts, first, HELD));
                rulings.extend(places.iter().map(|(name, _)| marks::at_least(&inserts, name, COURSE_UPDATES)));
                conditions.extend(super::buffer_condition(&series[..1]));
            } else {
                rulings.extend(places.iter().map(|(name, _)| marks::at_least(&inserts, name, HELD)));
                rulings.extend(places.iter().map(|(name, _)| rules::ahead_at(&inserts, name, super::PAPER, 1.0)));
                rulings.push(rules::rises(&inserts, first, last, KEPT));
            }
            panels.extend([inserts, settled]);
        }
        Ok(super::drawing(figure, stage, conditions, panels, rulings))
    },
};

/// The paper's numbers of keys up to the user's; if that leaves fewer than two, the same fractions of the user's number.
pub fn sizes(stage: &Stage<'_>) -> Vec<u64> {
    let most = stage.num.unwrap_or(SIZES[3]);
    let mut sizes: Vec<u64> = SIZES.into_iter().filter(|size| *size <= most).collect();
    if sizes.len() < 2 {
        sizes = SIZES.map(|size| (u128::from(most) * u128::from(size) / u128::from(SIZES[3])).max(1) as u64).into();
        sizes.dedup();
    }
    sizes
}

pub fn by_size(sizes: &[u64]) -> Vec<Place> {
    sizes.iter().map(|size| (number(*size), *size as f64 / MILLION as f64)).collect()
}

pub fn condition(sizes: &[u64]) -> String {
    let sizes: Vec<String> = sizes.iter().map(|size| number(*size)).collect();
    format!("{} keys (the paper: 1, 5, 10 and 50 million)", sizes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::InProcess;
    use std::path::Path;

    #[test]
    fn the_user_s_number_cuts_the_paper_s_sizes_off_or_scales_them() {
        let host = InProcess(&());
        let mut stage = Stage::new(Path::new("."), &host);
        assert_eq!(sizes(&stage), SIZES);
        for (num, expected) in [
            (10_000_000, &[1_000_000, 5_000_000, 10_000_000][..]),
            (49_999_999, &[1_000_000, 5_000_000, 10_000_000]),
            (5_000_000, &[1_000_000, 5_000_000]),
            (2_000_000, &[40_000, 200_000, 400_000, 2_000_000]),
            (1, &[1]),
        ] {
            stage.num = Some(num);
            assert_eq!(sizes(&stage), expected, "{num}");
        }
        // Names are those of the paper's numbers.
        let named = paper_line(&by_size(&SIZES), &PAPER).unwrap();
        assert_eq!(named.points.len(), SIZES.len());
        assert_eq!(paper_line(&by_size(&[40_000, 2 * MILLION]), &PAPER), None);
    }
}

//! Figure 11: updates of uniform keys against zipfian ones, and of zipfian ones among gets, on a solid-state disk. Its
//! second part, by the size of the buffer components, is in `buffers.rs`.

use super::{
    AMPLIFIED, Bench, DATA, GB, KEYS, PUTS, Place, ROCKSDB, ahead, counted, engines, levels, panel, rate, write_amp,
};
use crate::choice::Choice;
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;
use crate::workload::Mix;

/// The last kind has all skew on the loaded keys.
const KINDS: [(&str, Choice); 3] =
    [("uniform", Choice::Uniform), ("zipfian", KEYS), ("strict zipfian", Choice::Zipfian)];
/// Percentages of updates, with the paper's least gain on RocksDB, 5 to 61%, at either end.
const UPDATES: [(u32, f64); 3] = [(80, 1.05), (90, 1.05), (100, 1.61)];
/// What is updated for each kind of keys, and as many operations at each share.
const UPDATED: u64 = 10 * GB;
const USED: u64 = 2 * GB;

/// Figure 11.
pub const DISTRIBUTION: Figure = Figure {
    name: "skipstore-11",
    source: "SkipStore, figure 11",
    claim: "zipfian updates are faster than uniform ones, whose versions do not meet; on a solid-state disk the gain on RocksDB \
            is 5% at 80% updates and 61% at updates alone",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let mut places: Vec<Place> = Vec::new();
        places.extend(KINDS.iter().zip(1..).map(|((name, _), at)| ((*name).to_string(), f64::from(at))));
        let shares = UPDATES.map(|(share, _)| -> Place { (format!("{share}%"), f64::from(share)) });
        let by_keys = bench.every(|factory| {
            let mut ran = Vec::new();
            for (name, choice) in KINDS {
                let settings = bench.settings(factory);
                let mix = Mix { overwrite: 1, choice: Some(choice), ..Mix::default() };
                let step = counted(&settings, bench.pairs(UPDATED), format!("{name} updates"), mix);
                ran.extend(bench.run(factory, &settings, vec![step])?);
            }
            Ok(ran)
        })?;
        let by_share = bench.every(|factory| {
            let settings = bench.settings(factory);
            let step = |(updates, _): (u32, f64)| {
                let (read, overwrite) = (100 - updates, updates);
                let mix = Mix { read, overwrite, choice: Some(KEYS), ..Mix::default() };
                counted(&settings, bench.pairs(USED), format!("{updates}% updates"), mix)
            };
            bench.run(factory, &settings, UPDATES.map(step).into())
        })?;
        let puts = panel(("throughput by keys", "keys", PUTS), &places, &by_keys, rate);
        let amp = panel(("write amplification by keys", "keys", AMPLIFIED), &places, &by_keys, write_amp);
        let operations = "operations a second";
        let mixed = panel(("throughput by updates", "updates", operations), &shares, &by_share, rate);
        let latency = |outcome: &Outcome| outcome.get_mean_us;
        let gets = panel(("latency of gets, read beside updates", "updates", "us"), &shares[..2], &by_share, latency);
        let mut rulings = vec![rules::rises(&engines::as_ours(&puts), KINDS[0].0, KINDS[1].0, 1.0)];
        for (place, (_, factor)) in shares.iter().zip(UPDATES) {
            rulings.extend(ahead(&mixed, std::slice::from_ref(place), ROCKSDB, factor));
        }
        let mut conditions = vec![
            format!("{} of updates for each kind of keys (the paper: 200 GB)", bench.place(UPDATED).0),
            format!("as many operations at each share of updates as {} have pairs", bench.place(USED).0),
            "blocks have the engines' own sizes (the paper's last part: 8 KB)".into(),
        ];
        conditions.extend(levels::conditions(&by_keys));
        Ok(bench.drawing(figure, conditions, vec![puts, amp, mixed, gets], rulings))
    },
};

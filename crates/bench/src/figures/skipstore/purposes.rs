//! Figure 3: what is written and read for which purpose, by the share of gets. The kernel does not say which reads are
//! those of gets, so reads of gets and of compactions are one.

use super::sums::{data_bytes, log_bytes, read_bytes};
use super::{Bench, DATA, GB, KEYS, Place, ROCKSDB, below, counted, panel};
use crate::figures::Figure;
use crate::outcome::Outcome;
use crate::workload::Mix;

/// Percentages of gets.
const GETS: [u32; 5] = [0, 20, 50, 70, 90];
/// The operations at each share have as many pairs as this.
const USED: u64 = 2 * GB;

/// Figure 3.
pub const PURPOSES: Figure = Figure {
    name: "skipstore-3",
    source: "SkipStore, figure 3",
    claim: "compactions are more than 80% of what RocksDB writes and reads, gets at most 20%, the log less than 2%",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let places = GETS.map(|share| -> Place { (format!("{share}%"), f64::from(share)) });
        let series = bench.every(|factory| {
            let settings = bench.settings(factory);
            let step = |gets: u32| {
                let mix = Mix { read: gets, overwrite: 100 - gets, choice: Some(KEYS), ..Mix::default() };
                counted(&settings, bench.pairs(USED), format!("{gets}% gets"), mix)
            };
            bench.run(factory, &settings, GETS.map(step).into())
        })?;
        let gigabytes = |title: &str, bytes: fn(&Outcome) -> Option<f64>| {
            let height = |outcome: &Outcome| Some(bytes(outcome)? / GB as f64);
            panel((title, "gets", "GB"), &places, &series, height)
        };
        let compacted = gigabytes("written by flushes and compactions", data_bytes);
        let rulings = below(&compacted, &places, ROCKSDB, 1.0);
        let panels = vec![gigabytes("written to the log", log_bytes), compacted, gigabytes("read, by all", read_bytes)];
        let used = bench.place(USED).0;
        let conditions = vec![
            format!("as many operations at each share as {used} have pairs (the paper: 200 million)"),
            "read from the device by gets and compactions together; nothing where the data is in memory".into(),
        ];
        Ok(bench.drawing(figure, conditions, panels, rulings))
    },
};

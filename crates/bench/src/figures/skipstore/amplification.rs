//! Figure 2: bytes written to disk and write amplification by the bytes updated, on a small store.

use super::sums::{data_bytes, up_to_each};
use super::{AMPLIFIED, Bench, Data, GB, LEVELED, ROCKSDB, below, levels, panel, updates, write_amp};
use crate::figures::Figure;

const DATA: Data = Data { bytes: GB / 2, memory_part: 8 };
const POINTS: [u64; 6] = [5 * GB, 6 * GB, 7 * GB, 8 * GB, 9 * GB, 10 * GB];

/// Figure 2.
pub const AMPLIFICATION: Figure = Figure {
    name: "skipstore-2",
    source: "SkipStore, figure 2",
    claim: "RocksDB's write amplification is 12.7 to 13.1 and rises with the data; skipping has less",
    draw: |figure, stage, engines| {
        let bench = Bench { stage, engines, data: DATA };
        let places = POINTS.map(|bytes| bench.place(bytes));
        let series = bench.every(|factory| {
            let settings = bench.settings(factory);
            let before = std::iter::once(0).chain(POINTS);
            let step = |(bytes, before): (u64, u64)| updates(&settings, bench.pairs(bytes - before));
            Ok(up_to_each(bench.run(factory, &settings, POINTS.into_iter().zip(before).map(step).collect())?))
        })?;
        let written = |outcome: &crate::outcome::Outcome| Some(data_bytes(outcome)? / GB as f64);
        let bytes = panel(("written by flushes and compactions", "updated", "GB"), &places, &series, written);
        let amp = panel(("write amplification", "updated", AMPLIFIED), &places, &series, write_amp);
        let mut rulings = below(&amp, &places, ROCKSDB, 1.0);
        rulings.extend(below(&amp, &places, LEVELED, 1.0));
        let mut conditions = vec!["bytes of the user before compression, which is off (the paper: 3.7 GB of 5)".into()];
        conditions.extend(levels::conditions(&series));
        Ok(bench.drawing(figure, conditions, vec![bytes, amp], rulings))
    },
};

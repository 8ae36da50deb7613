//! Figure 2: bytes written to disk and write amplification by the bytes updated, on a small store; and the same with values
//! that compress as the paper's do.

use super::sums::{data_bytes, up_to_each};
use super::{AMPLIFIED, Bench, Data, GB, LEVELED, ROCKSDB, below, levels, panel, updates, write_amp};
use crate::engine::{EngineOptions, Factory, Result};
use crate::figures::Figure;
use crate::figures::drawing::Drawing;
use crate::figures::stage::Stage;
use crate::outcome::Outcome;
use crate::settings::Settings;

const DATA: Data = Data { bytes: GB / 2, memory_part: 8 };
const POINTS: [u64; 6] = [5 * GB, 6 * GB, 7 * GB, 8 * GB, 9 * GB, 10 * GB];
/// "5 GB (in fact 3.7 GB after compression)".
const PERCENT: u8 = 74;

/// Figure 2.
pub const AMPLIFICATION: Figure = Figure {
    name: "skipstore-2",
    source: "SkipStore, figure 2",
    claim: "RocksDB's write amplification is 12.7 to 13.1 and rises with the data; skipping has less",
    draw: |figure, stage, engines| draw(figure, stage, engines, None),
};

/// Figure 2 with values that compress.
pub const COMPRESSED: Figure = Figure {
    name: "skipstore-2-compressed",
    source: "SkipStore, figure 2, with the compression of the paper's values",
    claim: "5 GB of updates are 3.7 GB compressed; write amplification is counted in the user's bytes",
    draw: |figure, stage, engines| draw(figure, stage, engines, Some(PERCENT)),
};

fn draw(figure: &Figure, stage: &Stage<'_>, engines: &[&dyn Factory], percent: Option<u8>) -> Result<Drawing> {
    let bench = Bench { stage, engines, data: DATA };
    let places = POINTS.map(|bytes| bench.place(bytes));
    let series = bench.every(|factory| {
        let settings = bench.settings(factory);
        let engine = EngineOptions { compressed: percent.is_some(), ..settings.engine };
        let settings = Settings { value_percent: percent.unwrap_or(settings.value_percent), engine, ..settings };
        let before = std::iter::once(0).chain(POINTS);
        let step = |(bytes, before): (u64, u64)| updates(&settings, bench.pairs(bytes - before));
        Ok(up_to_each(bench.run(factory, &settings, POINTS.into_iter().zip(before).map(step).collect())?))
    })?;
    let written = |outcome: &Outcome| Some(data_bytes(outcome)? / GB as f64);
    let bytes = panel(("written by flushes and compactions", "updated", "GB"), &places, &series, written);
    let amp = panel(("write amplification", "updated", AMPLIFIED), &places, &series, write_amp);
    let mut rulings = below(&amp, &places, LEVELED, 1.0);
    if percent.is_none() {
        rulings.extend(below(&amp, &places, ROCKSDB, 1.0));
    }
    let mut conditions = vec![match percent {
        None => "compression is off (the paper: 5 GB of updates are 3.7 GB compressed)".into(),
        Some(percent) => {
            format!("values compress to {percent}%; LZ4 in Alluvium, RocksDB is built without a compressor: not judged")
        }
    }];
    conditions.extend(levels::conditions(&series));
    Ok(bench.drawing(figure, conditions, vec![bytes, amp], rulings))
}

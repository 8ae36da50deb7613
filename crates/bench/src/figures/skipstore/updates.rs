//! Figure 9: throughput, write amplification and latency of updates by the bytes updated; the same with a limit
//! of background writes.

use super::sums::up_to_each;
use super::{
    AMPLIFIED, Bench, DATA, GB, LEVELED, PUTS, ROCKSDB, ahead, below, engines, latency_us, levels, panel, rate,
    updates, write_amp,
};
use crate::engine::{EngineOptions, Factory, Result};
use crate::figures::drawing::Drawing;
use crate::figures::kanda::marks;
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};
use crate::settings::Settings;

/// The points: a tenth of the paper's.
const POINTS: [u64; 5] = [GB, 5 * GB, 10 * GB, 15 * GB, 20 * GB];
/// "only 54 to 56 percent of that of RocksDB".
const AMP_OF_ROCKSDB: f64 = 0.56;
const AMP_OF_LEVELED: f64 = 0.6;
/// "only 56 to 62 percent of that of RocksDB".
const LATENCY_OF_ROCKSDB: f64 = 0.62;
/// The paper has 1.665; a latency of 0.62 is a rate of 1.61.
const RATE_OF_ROCKSDB: f64 = 1.6;
const RECORDED: &str = "bytes per 1000 bytes of updates";
/// "less than 10 KB/s": at most half a percent of what users write.
const TRANSITIONS_PER_MILLE: f64 = 5.0;
/// The levels that must be in use for the claims to mean something.
const LEVELS_MIN: f64 = 4.0;
/// Bytes a second of background writes in the limited run.
const LIMIT: u64 = 100_000_000;

/// Figure 9.
pub const UPDATES: Figure = Figure {
    name: "skipstore-9",
    source: "SkipStore, figure 9",
    claim: "under updates alone, 0.54 to 0.56 of RocksDB's write amplification, 0.56 to 0.62 of its latency, and at least 1.665 \
            times its throughput",
    draw: |figure, stage, engines| draw(figure, stage, engines, None),
};

/// Figure 9 with a limit.
pub const LIMITED: Figure = Figure {
    name: "skipstore-9-limited",
    source: "SkipStore, figure 9, on a slow disk",
    claim: "where the disk limits background writes, throughput follows from write amplification",
    draw: |figure, stage, engines| draw(figure, stage, engines, Some(LIMIT)),
};

fn draw(figure: &Figure, stage: &Stage<'_>, engines: &[&dyn Factory], limit: Option<u64>) -> Result<Drawing> {
    let bench = Bench { stage, engines, data: DATA };
    let places = POINTS.map(|bytes| bench.place(bytes));
    let series = bench.every(|factory| {
        let settings = bench.settings(factory);
        let engine = EngineOptions { write_limit: limit, ..settings.engine };
        let settings = Settings { engine, ..settings };
        let before = std::iter::once(0).chain(POINTS);
        let steps = POINTS.iter().zip(before).map(|(bytes, before)| updates(&settings, bench.pairs(bytes - before)));
        Ok(up_to_each(bench.run(factory, &settings, steps.collect())?))
    })?;
    let across = "updated";
    let puts = panel(("throughput", across, PUTS), &places, &series, rate);
    let amp = panel(("write amplification", across, AMPLIFIED), &places, &series, write_amp);
    let latency = panel(("mean latency of updates", across, "us"), &places, &series, latency_us);
    let levels = panel(("levels in use", across, "levels"), &places, &series, levels::in_use);
    let mut rulings = below(&amp, &places, ROCKSDB, AMP_OF_ROCKSDB);
    rulings.extend(below(&amp, &places, LEVELED, AMP_OF_LEVELED));
    rulings.extend(below(&latency, &places, ROCKSDB, LATENCY_OF_ROCKSDB));
    rulings.extend(ahead(&puts, &places, ROCKSDB, RATE_OF_ROCKSDB));
    let record = panel(("record of transitions", across, RECORDED), &places, &series, levels::record_per_mille);
    rulings.push(rules::at_most(&engines::as_ours(&record), &places[POINTS.len() - 1].0, TRANSITIONS_PER_MILLE));
    if bench.is_whole() {
        rulings.push(marks::at_least(&engines::as_ours(&levels), &places[POINTS.len() - 1].0, LEVELS_MIN));
    }
    let mut conditions = vec!["the paper: 10 to 200 GB of updates, 1.665 times RocksDB's throughput".to_string()];
    conditions.extend(limit.map(|limit| format!("background writes limited to {} MB/s", limit / 1_000_000)));
    conditions.extend(levels::conditions(&series));
    conditions.push(format!("buffers of {} MiB, a part of the memory", bench.buffers() >> 20));
    conditions.extend(levels::in_memory(&series));
    Ok(bench.drawing(figure, conditions, vec![puts, amp, latency, levels, record], rulings))
}

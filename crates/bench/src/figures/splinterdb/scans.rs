//! Figure 12: the bytes per second that scans of 1 to 100,000 pairs return, compared with the device's bandwidth.
//!
//! The paper modifies YCSB's E "to have only fixed-length scans", so start keys are zipfian here as there. The paper
//! uses the vendor's figure for the bandwidth; here it is measured first, in the directory of the stores, past the page
//! cache.

use super::{Runs, SMALL, by_number, cores, drawing, steps};
use crate::choice::Choice;
use crate::device;
use crate::engine::{Factory, Result};
use crate::figures::stage::Stage;
use crate::figures::{Figure, rules};
use crate::outcome::Outcome;
use crate::workload::{Job, Mix, Workload};

const LENGTHS: [u64; 6] = [1, 10, 100, 1_000, 10_000, 100_000];
/// Short scans, in which the paper's store is slower than RocksDB.
const SHORT: [&str; 3] = ["1", "10", "100"];
/// The maximum size of the file that measures the device; it is no larger than the data either.
const SAMPLE_BYTES: std::ops::RangeInclusive<u64> = 4 << 20..=512 << 20;
const BLOCK_BYTES: f64 = 4096.0;

/// Figure 12.
pub const SCANS: Figure = Figure {
    name: "splinterdb-12",
    source: "SplinterDB, figure 12",
    claim: "scans of 100 pairs return at nearly half the device's bandwidth, of 1,000 at 91%",
    draw: |figure, stage, engines| {
        let sample = SMALL.bytes(stage).clamp(*SAMPLE_BYTES.start(), *SAMPLE_BYTES.end());
        let device = device::sequential_read(stage.directory, sample)?;
        let runs = engines.iter().map(|factory| scan(*factory, stage)).collect::<Result<Vec<_>>>()?;
        let panel = |title: &str, megabytes: fn(&Outcome) -> Option<f64>| {
            let rate = |outcome: &Outcome| Some(megabytes(outcome)? / outcome.elapsed_s.max(1e-9));
            let mut panel = by_number((title, "pairs a scan", "MB a second"), &LENGTHS, &runs, rate);
            // The paper's axis is logarithmic, too.
            let points = panel.lines.iter_mut().flat_map(|line| &mut line.points);
            points.for_each(|point| point.x = point.x.map(|pairs| pairs.log10() + 1.0));
            panel
        };
        let returned = panel("returned", |outcome| Some(outcome.user_bytes_read as f64 / 1e6));
        let read = panel("read from the device", |outcome| {
            Some(outcome.device_reads_per_op? * outcome.ops as f64 * BLOCK_BYTES / 1e6)
        });
        let bandwidth = device.map(|bytes_per_s| bytes_per_s / 1e6);
        let mut rulings: Vec<_> = SHORT.map(|length| rules::ahead_at(&returned, length, "rocksdb", 1.0)).into();
        for (length, part) in [("100", 0.5), ("1000", 0.9)] {
            rulings.push(rules::share_read_at((&returned, &read), length, ("the device's MB/s", bandwidth), part));
        }
        let told = bandwidth.map_or("cannot be measured here: no direct reads".into(), |bandwidth| {
            format!("{bandwidth:.0} MB/s read sequentially")
        });
        let conditions = vec![SMALL.condition(stage), format!("{} threads scan; the device: {told}", cores(stage))];
        Ok(drawing(figure, stage, conditions, vec![returned, read], rulings))
    },
};

fn scan(factory: &dyn Factory, stage: &Stage<'_>) -> Result<Runs> {
    let settings = SMALL.settings(stage, cores(stage));
    let mut steps = steps(stage, &settings, &["load"])?;
    steps.extend(LENGTHS.map(|pairs| {
        let choice = Some(Choice::Zipfian);
        let mix = Mix { scan: 1, scan_pairs: (pairs, pairs), choice, ..Mix::default() };
        let workload = Workload { name: format!("scans of {pairs}"), job: Job::Mix(mix) };
        stage.timed(&settings, settings.threads, workload)
    }));
    Ok(Runs { engine: factory.name().into(), ran: stage.run_behind_load(factory, steps)? })
}

//! Computes the outcome of a workload from the kernel's and the engine's counters before and after it.

use crate::engine::{Engine, Factory, Figures, Result, SKIPS};
use crate::outcome::{Outcome, Source};
use crate::process::{self, DeviceBytes};
use crate::run::Ran;
use crate::settings::Settings;
use crate::space;
use crate::workload::{Job, Workload};
use std::path::Path;
use std::time::Duration;

/// A block of a device.
pub const BLOCK_BYTES: f64 = 4096.0;
const MIB: f64 = (1 << 20) as f64;

/// The counters before a workload.
#[derive(Debug)]
pub struct Before {
    figures: Figures,
    device: Option<DeviceBytes>,
    peak_own: bool,
}

/// Where a workload ran.
pub struct Place<'a> {
    /// The engine's kind.
    pub factory: &'a dyn Factory,
    /// Its counters.
    pub directory: &'a Path,
    /// The run's settings.
    pub settings: &'a Settings,
    /// Bytes of keys and values in the store now.
    pub live_bytes: u64,
    /// Keys in the store now.
    pub keys: u64,
    /// The harness's own time per operation.
    pub harness_ns: f64,
}

/// The bytes written to disk.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Written {
    data: Option<u64>,
    log: Option<u64>,
    source: Source,
}

/// What a counter has grown by; none if it is unknown.
fn since(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// The engine's counters if it has them, else the kernel's.
fn written(before: &Figures, after: &Figures, device: Option<u64>) -> Written {
    let log = since(before.log_bytes_written, after.log_bytes_written);
    if let Some(data) = since(before.data_bytes_written, after.data_bytes_written) {
        return Written { data: Some(data), log, source: Source::Engine };
    }
    let data = device.map(|device| device.saturating_sub(log.unwrap_or(0)));
    Written { data, log, source: if data.is_some() { Source::Kernel } else { Source::None } }
}

/// The sum of two counters; none if one is unknown. A log that is not counted separately is part of the data.
fn moved(read: Option<u64>, written: Written) -> Option<u64> {
    Some(read? + written.data? + written.log.unwrap_or(0))
}

/// A ratio; none if the denominator is unknown or 0.
fn ratio(part: Option<u64>, whole: u64) -> Option<f64> {
    part.filter(|_| whole > 0).map(|part| part as f64 / whole as f64)
}

/// What counters have grown by.
fn more((before, after): ([u64; SKIPS], [u64; SKIPS])) -> Vec<u64> {
    after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect()
}

/// A rate or a share; 0 if the denominator is 0.
fn per(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

impl Before {
    /// Reads the counters, and resets the peak of memory.
    pub fn now(engine: &dyn Engine) -> Self {
        let peak_own = process::reset_peak_resident();
        Self { figures: engine.figures(), device: process::device_bytes(), peak_own }
    }

    /// Reads them again.
    pub fn outcome(
        self,
        engine: &dyn Engine,
        place: &Place<'_>,
        workload: &Workload,
        ran: Ran,
        (settle, settle_cpu): (Duration, Duration),
    ) -> Result<Outcome> {
        let after = engine.figures();
        let device = self.device.zip(process::device_bytes());
        let device = device.map(|(before, after)| (after.read - before.read, after.written - before.written));
        let space = space::of(place.directory, &|path| place.factory.is_log(path))?;
        let tally = &ran.tally;
        let beside = ran.beside.as_ref();
        let bytes_written = tally.bytes_written + beside.map_or(0, |beside| beside.bytes_written);
        let background_ops = beside.map_or(0, |beside| beside.ops);
        let written = written(&self.figures, &after, device.map(|(_, written)| written));
        let seconds = ran.elapsed.as_secs_f64();
        let all_ops = (tally.ops + background_ops) as f64;
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        let percentile = |percent| tally.latencies.percentile_us(percent);
        let stalled = self.figures.stalled_ns.zip(after.stalled_ns);
        let read = device.map(|(read, _)| read);
        let settings = place.settings;
        Ok(Outcome {
            engine: place.factory.name().to_string(),
            workload: workload.name.clone(),
            threads: settings.threads,
            num: place.keys,
            key_size: settings.key_size,
            key_prefix: settings.key_prefix,
            seek_nexts: settings.seek_nexts,
            value_size: settings.value_size,
            batch_size: settings.batch_size,
            memory_mb: settings.engine.memory.map(|bytes| bytes as f64 / MIB),
            sync: settings.engine.sync,
            ops: tally.ops,
            background_ops,
            found: tally.found,
            not_found: tally.not_found,
            wrong: tally.wrong + beside.map_or(0, |beside| beside.wrong),
            pairs_scanned: tally.pairs,
            user_bytes_written: bytes_written,
            user_bytes_read: tally.bytes_read,
            elapsed_s: seconds,
            ops_per_s: per(tally.ops as f64, seconds),
            pairs_per_s: per(tally.pairs as f64, seconds),
            background_ops_per_s: per(background_ops as f64, seconds),
            settle_s: settle.as_secs_f64(),
            cpu_us_per_op: per(micros(ran.cpu + settle_cpu), all_ops),
            cpu_us_per_op_run: per(micros(ran.cpu), all_ops),
            p50_us: percentile(50.0),
            get_mean_us: tally.get_mean_us(),
            p90_us: percentile(90.0),
            p99_us: percentile(99.0),
            p999_us: percentile(99.9),
            max_ms: tally.latencies.longest_ms(),
            control_gap_ms: ran.control_gap.as_secs_f64() * 1e3,
            harness_ns: place.harness_ns,
            background_p50_us: beside.map(|beside| beside.latencies.percentile_us(50.0)),
            background_p99_us: beside.map(|beside| beside.latencies.percentile_us(99.0)),
            latency: tally.latencies.curve(),
            series: ran.series,
            buffers_written: since(self.figures.buffers_written, after.buffers_written),
            skipped: self.figures.skipped.zip(after.skipped).map(more),
            buffered: self.figures.buffered.zip(after.buffered).map(|(before, after)| after.since(before)),
            levels: engine.levels(),
            stalled_ms: stalled.map(|(before, after)| after.saturating_sub(before) as f64 / 1e6),
            write_amp: ratio(written.data, if workload.job == Job::Rest { place.live_bytes } else { bytes_written }),
            log_amp: ratio(written.log, bytes_written),
            write_amp_source: if bytes_written > 0 || workload.job == Job::Rest {
                written.source
            } else {
                Source::None
            },
            read_amp: ratio(read, tally.bytes_read),
            io_amp: ratio(moved(read, written), tally.bytes_read + bytes_written),
            device_reads_per_op: read.map(|read| per(read as f64 / BLOCK_BYTES, all_ops)),
            space_amp: per(space.data as f64, place.live_bytes as f64),
            files_mean: ran.space.map(|(mean, _)| mean),
            files_peak: ran.space.map(|(_, peak)| peak),
            data_mb: space.data as f64 / MIB,
            log_mb: space.log as f64 / MIB,
            peak_rss_mb: process::peak_resident_bytes().map_or(0.0, |bytes| bytes as f64 / MIB),
            peak_rss_own: self.peak_own,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_s_figures_come_first_and_the_kernel_s_fill_gaps() {
        let figures = |data_bytes_written, log_bytes_written| Figures {
            data_bytes_written,
            log_bytes_written,
            ..Figures::default()
        };
        let known = written(&figures(Some(10), Some(5)), &figures(Some(110), Some(25)), Some(1000));
        assert_eq!(known, Written { data: Some(100), log: Some(20), source: Source::Engine });
        assert_eq!(more(([1, 0, 2, 0, 0, 0, 9], [4, 0, 2, 5, 0, 0, 8])), [3, 0, 0, 5, 0, 0, 0]);
        let log_only = written(&figures(None, Some(5)), &figures(None, Some(25)), Some(1000));
        assert_eq!(log_only, Written { data: Some(980), log: Some(20), source: Source::Kernel });
        let silent = written(&figures(None, None), &figures(None, None), Some(1000));
        assert_eq!(silent, Written { data: Some(1000), log: None, source: Source::Kernel });
        assert_eq!(written(&figures(None, None), &figures(None, None), None).source, Source::None);
        let both_ways = |written| moved(Some(7), written);
        assert_eq!([known, log_only, silent].map(both_ways), [Some(127), Some(1007), Some(1007)]);
        assert_eq!(moved(None, known), None);
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        assert_eq!((ratio(Some(5), 0), ratio(None, 5), ratio(Some(5), 2)), (None, None, Some(2.5)));
        assert_eq!((per(1.0, 0.0), per(1.0, 4.0)), (0.0, 0.25));
    }
}

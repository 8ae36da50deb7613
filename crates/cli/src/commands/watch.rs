//! `stat --watch`: a line a look at a store that another process may have open. What it tells is what manifest, log and directory
//! show from outside; rates are those since the look before.

use crate::arguments::Common;
use crate::failure::Failure;
use crate::output::Output;
use crate::report::{grouped, size};
use alluvium::Stats;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// One look.
struct Look {
    at: Instant,
    stats: Stats,
    /// Branch files in the directory, with their bytes.
    files: BTreeMap<String, u64>,
}

impl Look {
    fn take(common: &Common) -> Result<Self, Failure> {
        let stats = common.open_to_read()?.stats();
        Ok(Self { at: Instant::now(), stats, files: branch_files(common.directory()?) })
    }

    /// Bytes of branch files that no opening would see: those being written, and those about to be removed.
    fn unnamed_bytes(&self) -> u64 {
        self.files.values().sum::<u64>().saturating_sub(self.stats.branch_bytes)
    }
}

/// A file that goes meanwhile does not count.
fn branch_files(directory: &Path) -> BTreeMap<String, u64> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.ends_with(".branch").then(|| Some((name, entry.metadata().ok()?.len())))?
        })
        .collect()
}

/// What has changed since the look before, a second.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    writes: f64,
    background_bytes: f64,
}

impl Rates {
    fn between(before: &Look, now: &Look) -> Self {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-6);
        let writes = now.stats.last_number.saturating_sub(before.stats.last_number);
        // A file that came and went between the looks is missed.
        let grown = |(name, bytes): (&String, &u64)| bytes.saturating_sub(before.files.get(name).copied().unwrap_or(0));
        let written: u64 = now.files.iter().map(grown).sum();
        Self { writes: writes as f64 / seconds, background_bytes: written as f64 / seconds }
    }
}

/// Looks every so many seconds, so many times.
pub fn run(common: &Common, seconds: u64, times: u64) -> Result<(), Failure> {
    let mut output = Output::new();
    let mut before: Option<Look> = None;
    for look in 0..times {
        if look > 0 {
            std::thread::sleep(Duration::from_secs(seconds));
        }
        let now = Look::take(common)?;
        let rates = before.as_ref().map_or(Rates::default(), |before| Rates::between(before, &now));
        output.line(if common.json { json(&now, rates).to_string() } else { line(&now, rates) })?;
        output.flush()?;
        before = Some(now);
    }
    output.finish()
}

fn line(look: &Look, rates: Rates) -> String {
    let stats = &look.stats;
    let levels: Vec<_> = stats
        .levels
        .iter()
        .map(|level| format!("{}x{}", level.nodes, size(level.bytes / level.nodes.max(1))))
        .collect();
    format!(
        "{} writes/s, {}/s of background; memory {} entries; debt {}; tree {} in {} files [{}]; unnamed {}; log {}",
        grouped(rates.writes as u64),
        size(rates.background_bytes as u64),
        grouped(stats.memory_entries),
        size(stats.debt_bytes),
        size(stats.branch_bytes),
        grouped(stats.branch_files),
        levels.join(" / "),
        size(look.unnamed_bytes()),
        size(stats.log_bytes),
    )
}

fn json(look: &Look, rates: Rates) -> serde_json::Value {
    let stats = &look.stats;
    let level = |level: &alluvium::LevelStats| json!({ "height": level.height, "nodes": level.nodes, "bundles": level.bundles, "bytes": level.bytes });
    json!({
        "writes_per_second": rates.writes,
        "background_bytes_per_second": rates.background_bytes,
        "last_number": stats.last_number,
        "memory_entries": stats.memory_entries,
        "debt_bytes": stats.debt_bytes,
        "branch_bytes": stats.branch_bytes,
        "branch_files": stats.branch_files,
        "unnamed_bytes": look.unnamed_bytes(),
        "log_bytes": stats.log_bytes,
        "levels": stats.levels.iter().map(level).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(at: Instant, last_number: u64, files: &[(&str, u64)]) -> Look {
        let files = files.iter().map(|(name, bytes)| ((*name).to_string(), *bytes)).collect();
        Look { at, stats: Stats { last_number, branch_bytes: 100, ..Stats::default() }, files }
    }

    #[test]
    fn rates_are_those_since_the_look_before() {
        let start = Instant::now();
        let before = look(start, 1000, &[("000001.branch", 100), ("000002.branch", 40)]);
        let now = look(start + Duration::from_secs(2), 3000, &[("000002.branch", 60), ("000003.branch", 500)]);
        let rates = Rates::between(&before, &now);
        assert!((rates.writes - 1000.0).abs() < 1e-6 && (rates.background_bytes - 260.0).abs() < 1e-6, "{rates:?}");
        assert_eq!((before.unnamed_bytes(), now.unnamed_bytes()), (40, 460));
        assert!(line(&now, rates).starts_with("1,000 writes/s, 260 B/s of background"), "{}", line(&now, rates));
    }
}

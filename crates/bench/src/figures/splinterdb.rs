//! SplinterDB ("Closing the Bandwidth Gap for NVMe Key-Value Stores", USENIX ATC 2020), figure 5: YCSB.
//!
//! The paper has 24-byte keys, values of 100 bytes (5a) and 1 KiB (5b), memory for a tenth of the data, and every engine at the
//! number of threads that suits it best. Here the data is small, an engine gets no less than 128 MiB, and nothing but its own
//! options keeps it from using the system's page cache. The threads are the machine's cores.

use super::drawing::{Drawing, Line, Panel, Point};
use super::stage::Stage;
use super::{Figure, rules};
use crate::catalogue;
use crate::engine::{EngineOptions, Factory, Result};
use crate::settings::Settings;

const KEY_BYTES: usize = 24;
/// Both panels hold about as many bytes.
const PANELS: [(&str, usize, u64); 2] = [("5a: 100 B values", 100, 2_000_000), ("5b: 1 KiB values", 1024, 250_000)];
const MEMORY_MIN: u64 = 128 << 20;
/// YCSB's own order: what inserts comes late, and scans, which profit least from a settled tree, last.
const PHASES: [&str; 7] = ["load", "a", "b", "c", "f", "d", "e"];

/// Figure 5.
pub const YCSB: Figure = Figure {
    name: "splinterdb-5",
    source: "SplinterDB, figure 5",
    claim: "YCSB: loads are almost 10 times as fast as RocksDB's, A to D and F 40 to 150% faster, E about the same",
    draw,
};

fn draw(figure: &Figure, stage: &Stage<'_>, engines: &[&dyn Factory]) -> Result<Drawing> {
    let (mut panels, mut conditions, mut rulings) = (Vec::new(), Vec::new(), Vec::new());
    let threads = stage.threads_max.unwrap_or(stage.cores);
    for (title, value_size, keys) in PANELS {
        let keys = stage.num.unwrap_or(keys);
        let bytes = keys * (KEY_BYTES + value_size) as u64;
        let memory = stage.memory.unwrap_or((bytes / 10).max(MEMORY_MIN));
        conditions.push(format!(
            "{title}: {keys} keys of {KEY_BYTES} bytes, {} MB, with {} MiB of memory an engine; {threads} threads, {} s a phase",
            bytes / 1_000_000,
            memory >> 20,
            stage.duration.as_secs_f64()
        ));
        let engine = EngineOptions { memory: Some(memory), ..EngineOptions::default() };
        let settings =
            Settings { num: Some(keys), key_size: KEY_BYTES, value_size, threads, engine, ..Settings::default() };
        let mut lines = Vec::new();
        for factory in engines {
            lines.push(line(*factory, stage, &settings)?);
        }
        let panel = Panel { title: title.into(), x: "phase".into(), y: "operations a second".into(), lines };
        rulings.push(rules::ahead_at(&panel, "load", "rocksdb", 6.0));
        rulings.extend(["a", "b", "c", "d", "f"].map(|phase| rules::ahead_at(&panel, phase, "rocksdb", 1.4)));
        rulings.push(rules::ahead_at(&panel, "e", "rocksdb", 0.85));
        panels.push(panel);
    }
    let (name, source, claim) = (figure.name.to_string(), figure.source.to_string(), figure.claim.to_string());
    Ok(Drawing { figure: name, source, claim, conditions, panels, rulings })
}

/// One engine's phases, one after the other on one store. The load counts with the time it takes to settle: what it puts off
/// is not done.
fn line(factory: &dyn Factory, stage: &Stage<'_>, settings: &Settings) -> Result<Line> {
    let mut session = stage.session(factory, settings.clone())?;
    let mut points = Vec::new();
    for (at, phase) in PHASES.into_iter().enumerate() {
        let outcome = session.run(&catalogue::named(phase, settings)?, stage.watch)?;
        let settled = if phase == "load" { outcome.settle_s } else { 0.0 };
        let rate = outcome.ops as f64 / (outcome.elapsed_s + settled).max(1e-9);
        points.push(Point { name: phase.to_string(), x: at as f64 + 1.0, y: rate });
        session.set(|settings| settings.duration = Some(stage.duration))?;
    }
    session.finish()?;
    Ok(Line { engine: factory.name().to_string(), points })
}

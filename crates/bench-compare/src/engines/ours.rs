//! Alluvium, with everything it keeps in memory in its one budget.

use super::setup::{Opened, Setup, mib, setting};
use alluvium_bench::engine::{EngineOptions, Factory, Result};
use alluvium_bench::{Alluvium, engine};
use std::path::Path;

/// Opens it.
pub fn open(setup: &Setup) -> Result<Opened> {
    let options = EngineOptions { memory: Some(setup.budget_bytes()), sync: setup.sync, ..EngineOptions::default() };
    let engine: Box<dyn engine::Engine> = Alluvium.open(&setup.directory, &options)?;
    let interval = alluvium::Options::default().sync_interval;
    let settings = vec![
        mib("budget for everything", setup.budget_bytes()),
        setting("component", "trunk"),
        setting("background threads", "its own choice, from the cores"),
        setting("filter", "quotient"),
        setting("compression", "none"),
        setting("log", if setup.sync { "on, every write synced" } else { "on, not synced by the write" }),
        setting("log synced in the background", interval.map_or("never".into(), |every| format!("every {every:?}"))),
        setting("files read through", "its own cache, direct I/O"),
    ];
    Ok(Opened { engine, version: env!("CARGO_PKG_VERSION").to_owned(), settings })
}

/// Whether a file belongs to its log.
pub fn is_log(path: &Path) -> bool {
    Alluvium.is_log(path)
}

//! Alluvium, with all its memory in its one budget.

use super::setup::{Defaults, Opened, STRIPED, Setup, mib, setting};
use alluvium_bench::engine::{Component, Engine, EngineOptions, Factory, Result};
use alluvium_bench::{Alluvium, AlluviumStriped, LevelKnobs, alluvium_engine};
use std::path::Path;

/// Opens it.
pub fn open(setup: &Setup) -> Result<Opened> {
    open_by(&Alluvium, None, "its own", setup)
}

/// Opens it with levels of one run each instead of a trunk.
pub fn open_leveled(setup: &Setup) -> Result<Opened> {
    open_by(&Alluvium, Some(Component::Leveled), "its own", setup)
}

/// Opens it with levels of several runs instead of a trunk.
pub fn open_tiered(setup: &Setup) -> Result<Opened> {
    open_by(&Alluvium, Some(Component::Tiered), "its own", setup)
}

/// Opens it with levels of one run each, which items may skip, instead of a trunk.
pub fn open_skip(setup: &Setup) -> Result<Opened> {
    open_by(&Alluvium, Some(Component::Skip), "its own", setup)
}

/// The same, with items that skip levels waiting in files.
pub fn open_skip_files(setup: &Setup) -> Result<Opened> {
    let levels = LevelKnobs { buffer_bytes: Some(0), ..setup.levels };
    open_by(&Alluvium, Some(Component::Skip), "its own", &Setup { levels, ..setup.clone() })
}

/// Opens it with read-modify-writes under locks, around its gets and puts.
pub fn open_striped(setup: &Setup) -> Result<Opened> {
    open_by(&AlluviumStriped, None, STRIPED, setup)
}

/// An engine that is named after a component has that one, whatever the setup says.
fn open_by(factory: &dyn Factory, own: Option<Component>, modifies: &str, setup: &Setup) -> Result<Opened> {
    let component = own.or(setup.component).unwrap_or(Component::Trunk);
    let engine: Box<dyn Engine> = factory.open(&setup.directory, &engine_options(component, setup))?;
    let interval = alluvium::Options::default().sync_interval;
    let settings = vec![
        mib("budget for everything", setup.budget_bytes()),
        setting("component", shape(component, setup.levels)),
        setting("background threads", "its default, from the number of cores"),
        setting("filter", "quotient"),
        setting("compression", if setup.compressed { "LZ4" } else { "none" }),
        setting("log", if setup.sync { "on, every write synced" } else { "on, not synced by the write" }),
        setting("log synced in the background", interval.map_or("never".into(), |every| format!("every {every:?}"))),
        setting("files read through", "its own cache, direct I/O"),
        setting("read-modify-write", modifies),
    ];
    Ok(Opened { engine, version: env!("CARGO_PKG_VERSION").to_owned(), settings })
}

fn engine_options(component: Component, setup: &Setup) -> EngineOptions {
    EngineOptions {
        memory: Some(setup.budget_bytes()),
        write_buffer: setup.write_buffer,
        item_cache: setup.item_cache,
        write_limit: setup.write_limit,
        compressed: setup.compressed,
        levels: setup.levels,
        sync: setup.sync,
        component: Some(component),
        ..EngineOptions::default()
    }
}

/// The same options for a store that is not used through the trait.
pub fn store_options(component: Component, setup: &Setup) -> alluvium::Options {
    alluvium_engine::store_options(&engine_options(component, setup), alluvium::MemoryComponent::TwoLevel)
}

/// The component and what the setup says of its shape.
fn shape(component: Component, levels: LevelKnobs) -> String {
    let number = |number: Option<u32>| number.map(u64::from);
    let knobs = [
        ("runs of a level", number(levels.runs)),
        ("percent of the runs in a merge", number(levels.merge_percent)),
        ("bits of filters", number(levels.filter_bits)),
        ("size ratio", number(levels.size_ratio)),
        ("bytes of the first level", levels.base_bytes),
        ("bytes of a file", levels.file_bytes),
        ("levels skipped at most", number(levels.max_skip)),
        ("bytes of buffers", levels.buffer_bytes),
    ];
    let said = knobs.into_iter().filter_map(|(what, number)| Some(format!(", {what} {}", number?)));
    let knobs = if component == Component::Trunk { String::new() } else { said.collect() };
    format!("{}{knobs}", component.name())
}

/// Opens it with its default options.
pub fn open_default(defaults: &Defaults) -> Result<Opened> {
    let engine = Alluvium.open(&defaults.directory, &EngineOptions::default())?;
    let settings = vec![setting("options", "defaults")];
    Ok(Opened { engine, version: env!("CARGO_PKG_VERSION").to_owned(), settings })
}

/// Whether a file belongs to its log.
pub fn is_log(path: &Path) -> bool {
    Alluvium.is_log(path)
}

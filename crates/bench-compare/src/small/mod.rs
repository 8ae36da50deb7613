//! `small`: what a small store costs with every engine's default options: bytes on disk, threads, descriptors, memory
//! and address space, and the time to open, close and remove it.
//!
//! Each engine has a child process of its own for each scenario (`host`, `child`). A scenario is repeated in rounds, and
//! all engines take their turn in each round, so that a slow drift of the machine affects all equally.

pub mod child;
mod disk;
mod figures;
mod host;
mod process;
mod report;
mod scenario;

use crate::arguments::Small;
use crate::engines;
use crate::machine::stale;
use host::Host;
use report::Report;
use scenario::Scenario;
use std::path::Path;

/// Measures, and prints a table or JSON. Returns a line about the engines that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &Small) -> Result<Option<String>, String> {
    let selection = engines::select_defaults(&arguments.engines)?;
    for (name, why) in &selection.skipped {
        eprintln!("skipped {name}: {why}");
    }
    let stores = arguments.directory.clone().unwrap_or_else(std::env::temp_dir);
    if !stores.is_dir() {
        return Err(format!("{} is not a directory for the stores", stores.display()));
    }
    stale::remove_stores(&stores);
    let names: Vec<&'static str> = selection.taken.iter().map(|kind| kind.name).collect();
    let mut report = Report::new(&names, arguments);
    for (scenario, rounds) in scenarios(arguments) {
        eprintln!("{}, {rounds} rounds of {} engines", scenario.name(), names.len());
        measure(&scenario, rounds, &names, &stores, &mut report)?;
    }
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?),
        false => println!("{}", report.table()),
    }
    Ok(report.failures())
}

/// The scenarios with their rounds. Those that measure times need many; the others hardly vary.
fn scenarios(arguments: &Small) -> [(Scenario, u32); 5] {
    let idle = arguments.idle;
    [
        (Scenario::Sizes { bytes: arguments.bytes, idle }, arguments.repeat),
        (Scenario::Idle { idle }, arguments.repeat),
        (Scenario::Brief, arguments.rounds),
        (Scenario::Steps, arguments.rounds),
        (Scenario::Many { stores: arguments.stores, idle }, arguments.repeat),
    ]
}

fn measure(
    scenario: &Scenario,
    rounds: u32,
    engines: &[&'static str],
    stores: &Path,
    report: &mut Report,
) -> Result<(), String> {
    let mut hosts: Vec<(&str, Option<Host>)> = Vec::new();
    for engine in engines {
        let directory = stores.join(format!("{}{}-{engine}", stale::PREFIX, std::process::id()));
        hosts.push((engine, Some(Host::start(engine, scenario, directory)?)));
    }
    for round in 0..rounds as usize {
        // Each round begins with another engine.
        for place in 0..hosts.len() {
            let at = (place + round) % engines.len();
            let (engine, slot) = &mut hosts[at];
            let Some(mut host) = slot.take() else { continue };
            if scenario.needs_fresh_process() && round > 0 {
                host = host.restart()?;
            }
            match host.round() {
                Ok(figures) => {
                    report.add(engine, figures);
                    *slot = Some(host);
                }
                // One engine's failure is a result, too; the others continue.
                Err(error) => {
                    eprintln!("    {engine} FAILED in {}: {error}", scenario.name());
                    report.fail(engine, scenario.name(), error);
                }
            }
        }
    }
    Ok(())
}

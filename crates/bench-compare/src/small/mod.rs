//! `small`: what a small store costs with every engine's default options: bytes on disk, threads, descriptors, memory
//! and address space, and the time to open, close and remove it.
//!
//! Each engine has a child process of its own for each scenario (`rounds`, `child`). A scenario is repeated in rounds, and
//! all engines take their turn in each round, so that a slow drift of the machine affects all equally.

pub mod child;
mod figures;
mod scenario;

use crate::arguments::Small;
use crate::engines;
use crate::machine::stale;
use crate::rounds::host::{Folder, Host};
use crate::rounds::report::Report;
use figures::FIGURES;
use scenario::{Job, Scenario};
use serde::Serialize;
use std::path::Path;

/// The hidden command of its children.
const CHILD: &str = "small-child";

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    /// Bytes of keys and values of the large store.
    large_bytes: u64,
    /// Stores that were open at once.
    stores: u32,
    /// Seconds for which open stores were idle.
    idle_seconds: f64,
}

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
    let mut report = Report::new(&names, &FIGURES, conditions(arguments));
    for (scenario, rounds) in scenarios(arguments) {
        eprintln!("{}, {rounds} rounds of {} engines", scenario.name(), names.len());
        measure(&scenario, rounds, &names, &stores, &mut report)?;
    }
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&report).map_err(|error| error.to_string())?),
        false => println!("{}\n{}", heading(&report), report.table()),
    }
    Ok(report.failures())
}

fn conditions(arguments: &Small) -> Conditions {
    Conditions { large_bytes: arguments.bytes, stores: arguments.stores, idle_seconds: arguments.idle }
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { large_bytes, stores, idle_seconds } = report.conditions;
    format!(
        "Default options of every engine, source {}. Large: {} MB of data; many: {stores} stores; open stores are \
         looked at after {idle_seconds} s. Medians; times also the ninetieth percentile. Threads, descriptors and \
         memory are those above the process before opening.",
        report.commit,
        large_bytes / 1_000_000
    )
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
    report: &mut Report<Conditions>,
) -> Result<(), String> {
    // A host is dropped before its folder.
    let mut hosts: Vec<(&str, Option<Host>, Folder)> = Vec::new();
    for engine in engines {
        let directory = stores.join(format!("{}{}-{engine}", stale::PREFIX, std::process::id()));
        let job = Job { engine: (*engine).to_owned(), directory: directory.clone(), scenario: scenario.clone() };
        hosts.push((engine, Some(Host::start(CHILD, &job)?), Folder(directory)));
    }
    for round in 0..rounds as usize {
        // Each round begins with another engine.
        for place in 0..hosts.len() {
            let at = (place + round) % engines.len();
            let (engine, slot, _) = &mut hosts[at];
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

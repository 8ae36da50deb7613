//! Rounds whose engines start a new process each, and the output of their report.

use super::figure::Figure;
use super::host::{Folder, Host, Round};
use super::report::Report;
use crate::arguments::Rounds;
use crate::machine::stale;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The directory for stores: the one that is named, else the system's temporary one. What killed runs left is removed.
///
/// # Errors
/// There is no such directory.
pub fn stores(named: Option<&Path>) -> Result<PathBuf, String> {
    let stores = named.map_or_else(std::env::temp_dir, Path::to_owned);
    if !stores.is_dir() {
        return Err(format!("{} is not a directory for the stores", stores.display()));
    }
    stale::remove_stores(&stores);
    Ok(stores)
}

/// In each round, every engine takes its turn, and each round begins with another one. An engine that fails has no
/// further rounds. A turn gets a directory of its own, which does not exist and is removed afterwards.
pub fn take<Conditions>(
    rounds: u32,
    engines: &[&'static str],
    step: &'static str,
    stores: &Path,
    report: &mut Report<Conditions>,
    turn: impl Fn(&str, &Path) -> Result<Round, String>,
) {
    let mut failed = vec![false; engines.len()];
    for round in 0..rounds as usize {
        eprintln!("{step}, round {} of {rounds}", round + 1);
        for place in 0..engines.len() {
            let at = (place + round) % engines.len();
            if failed[at] {
                continue;
            }
            let engine = engines[at];
            let folder = Folder(stores.join(format!("{}{}-{engine}", stale::PREFIX, std::process::id())));
            match turn(engine, &folder.0) {
                Ok(figures) => report.add(engine, figures),
                Err(error) => {
                    eprintln!("    {engine} FAILED in {step}: {error}");
                    report.fail(engine, step, error);
                    failed[at] = true;
                }
            }
        }
    }
}

/// A comparison whose engines start a new process for each round.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    /// The engines, in the order of the table.
    pub names: &'a [&'static str],
    /// The hidden command of the children.
    pub child: &'static str,
    /// What is done, for messages.
    pub step: &'static str,
    /// The results' file, without its ending.
    pub results: &'static str,
    /// The rows of the table.
    pub figures: &'static [Figure],
}

/// Measures in rounds, keeps the figures, and prints a table below the heading, or JSON. Returns a line about the engines that
/// failed. `job` is what a child is started with, for an engine and its directory.
///
/// # Errors
/// A directory that cannot be used.
pub fn compare<Conditions: Serialize, Job: Serialize>(
    comparison: &Comparison<'_>,
    rounds: &Rounds,
    conditions: Conditions,
    heading: impl Fn(&Report<Conditions>) -> String,
    job: impl Fn(&str, &Path) -> Job,
) -> Result<Option<String>, String> {
    let Comparison { names, child, step, results, figures } = *comparison;
    let stores = stores(rounds.directory.as_deref())?;
    let mut report = Report::new(names, figures, conditions);
    take(rounds.rounds, names, step, &stores, &mut report, |engine, directory| {
        Host::start(child, &job(engine, directory))?.round()
    });
    show(&report, &heading(&report), rounds.json, &rounds.results, results)?;
    Ok(report.failures())
}

/// Keeps the report as a file of JSON in the directory of results, and prints it: as JSON, or a heading and its table.
///
/// # Errors
/// A file that cannot be written.
pub fn show<Conditions: Serialize>(
    report: &Report<Conditions>,
    heading: &str,
    json: bool,
    results: &Path,
    name: &str,
) -> Result<(), String> {
    let text = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
    let path = results.join(format!("{name}.json"));
    let written = fs::create_dir_all(results).and_then(|()| fs::write(&path, &text));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    match json {
        true => println!("{text}"),
        false => println!("{heading}\n{}", report.table()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn engines_take_turns_until_they_fail() {
        let folder = tempfile::tempdir().unwrap();
        let mut report = Report::new(&["a", "b"], &[], ());
        let order = RefCell::new(String::new());
        take(3, &["a", "b"], "step", folder.path(), &mut report, |engine, directory| {
            assert!(!directory.exists());
            fs::create_dir(directory).unwrap();
            order.borrow_mut().push_str(engine);
            if engine == "b" && order.borrow().len() > 2 { Err("no room".into()) } else { Ok(Round::new()) }
        });
        assert_eq!(*order.borrow(), "abbaa");
        assert_eq!(report.failures().as_deref(), Some("failed: b step"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(stores(Some(&folder.path().join("absent"))).is_err());
    }
}

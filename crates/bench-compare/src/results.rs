//! The results files: one JSON file per run, rewritten after each measurement, so that an interrupted run loses at most
//! the current engine. Files of other programs in the same directory are left alone.

use crate::machine::about::{CHANGED, Machine, UNKNOWN};
use crate::record::{Identity, Record};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Identifies our files, and their version.
const FORMAT: &str = "alluvium-bench-compare/1";

/// The contents of a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct File {
    /// Whose file it is.
    format: String,
    /// Where it was measured.
    pub machine: Machine,
    /// The measurements.
    pub records: Vec<Record>,
}

/// A results directory, and the file in it that this run writes.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    /// What all files together have.
    known: BTreeSet<Identity>,
}

impl Results {
    /// Opens a directory, creating it if it is missing; measurements go to the file `name`.json in it.
    ///
    /// # Errors
    /// A directory that cannot be created or read, or one of our files in it that is damaged.
    pub fn open(folder: &Path, name: &str, machine: Machine) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let path = folder.join(format!("{name}.json"));
        let known = read_all(folder)?.iter().flat_map(|file| &file.records).map(Record::identity).collect();
        let mut file = if path.exists() { read(&path)?.unwrap_or_default() } else { File::default() };
        (file.format, file.machine) = (FORMAT.to_owned(), machine);
        Ok(Self { path, file, known })
    }

    /// Whether a measurement exists. One of changed or unknown source does not count: the next one would have the same
    /// name.
    pub fn has(&self, identity: &Identity) -> bool {
        let is_sure = !identity.commit.ends_with(CHANGED) && identity.commit != UNKNOWN;
        is_sure && self.known.contains(identity)
    }

    /// Adds a measurement, replacing an older one of the same identity, and writes the file.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn add(&mut self, record: Record) -> Result<(), String> {
        let identity = record.identity();
        self.file.records.retain(|old| old.identity() != identity);
        self.file.records.push(record);
        self.known.insert(identity);
        write(&self.path, &self.file)
    }

    /// The file that this run writes.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads one of our files; `None` for another program's.
fn read(path: &Path) -> Result<Option<File>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if !text.contains(FORMAT) {
        return Ok(None);
    }
    let file: File = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((file.format == FORMAT).then_some(file))
}

/// All of our files in a directory, by name.
///
/// # Errors
/// A directory that cannot be read, or one of our files that is damaged.
pub fn read_all(folder: &Path) -> Result<Vec<File>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let files: Result<Vec<Option<File>>, String> = paths.iter().map(|path| read(path)).collect();
    Ok(files?.into_iter().flatten().collect())
}

/// Replaces a file as a whole: a reader sees the old one or the new one.
fn write(path: &Path, file: &File) -> Result<(), String> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = serde_json::to_string_pretty(file).map_err(|error| named(&error))?;
    let new = path.with_extension("json.new");
    fs::write(&new, text).map_err(|error| named(&error))?;
    fs::rename(&new, path).map_err(|error| named(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvium_bench::Outcome;

    fn record(workload: &str, repeat: u32, commit: &str) -> Record {
        let outcome = Outcome { engine: "e".into(), workload: workload.into(), ops_per_s: 7.5, ..Outcome::default() };
        Record { outcome, repeat, path: workload.into(), commit: commit.into(), ..Record::default() }
    }

    #[test]
    fn what_was_measured_is_known_to_the_next_run() {
        let folder = tempfile::tempdir().unwrap();
        let open = |name: &str| Results::open(folder.path(), name, Machine::default()).unwrap();
        let mut results = open("full");
        assert!(!results.has(&record("w", 1, "c").identity()));
        results.add(record("w", 1, "c")).unwrap();
        assert!(results.has(&record("w", 1, "c").identity()));
        // Another run, and a run that writes another file.
        for name in ["full", "quick"] {
            let results = open(name);
            assert!(results.has(&record("w", 1, "c").identity()), "{name}");
            for other in [record("w", 2, "c"), record("v", 1, "c"), record("w", 1, "d")] {
                assert!(!results.has(&other.identity()), "{other:?}");
            }
        }
    }

    #[test]
    fn other_conditions_are_another_measurement() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::open(folder.path(), "full", Machine::default()).unwrap();
        results.add(record("w", 1, "c")).unwrap();
        let mut changed: Vec<Record> = (0..8).map(|_| record("w", 1, "c")).collect();
        changed[0].outcome.threads = 2;
        changed[1].load = 5;
        changed[2].outcome.memory_mb = Some(64.0);
        changed[3].outcome.sync = true;
        changed[4].seed = 9;
        changed[5].limit = "none".into();
        changed[6].outcome.key_prefix = 4;
        changed[7].outcome.seek_nexts = 10;
        for other in changed {
            assert!(!results.has(&other.identity()), "{other:?}");
        }
    }

    #[test]
    fn changed_source_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::open(folder.path(), "full", Machine::default()).unwrap();
        results.add(record("w", 1, "c-changed")).unwrap();
        assert!(!results.has(&record("w", 1, "c-changed").identity()));
        results.add(record("w", 1, "c-changed")).unwrap();
        assert_eq!(read_all(folder.path()).unwrap()[0].records.len(), 1, "replaced, not added");
        results.add(record("w", 1, UNKNOWN)).unwrap();
        assert!(!results.has(&record("w", 1, UNKNOWN).identity()));
    }

    #[test]
    fn other_files_are_left_alone_and_damage_is_told() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("other.json"), "{\"a\":1}").unwrap();
        fs::write(folder.path().join("text.txt"), "no").unwrap();
        assert!(read_all(folder.path()).unwrap().is_empty());
        fs::write(folder.path().join("ours.json"), format!("{{\"format\":\"{FORMAT}\", cut off")).unwrap();
        assert!(read_all(folder.path()).unwrap_err().contains("ours.json"));
        assert!(read_all(&folder.path().join("absent")).is_err());
    }

    #[test]
    fn a_record_has_the_promised_members() {
        let json = serde_json::to_value(record("w", 1, "c")).unwrap();
        for member in [
            "workload",
            "threads",
            "num",
            "ops_per_s",
            "cpu_us_per_op",
            "p50_us",
            "p99_us",
            "p999_us",
            "max_ms",
            "write_amp",
            "log_amp",
            "space_amp",
            "peak_rss_mb",
            "settle_s",
            "engine",
            "version",
            "settings",
            "other_load_percent",
        ] {
            assert!(json.get(member).is_some(), "{member}");
        }
        assert_eq!(serde_json::from_value::<Record>(json).unwrap(), record("w", 1, "c"));
    }
}

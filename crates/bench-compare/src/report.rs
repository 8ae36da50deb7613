//! The table and the page, from the files of results.

use crate::engines;
use crate::page;
use crate::record::Record;
use crate::results::{self, File};
use crate::summary;
use crate::table;
use std::fs;
use std::path::Path;

/// The name of the page, in the results directory.
pub const PAGE: &str = "compare.html";

/// Prints the table and writes the page for one commit: the given one, else the one that was measured last.
///
/// # Errors
/// No results, or a page that cannot be written.
pub fn make(folder: &Path, commit: Option<&str>) -> Result<(), String> {
    let files = results::read_all(folder)?;
    let Some(commit) = commit.map(str::to_owned).or_else(|| newest(folder, &files)) else {
        return Err(format!("{} has no results", folder.display()));
    };
    let has = |file: &File| file.records.iter().any(|record| record.commit == commit);
    let Some(machine) = files.iter().find(|file| has(file)).map(|file| file.machine.clone()) else {
        return Err(format!("{} has no results of source {commit}", folder.display()));
    };
    let records: Vec<Record> =
        files.into_iter().flat_map(|file| file.records).filter(|record| record.commit == commit).collect();
    let groups = summary::groups(&records, &engines::names());
    println!("{}", table::render(&groups));
    let path = folder.join(PAGE);
    fs::write(&path, page::render(&groups, &machine, &commit))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

/// The commit of the last measurement in the file that was written last.
fn newest(folder: &Path, files: &[File]) -> Option<String> {
    let mut written: Vec<(std::time::SystemTime, String)> = fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            Some((entry.metadata().ok()?.modified().ok()?, name))
        })
        .collect();
    written.sort();
    let known = |commit: &str| files.iter().any(|file| file.records.iter().any(|record| record.commit == commit));
    // A file is named after its command and its commit: `full-0123abcd.json`.
    let commit =
        |name: &str| Some(name.strip_suffix(".json")?.split_once('-')?.1.trim_start_matches("sync-").to_owned());
    let named = written.iter().rev().filter_map(|(_, name)| commit(name)).find(|commit| known(commit));
    named.or_else(|| Some(files.last()?.records.last()?.commit.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::about::Machine;
    use crate::results::Results;
    use alluvium_bench::Outcome;

    fn add(folder: &Path, name: &str, commit: &str, workload: &str) {
        let outcome = Outcome { engine: "alluvium".into(), workload: workload.into(), ..Outcome::default() };
        let record = Record { outcome, commit: commit.into(), path: workload.into(), ..Record::default() };
        Results::open(folder, name, Machine::default()).unwrap().add(record).unwrap();
    }

    #[test]
    fn the_page_has_one_source_the_newest_unless_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        assert!(make(folder.path(), None).unwrap_err().contains("no results"));
        add(folder.path(), "full-aaaa", "aaaa", "readseq");
        std::thread::sleep(std::time::Duration::from_millis(20));
        add(folder.path(), "full-sync-bbbb", "bbbb", "fillseq");
        let page = || fs::read_to_string(folder.path().join(PAGE)).unwrap();
        make(folder.path(), None).unwrap();
        assert!(page().contains("bbbb") && page().contains("fillseq") && !page().contains("aaaa"));
        make(folder.path(), Some("aaaa")).unwrap();
        assert!(page().contains("aaaa") && page().contains("readseq"));
        assert!(make(folder.path(), Some("cccc")).unwrap_err().contains("cccc"));
    }
}

//! `check`: checks the file system of a store, with a progress bar.

use super::{no_file_system, with_store};
use crate::arguments::Common;
use crate::failure::Failure;
use crate::file_system_arguments::Check;
use crate::progress::KeysBar;
use crate::report::Report;
use skipfs::ROOT;
use skipfs::check::{self, check_with};
use skipfs::format::key;
use skipfs::store::AlluviumReader;
use std::time::Instant;

/// The most findings that are listed.
const LISTED_MAX: usize = 1000;

/// Checks the file system and prints a report. Findings are printed on standard error, with `--json` on standard output
/// as well.
pub fn run(common: &Common, check: &Check) -> Result<(), Failure> {
    let common = with_store(common, &check.of)?;
    let started = Instant::now();
    let db = common.open_to_read()?;
    // One of the two is enough: without the other it is a damaged file system.
    if !db.contains_key(key::superblock())? && !db.contains_key(key::inode(ROOT))? {
        return Err(no_file_system(common.directory()?));
    }
    let bar = KeysBar::new(db.stats().approximate_keys());
    let found = check_with(&AlluviumReader::of(db), &mut |keys| bar.show(keys));
    bar.finish();
    let found = found?;
    report(&found, started.elapsed().as_secs_f64()).print(common.json)?;
    if found.is_sound() {
        return Ok(());
    }
    for finding in found.findings.iter().take(LISTED_MAX) {
        eprintln!("alluvium: {finding}");
    }
    if unlisted(&found) > 0 {
        eprintln!("alluvium: and {} more", unlisted(&found));
    }
    Err(Failure::Findings { count: found.findings.len() as u64 })
}

fn unlisted(found: &check::Report) -> usize {
    found.findings.len().saturating_sub(LISTED_MAX)
}

fn report(found: &check::Report, seconds: f64) -> Report {
    let text = if found.is_sound() { "nothing wrong" } else { "damaged" };
    let listed: Vec<_> = found.findings.iter().take(LISTED_MAX).map(String::as_str).collect();
    let mut report = Report::new();
    report
        .add("sound", "result", found.is_sound().into(), text.to_string())
        .count("files", "files", found.files)
        .count("directories", "directories", found.directories)
        .count("others", "links, pipes, sockets and devices", found.others)
        .size("bytes", "bytes in files", found.bytes)
        .count("orphans", "orphans", found.orphans.len() as u64)
        .count("findings_count", "findings", found.findings.len() as u64)
        .decimal("seconds", "seconds", seconds)
        .member("findings", listed.into())
        .member("unlisted", unlisted(found).into());
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_findings_is_bounded() {
        let findings = (0..LISTED_MAX + 5).map(|number| number.to_string()).collect();
        let found = check::Report { findings, ..check::Report::default() };
        let report = report(&found, 0.5).json();
        assert_eq!(report["findings"].as_array().map(Vec::len), Some(LISTED_MAX));
        assert_eq!((&report["unlisted"], &report["findings_count"]), (&5.into(), &1005.into()));
    }
}

//! The properties of a database under LevelDB's names. The trunk's levels are shown as LevelDB's; level 0 is the root,
//! where the newest data is.

use alluvium::{BranchFile, Db, Stats};
use std::fmt::Write;

/// LevelDB has levels 0 to 6, and programs that read its properties expect these. Deeper levels of the trunk count as
/// the last.
const LEVELS: usize = 7;
const FILES_AT_LEVEL: &[u8] = b"num-files-at-level";
const MIB: f64 = 1_048_576.0;

/// Returns a property; `None` if the name is unknown.
pub fn value(db: &Db, name: &[u8]) -> Option<String> {
    match name.strip_prefix(b"leveldb.")? {
        b"stats" => Some(stats(&db.stats(), &levels(db))),
        b"sstables" => Some(tables(&levels(db))),
        b"approximate-memory-usage" => {
            let stats = db.stats();
            Some((stats.memory_bytes + stats.cache_bytes).to_string())
        }
        property => {
            let level: usize = std::str::from_utf8(property.strip_prefix(FILES_AT_LEVEL)?).ok()?.parse().ok()?;
            levels(db).get(level).map(|files| files.len().to_string())
        }
    }
}

/// The branch files of each level. Each file is listed once, at the highest node that refers to it.
fn levels(db: &Db) -> [Vec<BranchFile>; LEVELS] {
    let mut levels = [const { Vec::new() }; LEVELS];
    let files = db.branch_files();
    let root = files.iter().map(|file| file.height).max().unwrap_or(0);
    for file in files {
        levels[((root - file.height) as usize).min(LEVELS - 1)].push(file);
    }
    levels
}

/// LevelDB's table of levels, followed by the store's own statistics.
fn stats(stats: &Stats, levels: &[Vec<BranchFile>; LEVELS]) -> String {
    let mut text = String::from(
        "                               Compactions\n\
         Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
         --------------------------------------------------\n",
    );
    // Bytes written are only known for all levels together, so the first level that has files shows them.
    let mut written = (stats.incorporated_bytes + stats.compacted_bytes) as f64 / MIB;
    for (level, files) in levels.iter().enumerate().filter(|(_, files)| !files.is_empty()) {
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let _ = writeln!(
            text,
            "{level:3} {:8} {:8.0} {:9.0} {:8.0} {written:9.0}",
            files.len(),
            bytes as f64 / MIB,
            0.0,
            stats.compacted_bytes as f64 / MIB,
        );
        written = 0.0;
    }
    let _ = writeln!(text, "{stats}");
    text
}

/// Lists every file with its size and its key range.
fn tables(levels: &[Vec<BranchFile>; LEVELS]) -> String {
    let mut text = String::new();
    for (level, files) in levels.iter().enumerate() {
        let _ = writeln!(text, "--- level {level} ---");
        for file in files {
            let number = file.name.split('.').next().unwrap_or_default().trim_start_matches('0');
            let (first, last) = (file.first_key.escape_ascii(), file.last_key.escape_ascii());
            let _ = writeln!(text, " {number}:{}['{first}' .. '{last}']", file.bytes);
        }
    }
    text
}

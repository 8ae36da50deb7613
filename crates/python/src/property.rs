//! The properties of a store under LevelDB's names. The trunk's levels are shown as LevelDB's; level 0 is the root.

use crate::engine::Engine;
use alluvium::BranchFile;
use std::fmt::Write;

/// Returns a property; `None` if the name is unknown.
pub fn value(engine: &Engine, name: &[u8]) -> Option<String> {
    match name.strip_prefix(b"leveldb.")? {
        b"stats" => Some(engine.stats().to_string()),
        b"sstables" => Some(tables(&files(engine))),
        b"approximate-memory-usage" => {
            let stats = engine.stats();
            Some((stats.memory_bytes + stats.cache_bytes).to_string())
        }
        other => {
            let level = std::str::from_utf8(other.strip_prefix(b"num-files-at-level")?).ok()?.parse::<u32>().ok()?;
            Some(files(engine).iter().filter(|(at, _)| *at == level).count().to_string())
        }
    }
}

/// The branch files, each with its level.
fn files(engine: &Engine) -> Vec<(u32, BranchFile)> {
    let files = engine.branch_files();
    let root = files.iter().map(|file| file.height).max().unwrap_or(0);
    files.into_iter().map(|file| (root - file.height, file)).collect()
}

fn tables(files: &[(u32, BranchFile)]) -> String {
    files.iter().fold(String::new(), |mut text, (level, file)| {
        let (first, last) = (file.first_key.escape_ascii(), file.last_key.escape_ascii());
        let _ = writeln!(text, "level {level}: {}: {} bytes, '{first}' .. '{last}'", file.name, file.bytes);
        text
    })
}

//! What runs that were killed left behind: stores, and groups without processes. Their names have the number of the process
//! that made them.

use std::fs;
use std::path::{Path, PathBuf};

/// How the names begin.
pub const PREFIX: &str = "bench-compare-";

/// Folders in `parent` that were made by processes that are gone.
pub fn folders(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let folders = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let process = maker(path.file_name()?.to_str()?)?;
        (path.is_dir() && !Path::new(&format!("/proc/{process}")).exists()).then_some(path)
    });
    folders.collect()
}

/// Removes stores; a run that cannot has less room, and no other harm.
pub fn remove_stores(parent: &Path) {
    for folder in folders(parent) {
        eprintln!("{} was left by a run that is gone; removing it", folder.display());
        let _ = fs::remove_dir_all(&folder);
    }
}

/// The process in a name of ours.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_dead_process_made_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let own = std::process::id();
        // No process has a number that large.
        let names = ["bench-compare-4294967295-rocksdb", "bench-compare-notes", "other-4294967295-x"];
        for name in names.iter().map(|name| (*name).to_owned()).chain([format!("{PREFIX}{own}-redb")]) {
            fs::create_dir_all(parent.path().join(name).join("inner")).unwrap();
        }
        fs::write(parent.path().join("bench-compare-4294967295"), "a file").unwrap();
        remove_stores(parent.path());
        assert!(!parent.path().join(names[0]).exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 4);
        assert!(folders(&parent.path().join("absent")).is_empty());
    }
}

//! Removes what killed runs left: stores, and groups without processes. Their names contain the id of the process that
//! created them.

use std::fs;
use std::path::{Path, PathBuf};

/// The prefix of the names.
pub const PREFIX: &str = "bench-compare-";

/// Directories in `parent` whose creating processes are gone.
pub fn folders(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let folders = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let process = maker(path.file_name()?.to_str()?)?;
        (path.is_dir() && !Path::new(&format!("/proc/{process}")).exists()).then_some(path)
    });
    folders.collect()
}

/// Removes stores. A store that cannot be removed only takes disk space.
pub fn remove_stores(parent: &Path) {
    for folder in folders(parent) {
        eprintln!("removing {}, which an earlier run left", folder.display());
        let _ = fs::remove_dir_all(&folder);
    }
}

/// The process id in a name.
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

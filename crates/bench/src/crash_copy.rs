//! A copy of an open store's files, as its death would leave them. One thread; no other may write to the store.
//!
//! What a process has given to the kernel outlives it, so a copy has everything that a killed process leaves, and nothing
//! of what closing the store would add. It is of one moment only if no file changes meanwhile: background work may still
//! remove and replace files, so the copy is made again until they are the same before and after.

use crate::engine::Result;
use rustix::fs::{Advice, fadvise};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often it is tried, and the time between.
const TRIES: u32 = 100;
const WAIT: Duration = Duration::from_millis(100);

/// What shows that a file has changed.
type State = (u64, Option<SystemTime>);

/// Copies a directory to another, which must be absent. The copy is on the disk and not in the page cache, as after a
/// restart of the machine.
///
/// # Errors
/// There is something already, files cannot be copied, or they change all the time.
pub fn make(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Err(format!("{} exists; remove it, as the copy of a store goes there", to.display()).into());
    }
    for _ in 0..TRIES {
        let before = files(from)?;
        fs::create_dir_all(to).map_err(|error| named(to, &error))?;
        // A file that is gone by now is a change like any other.
        let copied = before.keys().try_for_each(|name| copy(&from.join(name), &to.join(name)));
        let is_still = files(from)? == before;
        match copied {
            Ok(()) if is_still => return Ok(()),
            Err(error) if is_still => return Err(error),
            _ => {}
        }
        fs::remove_dir_all(to).map_err(|error| named(to, &error))?;
        std::thread::sleep(WAIT);
    }
    Err(format!("the files of {} changed during each of {TRIES} copies; wait until the store rests", from.display())
        .into())
}

/// The files by their paths below a directory.
fn files(directory: &Path) -> Result<BTreeMap<PathBuf, State>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| named(&folder, &error))? {
            let path = entry?.path();
            // It was removed meanwhile.
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(directory)?.to_path_buf();
                found.insert(name, (metadata.len(), metadata.modified().ok()));
            }
        }
    }
    Ok(found)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
    }
    fs::copy(from, to).map_err(|error| named(from, &error))?;
    let file = File::open(to).map_err(|error| named(to, &error))?;
    file.sync_all().map_err(|error| named(to, &error))?;
    // Only a hint: without it, some engines would find the copy in memory.
    let _ = fadvise(&file, 0, None, Advice::DontNeed);
    Ok(())
}

fn named(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_copy_has_all_folders_and_their_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("a"), "one").unwrap();
        fs::write(from.join("inner/b"), vec![7; 100_000]).unwrap();
        make(&from, &to).unwrap();
        assert_eq!(files(&to).unwrap().len(), 2);
        assert_eq!(
            (fs::read(to.join("a")).unwrap(), fs::read(to.join("inner/b")).unwrap().len()),
            (b"one".into(), 100_000)
        );
        assert!(make(&from, &to).unwrap_err().to_string().contains("exists"));
        fs::remove_dir_all(&to).unwrap();
        assert!(make(&from.join("absent"), &to).unwrap_err().to_string().contains("absent"));
    }

    /// Of two files that grow in turn, the second is at no moment the longer one.
    #[test]
    fn a_copy_is_of_one_moment() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        fs::create_dir_all(&from).unwrap();
        let grow = |name: &str| File::options().append(true).create(true).open(from.join(name))?.write_all(b"x");
        let both = || ["first", "second"].into_iter().try_for_each(grow).unwrap();
        both();
        std::thread::scope(|scope| {
            scope.spawn(|| (0..5000).for_each(|_| both()));
            make(&from, &to).unwrap();
        });
        let length = |name| fs::metadata(to.join(name)).unwrap().len();
        assert!(
            [0, 1].contains(&length("first").wrapping_sub(length("second"))),
            "{} and {}",
            length("first"),
            length("second")
        );
    }
}

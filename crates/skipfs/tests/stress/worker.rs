//! A worker: executes random operations by system calls in a directory of its own, until one fails because the mount or
//! the disk is gone.

use super::tree::{Content, Operation, Tree, bytes};
use crate::support::Random;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a worker's directory may contain after a crash.
pub struct History {
    /// The first of these trees is durable; each of the others is that after one more operation.
    trees: Vec<Tree>,
    pub operations: Vec<Operation>,
    /// All operations of the life.
    pub count: u64,
}

impl History {
    /// The tree among those that the crash may have left which shows this.
    pub fn find(&self, found: &BTreeMap<String, Content>) -> Option<Tree> {
        let whole = self.trees.iter().rev().find(|tree| tree.dump() == *found).cloned();
        whole.or_else(|| {
            let mut writes = self.trees.iter().zip(&self.operations).rev();
            writes.find_map(|(tree, operation)| tree.in_the_middle_of(operation, found))
        })
    }

    /// The tree after all operations but the last, which failed.
    pub fn acknowledged(&self) -> &Tree {
        &self.trees[self.trees.len().saturating_sub(2)]
    }
}

/// Executes operations until one fails. `done` counts them. `fsyncs`: only an fsync makes them durable.
pub fn work(directory: &Path, tree: Tree, random: &mut Random, done: &AtomicU64, fsyncs: bool) -> History {
    let mut history = History { trees: vec![tree], operations: Vec::new(), count: 0 };
    loop {
        let mut tree = history.trees.last().unwrap().clone();
        let operation = tree.choose(random);
        tree.apply(&operation);
        history.trees.push(tree);
        history.operations.push(operation.clone());
        history.count += 1;
        let result = execute(directory, &operation);
        if result.is_ok() && (!fsyncs || matches!(operation, Operation::Fsync(_))) {
            history.trees.drain(..history.operations.len());
            history.operations.clear();
        }
        match result {
            Ok(()) => _ = done.fetch_add(1, Ordering::Relaxed),
            Err(error) => {
                let expected = [libc::ENOTCONN, libc::ECONNABORTED, libc::EIO, libc::EROFS, libc::ENOENT, libc::EINTR];
                // `None`: only a part was written.
                let is_expected = error.raw_os_error().is_none_or(|number| expected.contains(&number));
                assert!(is_expected, "{operation:?}: {error}");
                // A name is missing only because the directory of the mount is not the mount any more.
                assert!(
                    error.raw_os_error() != Some(libc::ENOENT) || !directory.exists(),
                    "{operation:?}: {error}, and the mount is there"
                );
                return history;
            }
        }
    }
}

fn execute(directory: &Path, operation: &Operation) -> io::Result<()> {
    let at = |path: &str| directory.join(path);
    let whole = |written: usize, length: usize| {
        if written == length { Ok(()) } else { Err(io::Error::other(format!("{written} of {length} bytes"))) }
    };
    match operation {
        Operation::Create(path) => OpenOptions::new().write(true).create_new(true).open(at(path)).map(drop),
        Operation::Mkdir(path) => fs::create_dir(at(path)),
        Operation::Symlink(path, target) => symlink(target, at(path)),
        Operation::Write(path, offset, length, first) => {
            let file = OpenOptions::new().write(true).open(at(path))?;
            whole(file.write_at(&bytes(*first, *length), *offset)?, *length)
        }
        Operation::Append(path, length, first) => {
            let mut file = OpenOptions::new().append(true).open(at(path))?;
            whole(file.write(&bytes(*first, *length))?, *length)
        }
        Operation::Truncate(path, size) => OpenOptions::new().write(true).open(at(path))?.set_len(*size),
        Operation::Rename(from, to) => fs::rename(at(from), at(to)),
        Operation::Link(from, to) => fs::hard_link(at(from), at(to)),
        Operation::Unlink(path) => fs::remove_file(at(path)),
        Operation::Rmdir(path) => fs::remove_dir(at(path)),
        Operation::Fsync(path) => File::open(at(path))?.sync_all(),
    }
}

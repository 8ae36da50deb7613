//! A directory for a store that is gone with its user. Any thread.

use super::PosixStorage;
use crate::io::Storage;
use crate::util::{Error, Result, fork};
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// A directory that is removed when this is dropped, but not by a forked child. If the process is killed, it stays.
#[derive(Debug)]
pub struct TemporaryDirectory {
    path: PathBuf,
    made_in: fork::ForkCount,
}

impl PosixStorage {
    /// A new directory, which only this user may use, under the system's temporary directory.
    pub fn temporary() -> Result<(Self, TemporaryDirectory)> {
        let parent = std::env::temp_dir();
        loop {
            let path = parent.join(format!("alluvium-{:016x}", Self::new(&parent).random()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let made_in = fork::ForkCount::current();
                    return Ok((Self::new(&path), TemporaryDirectory { path, made_in }));
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create directory", &path, error)),
            }
        }
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if self.made_in.is_current() {
            // Nobody can be told. What cannot be removed stays for the system's cleaner of temporary files.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

//! The errors of reading a database.

use std::io;
use std::path::{Path, PathBuf};

/// `Result` with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a database cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a file failed.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error, which the text has, so that `source()` has not.
        r#source: io::Error,
    },
    /// The directory is not a database of LevelDB.
    #[error("{} is not a database of LevelDB: {reason}", path.display())]
    NoDatabase {
        /// The directory.
        path: PathBuf,
        /// Why it is not.
        reason: String,
    },
    /// Another process has the database open.
    #[error("{} is open in another process; close it there first", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The keys are sorted by a comparator of the program.
    #[error(
        "{} is sorted by the comparator {comparator:?}, which only the program that created it has; only databases that are sorted by \
         bytes ({BYTEWISE}) can be read",
        path.display()
    )]
    Comparator {
        /// The directory.
        path: PathBuf,
        /// The comparator's name.
        comparator: String,
    },
    /// A block has a compression type that LevelDB 1.23 does not have.
    #[error("{} at offset {offset}: a block has the compression type {method}; supported are 0 (none) and 1 (snappy)", path.display())]
    Compression {
        /// The file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// The compression type.
        method: u8,
    },
    /// Bytes are not what LevelDB wrote there.
    #[error("damage in {} at offset {offset}: {what}: expected {expected}, found {found}", path.display())]
    Damage {
        /// The file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// The damaged item.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
}

/// The only comparator that is supported.
pub(crate) const BYTEWISE: &str = "leveldb.BytewiseComparator";

impl Error {
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_path_buf(), source }
    }

    pub(crate) fn damage(
        path: &Path,
        offset: u64,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        let (expected, found) = (expected.to_string(), found.to_string());
        Self::Damage { path: path.to_path_buf(), offset, what, expected, found }
    }

    /// Whether the error means that bytes in one place are wrong or missing, so that the rest can be read without them.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damage { .. } => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
            }
            _ => false,
        }
    }
}

/// Data that was left out.
#[derive(Debug)]
pub struct LeftOut {
    /// The number of bytes of the file, if known.
    pub bytes: Option<u64>,
    /// Why: the damage, or an unfinished write of a process that died.
    pub why: String,
}

//! What can be wrong with a directory.

use std::io;
use std::path::{Path, PathBuf};

/// `Result` with this crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a database cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused something.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory is none of LevelDB's.
    #[error("{} is no database of LevelDB: {reason}", path.display())]
    NoDatabase {
        /// The directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A process has it open.
    #[error("{} is open in another process; close it there first", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Its keys are in an order of the program's own.
    #[error(
        "{} is in the order of the comparator {comparator:?}, of which only the program that made it knows; only databases in the order \
         of bytes ({BYTEWISE}) can be read",
        path.display()
    )]
    Comparator {
        /// The directory.
        path: PathBuf,
        /// The comparator's name.
        comparator: String,
    },
    /// A block is compressed in a way that LevelDB 1.23 does not have.
    #[error("{} at offset {offset}: a block is compressed by method {method}; known are 0 (none) and 1 (snappy)", path.display())]
    Compression {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The byte that says how.
        method: u8,
    },
    /// Bytes are not what LevelDB wrote there.
    #[error("damage in {} at offset {offset}: {what}: expected {expected}, found {found}", path.display())]
    Damage {
        /// The file.
        path: PathBuf,
        /// Where in it, bytes.
        offset: u64,
        /// Which thing.
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
}

/// The only order that can be read.
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

    /// Whether it is about bytes that are wrong, or missing, in one place, so that the rest may be read without them.
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

/// Something that was left out.
#[derive(Debug)]
pub struct LeftOut {
    /// How many bytes of the file, where that is known.
    pub bytes: Option<u64>,
    /// What was wrong; for what a process that died had begun to write, that.
    pub why: String,
}

//! The one error type. Every error says what, where, expected and found, and where it helps, what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `Result` with the store's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. Cheap to clone: a background failure is told to every later caller.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refused an operation on a file.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb: "read", "sync".
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// Bytes on disk are not what was written there.
    #[error("corruption in {} at offset {offset}: {what}: expected {expected}, found {found}; see `alluvium verify`", path.display())]
    Corruption {
        /// The file.
        path: PathBuf,
        /// Where in it, bytes.
        offset: u64,
        /// Which thing: "page checksum", "record length".
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// There is no store at the path.
    #[error("no store at {}: {reason}", path.display())]
    NoStore {
        /// The directory asked for.
        path: PathBuf,
        /// Why it is none.
        reason: String,
    },
    /// Another process, or another handle of this one, has the store open for writing.
    #[error("{} is open in another process or handle; close that one first", path.display())]
    AlreadyOpen {
        /// The store's directory.
        path: PathBuf,
    },
    /// A file was written by a newer version.
    #[error("{} has format version {found}, this build reads up to {supported}; use a newer build", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version known here.
        supported: u32,
    },
    /// An argument that no state of the store could accept.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The store was made with another comparator, or another option that is fixed for life.
    #[error("the store at {} was made with {what} {stored:?}, not {asked:?}", path.display())]
    Mismatch {
        /// The store's directory.
        path: PathBuf,
        /// Which property.
        what: &'static str,
        /// What the store has.
        stored: String,
        /// What was asked for.
        asked: String,
    },
    /// A snapshot, or an iterator with one of its own, outlived `Options::snapshot_age_limit`, and its versions may be gone.
    #[error("the snapshot is older than the limit of {} s; take a new one, or drop iterators sooner", limit.as_secs_f64())]
    SnapshotExpired {
        /// The store's limit.
        limit: std::time::Duration,
    },
    /// An earlier failure of unknown effect made the store read-only; reads go on.
    #[error("the store takes no more writes since an earlier failure: {reason}; reopen it once the cause is mended")]
    ReadOnly {
        /// The failure.
        reason: String,
    },
    /// Somebody has written what a transaction has read, since that began. Nothing was changed.
    #[error(
        "the transaction has read \"{}\", which others have written since it began; nothing was changed: run it again (`Db::transact` \
         does so by itself)",
        key.escape_ascii()
    )]
    Conflict {
        /// The user's key: one that was got, or one in a range that was iterated over.
        key: Vec<u8>,
    },
    /// A key has merge operands that could not be folded into a value.
    #[error("the key \"{}\" has merge operands, but {reason}", key.escape_ascii())]
    MergeOperands {
        /// The user's key.
        key: Vec<u8>,
        /// What is missing, or what the merge operator said.
        reason: String,
    },
    /// The store was opened by the process that this one was forked from.
    #[error(
        "the store was opened before this process was forked off; open it anew in the child, once the parent has closed it"
    )]
    Forked,
    /// The disk is full. Nothing was written; the store goes on by itself once there is room.
    #[error(
        "the disk is full ({reason}): the store takes reads and, as far as their log finds room, deletes, but no puts; delete data \
         or make room on the file system, and it goes on by itself"
    )]
    DiskFull {
        /// What found no room.
        reason: String,
    },
    /// Whoever asked for it called it off.
    #[error("cancelled by the caller; what was done until then stays")]
    Cancelled,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// Wraps a system error with what was tried and where.
    pub fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_path_buf(), source: Arc::new(source) }
    }

    /// A corruption at a place.
    pub fn corruption(
        path: &Path,
        offset: u64,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> Self {
        Self::Corruption {
            path: path.to_path_buf(),
            offset,
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Where in its file a corruption is.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Corruption { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// Whether it tells of bytes that are lost or changed, a missing file and an unreadable sector included, and not of a
    /// refusal that may pass.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Corruption { .. } => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
                    || source.raw_os_error() == Some(libc::EIO)
            }
            _ => false,
        }
    }

    /// The same as a corruption, where the file is not there at all: what is wrong with a store is the missing file.
    #[must_use]
    pub fn of_missing_file(self) -> Self {
        match self {
            Self::Io { path, source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::corruption(&path, 0, "file", "one that the store needs", "none")
            }
            other => other,
        }
    }

    /// Whether the disk was full, or what the user may take of it used up.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::DiskFull { .. } => true,
            _ => false,
        }
    }

    /// Says of a full disk what it means for the store; other errors stay as they are.
    pub(crate) fn into_disk_full(self) -> Self {
        match self {
            Self::DiskFull { .. } => self,
            full if full.is_disk_full() => Self::DiskFull { reason: full.to_string() },
            other => other,
        }
    }
}

//! The error type of the store. Every error says what failed, where, what was expected and found, and, if it helps,
//! what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `Result` with the store's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong. Cheap to clone: a background failure is returned to every later caller.
///
/// The text of an error is complete: that of an `Io` has the system's error in it. So `source()` is `None`, and
/// programs that print an error with its sources print nothing twice.
///
/// ```
/// use alluvium::{Db, Error, Options};
/// # let directory = tempfile::tempdir().unwrap();
/// # let path = directory.path().join("missing");
/// match Db::open(&path, Options::new().create_if_missing(false)) {
///     Err(Error::NoStore { path, reason }) => println!("nothing to open in {}: {reason}", path.display()),
///     Err(error) => println!("{error}"),
///     Ok(_) => unreachable!(),
/// }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a file failed.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// The operation, as a verb: "read", "sync".
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        // A field `source` would be returned by `source()`.
        r#source: Arc<io::Error>,
    },
    /// Bytes on disk are not what was written there.
    #[error("corruption in {} at offset {offset}: {what}: expected {expected}, found {found}; see `{}`", path.display(), check_of(path))]
    Corruption {
        /// The file.
        path: PathBuf,
        /// The offset in the file.
        offset: u64,
        /// The damaged item: "page checksum", "record length".
        what: &'static str,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// There is no store at the path.
    #[error("no store at {}: {reason}", path.display())]
    NoStore {
        /// The requested directory.
        path: PathBuf,
        /// Why it is not a store.
        reason: String,
    },
    /// Another process, or another handle of this one, has the store open for writing.
    #[error("{} is open in another process or handle; close that one first", path.display())]
    AlreadyOpen {
        /// The store's directory.
        path: PathBuf,
    },
    /// A file was written by a newer version of the store.
    #[error("{} has format version {found}, this build reads up to {supported}; use a newer build", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version that this build supports.
        supported: u32,
    },
    /// An argument that is never valid.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// The store has another comparator, or another option that cannot change.
    #[error("the store at {} has the {what} {stored:?}, {}", path.display(), instead(asked, "Options", ""))]
    Mismatch {
        /// The store's directory.
        path: PathBuf,
        /// The property.
        what: &'static str,
        /// The store's value of it.
        stored: String,
        /// The requested value. Empty if no merge operator was given.
        asked: String,
    },
    /// A snapshot, or an iterator with a snapshot of its own, is older than `Options::snapshot_age_limit`, and its
    /// versions may be gone.
    #[error("the snapshot is older than the limit of {} s; take a new one, or drop iterators sooner", limit.as_secs_f64())]
    SnapshotExpired {
        /// The store's limit.
        limit: std::time::Duration,
    },
    /// An earlier failure of unknown effect made the store read-only. Reads still work.
    #[error("the store is read-only after an earlier failure: {reason}; fix the cause and reopen the store")]
    ReadOnly {
        /// The failure.
        reason: String,
    },
    /// Another writer has changed what a transaction has read since the transaction began. Nothing was written.
    #[error(
        "another writer has changed \"{}\" of the keyspace {keyspace:?} since this transaction read it; nothing was written: \
         run the transaction again (`Db::transact` does so by itself)",
        key.escape_ascii()
    )]
    Conflict {
        /// The name of the keyspace.
        keyspace: String,
        /// The user's key: one that was read, or one in a range that was iterated over; the first key of a range that another
        /// writer has deleted.
        key: Vec<u8>,
    },
    /// The keyspace was dropped. Nothing was written.
    #[error("the keyspace {keyspace:?} was dropped")]
    KeyspaceDropped {
        /// Its name.
        keyspace: String,
    },
    /// There is no keyspace with the name, and `KeyspaceOptions::create_if_missing` is not set.
    #[error("no keyspace {keyspace:?}; {}", there_are(existing))]
    NoKeyspace {
        /// The requested name.
        keyspace: String,
        /// The names of the keyspaces that there are, in order, without the default one.
        existing: Vec<String>,
    },
    /// A keyspace has other options than an opening asks for.
    #[error("the keyspace {keyspace:?} has the {what} {stored:?}, {}", instead(asked, "KeyspaceOptions", advice(what)))]
    KeyspaceMismatch {
        /// Its name.
        keyspace: String,
        /// The option.
        what: &'static str,
        /// The keyspace's value of it.
        stored: String,
        /// The requested value. Empty if no merge operator was given.
        asked: String,
    },
    /// A key has merge operands that could not be folded into a value.
    #[error("the operands of the key \"{}\" {}: {reason}", key.escape_ascii(), not_merged(operator))]
    MergeOperands {
        /// The name of the merge operator. Empty if the store does not remember one.
        operator: String,
        /// The user's key.
        key: Vec<u8>,
        /// What is missing, or the error of the merge operator, and what to do.
        reason: String,
    },
    /// The store was opened by the process from which this one was forked.
    #[error(
        "the store was opened before this process was forked; open it again in the child after the parent has closed it"
    )]
    Forked,
    /// The disk is full. Nothing was written. The store resumes by itself once there is space.
    #[error(
        "the disk is full ({reason}): reads work, deletes work while their log has space, puts fail; delete data or free space on \
         the file system, and the store resumes by itself"
    )]
    DiskFull {
        /// The operation that found no space.
        reason: String,
    },
    /// The store does not keep the changes after this number any more: the retention was exceeded, or the stream had to be given
    /// up, for example on a full disk.
    #[error(
        "the changes after number {since} are not kept any more, only those after {oldest}; begin with a checkpoint, and follow \
         the changes after its number"
    )]
    ChangesTooOld {
        /// The requested number.
        since: u64,
        /// The number after which changes are kept.
        oldest: u64,
    },
    /// The caller cancelled the operation.
    #[error("cancelled by the caller")]
    Cancelled,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl Error {
    /// Wraps a system error with the operation and the path.
    ///
    /// ```
    /// use alluvium::Error;
    /// let path = std::path::Path::new("/rivers/LOG");
    /// let error = Error::io("read", path, std::io::ErrorKind::NotFound.into());
    /// assert!(error.to_string().starts_with("cannot read /rivers/LOG: "));
    /// ```
    pub fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { operation, path: path.to_path_buf(), source: Arc::new(source) }
    }

    /// A corruption error.
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

    /// The offset of a corruption in its file.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Corruption { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// Whether the error means that bytes are lost or changed, and not a failure that may be temporary. Missing files
    /// and unreadable sectors are damage, too.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("river", "silt")?;
    /// match db.get("river") {
    ///     Err(error) if error.is_damage() => println!("see `alluvium verify`: {error}"),
    ///     Err(error) => println!("nothing is lost: {error}"),
    ///     Ok(value) => assert!(value.is_some()),
    /// }
    /// # Ok::<(), alluvium::Error>(())
    /// ```
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

    /// Whether the same work may succeed if it is begun anew at once, with a new transaction or a new snapshot, and
    /// without any other change: true for `Conflict` and `SnapshotExpired`. Nothing of the work was done.
    ///
    /// `DiskFull` is not among them, because it stays until data is deleted or other files make space; `is_disk_full`
    /// tells, for programs that wait for that.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// // What `Db::transact` does, but for ever and without pauses.
    /// loop {
    ///     let transaction = db.transaction()?;
    ///     let visits = transaction.get("visits")?.map_or(0, |visits| visits[0]);
    ///     transaction.put("visits", [visits + 1])?;
    ///     match transaction.commit() {
    ///         Err(error) if error.is_retryable() => continue,
    ///         done => break done?,
    ///     }
    /// }
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::SnapshotExpired { .. })
    }

    /// Whether a file does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Turns the error of a missing file into a corruption: a file that the store needs is lost.
    #[must_use]
    pub fn of_missing_file(self) -> Self {
        match self {
            Self::Io { path, source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::corruption(&path, 0, "file", "a file that the store needs", "no file")
            }
            other => other,
        }
    }

    /// Whether the disk is full or the user's quota is used up.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// match db.put("river", "silt") {
    ///     Err(error) if error.is_disk_full() => db.delete("old river")?, // deletes make space
    ///     done => done?,
    /// }
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::DiskFull { .. } => true,
            _ => false,
        }
    }

    /// Why a store that got this error takes no more writes: the same reason through any number of calls.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::ReadOnly { reason } => reason.clone(),
            other => other.to_string(),
        }
    }

    /// Turns a disk-full error of the system into `DiskFull`. Other errors stay unchanged.
    pub(crate) fn into_disk_full(self) -> Self {
        match self {
            Self::DiskFull { .. } => self,
            full if full.is_disk_full() => Self::DiskFull { reason: full.to_string() },
            other => other,
        }
    }
}

/// What `asked` is where no merge operator was given and the store does not know the stored one. No operator has this name.
pub const NO_OPERATOR: &str = "";

/// What to do if a keyspace has another option than was asked for.
fn advice(what: &str) -> &'static str {
    match what {
        // It never changes.
        "merge operator" => "; leave the option out to take what is stored",
        _ => "; leave the option out to take what is stored, or change it with `Keyspace::set_options`",
    }
}

/// The command that checks all files of the kind of `path`. The files of a directory of backups have names that no file of a
/// store has: they end in a hash, or in `.backup`.
fn check_of(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let is_hash = extension.len() == 32 && extension.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_hash || extension == "backup" { "alluvium backup verify" } else { "alluvium verify" }
}

/// Most keyspaces that a message names.
const NAMED_MAX: usize = 10;

/// Which keyspaces there are.
fn there_are(existing: &[String]) -> String {
    if existing.is_empty() {
        return "the store has none but the default one".to_owned();
    }
    let named = existing[..existing.len().min(NAMED_MAX)].join(", ");
    match existing.len().saturating_sub(NAMED_MAX) {
        0 => format!("there are: default, {named}"),
        more => format!("there are: default, {named} and {more} more"),
    }
}

/// Why operands have no value.
fn not_merged(operator: &str) -> String {
    if operator.is_empty() {
        "have no merge operator".to_owned()
    } else {
        format!("cannot be merged by the operator {operator:?}")
    }
}

/// The part of a mismatch after the stored value: what was asked for, and what to do. An operator that the store does not
/// know must be given, so there the advice to leave the option out would be wrong.
fn instead(asked: &str, options: &str, advice: &str) -> String {
    if asked == NO_OPERATOR {
        format!("and no operator is given: pass the operator of this name with `{options}::merge_operator`")
    } else {
        format!("not {asked:?}{advice}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with its sources, as programs print it.
    fn chain(error: &dyn std::error::Error) -> String {
        let sources = std::iter::successors(Some(error), |error| error.source());
        sources.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }

    #[test]
    fn a_chain_of_sources_names_the_cause_once() {
        let cause = io::Error::from_raw_os_error(libc::EACCES);
        let text = format!("cannot read /store/LOG: {cause}");
        let error = Error::io("read", Path::new("/store/LOG"), cause);
        assert_eq!(error.to_string(), text);
        assert_eq!(chain(&error), text);
        // Errors of errors have it, too.
        let full = Error::io("write", Path::new("/store/LOG"), io::ErrorKind::StorageFull.into()).into_disk_full();
        assert_eq!(chain(&full).matches("cannot write /store/LOG: ").count(), 1);
    }

    /// Regression test: the advice was `alluvium verify`, which cannot check backups.
    #[test]
    fn damage_of_a_backup_names_the_check_of_backups() {
        let text = |path: &str| Error::corruption(Path::new(path), 0, "file length", 1, 2).to_string();
        for path in ["/backups/000001.backup", "/backups/000002.branch.00000000000000000000000000000abc"] {
            assert!(text(path).ends_with("; see `alluvium backup verify`"), "{path}");
        }
        for path in ["/store/MANIFEST", "/store/000002.branch", "/backups/BACKUPS", "/store.backup/000002.log"] {
            assert!(text(path).ends_with("; see `alluvium verify`"), "{path}");
        }
    }

    /// Regression test: the advice for an option that can be changed did not say so.
    #[test]
    fn an_option_that_differs_is_left_out_or_changed() {
        let text = |what| {
            let (keyspace, stored, asked) = ("users".to_owned(), "60s".to_owned(), "30s".to_owned());
            Error::KeyspaceMismatch { keyspace, what, stored, asked }.to_string()
        };
        assert!(text("expiry").ends_with("to take what is stored, or change it with `Keyspace::set_options`"));
        assert!(text("merge operator").ends_with("to take what is stored"));
    }

    #[test]
    fn an_error_names_the_keyspaces_that_there_are() {
        let text = |count: usize| {
            let existing = (0..count).map(|number| number.to_string()).collect();
            Error::NoKeyspace { keyspace: "users".to_owned(), existing }.to_string()
        };
        assert_eq!(text(0), "no keyspace \"users\"; the store has none but the default one");
        assert_eq!(text(2), "no keyspace \"users\"; there are: default, 0, 1");
        assert!(text(10).ends_with(", 8, 9"));
        assert!(text(13).ends_with(", 8, 9 and 3 more"));
    }

    #[test]
    fn an_error_of_operands_names_operator_and_key() {
        let text = |operator: &str| {
            let (operator, reason) = (operator.to_owned(), "pass it".to_owned());
            Error::MergeOperands { operator, key: b"a\xff".to_vec(), reason }.to_string()
        };
        let with_operator = "the operands of the key \"a\\xff\" cannot be merged by the operator \"words\": pass it";
        assert_eq!(text("words"), with_operator);
        assert_eq!(text(""), "the operands of the key \"a\\xff\" have no merge operator: pass it");
    }

    #[test]
    fn what_may_succeed_when_begun_anew_is_retryable() {
        let limit = std::time::Duration::from_secs(1);
        for error in [Error::Conflict { keyspace: String::new(), key: Vec::new() }, Error::SnapshotExpired { limit }] {
            assert!(error.is_retryable(), "{error}");
        }
        let io = Error::io("read", Path::new("file"), io::ErrorKind::Interrupted.into());
        let reason = String::new();
        for error in [io, Error::DiskFull { reason: reason.clone() }, Error::ReadOnly { reason }, Error::Closed] {
            assert!(!error.is_retryable(), "{error}");
        }
    }
}

//! Options and results of backups.

use crate::engine::types::compaction::Cancellation;
use crate::util::Error;
use std::time::Duration;

/// Options of `Db::backup_with`.
///
/// ```
/// use alluvium::BackupOptions;
/// // Reads the files that earlier backups have, too, and copies those again that are damaged there.
/// let options = BackupOptions::new().check_shared(true);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupOptions {
    /// Whether a file that an earlier backup has is read there and compared. If not, only its length is. A file that is missing
    /// or differs is copied again, which repairs the earlier backups.
    pub check_shared: bool,
    /// Cancels the backup from another thread.
    pub cancellation: Option<Cancellation>,
}

impl BackupOptions {
    /// The default options: only the lengths of shared files are compared.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the field `check_shared`.
    #[must_use]
    pub fn check_shared(self, check_shared: bool) -> Self {
        Self { check_shared, ..self }
    }

    /// Sets the field `cancellation`.
    #[must_use]
    pub fn cancellation(self, cancellation: impl Into<Option<Cancellation>>) -> Self {
        Self { cancellation: cancellation.into(), ..self }
    }
}

/// Result of `Db::backup`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupReport {
    /// The id of the backup in its directory.
    pub id: u64,
    /// The sequence number of the backup: it has every write up to this one, and none above.
    pub number: u64,
    /// Files that were copied.
    pub files_new: u64,
    /// Bytes of the files that were copied.
    pub bytes_new: u64,
    /// Files that earlier backups had.
    pub files_shared: u64,
    /// Bytes of the files that earlier backups had.
    pub bytes_shared: u64,
}

/// A backup in a directory, as `Backups::list` finds it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its id in the directory.
    pub id: u64,
    /// Its sequence number. 0 if the description is damaged, as all figures that follow.
    pub number: u64,
    /// When it was made, by the clock of the system: the time since 1970. `None` if that is unknown.
    pub time: Option<Duration>,
    /// Its files, also those that it shares with other backups.
    pub files: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Why its description cannot be read, if so. Such a backup can only be removed.
    pub damage: Option<Error>,
}

/// Result of `Backups::verify`.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupVerification {
    /// Files that were read.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// All damage that was found: each names a file.
    pub damage: Vec<Error>,
}

impl BackupVerification {
    /// Whether the backup is without damage.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Result of `Backups::restore`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The id of the backup.
    pub id: u64,
    /// The sequence number of the backup. What is written to the restored store gets numbers far above.
    pub number: u64,
    /// Files that were copied and verified.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Result of `Backups::remove` and `Backups::keep_newest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemoveReport {
    /// Backups that were removed.
    pub backups: u64,
    /// Files that no other backup needs, and leftovers of unfinished backups: they were removed, too.
    pub files: u64,
    /// Bytes of the files that were removed.
    pub bytes: u64,
}

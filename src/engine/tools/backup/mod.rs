//! Backups: a directory that holds the contents of a store at several moments, and shares between them the files that are the same
//! (`docs/recovery.md`, Backup; `docs/format/backup.md`).
//!
//! `create` makes one of an open store; `Backups` lists, verifies, restores and removes them, without the store. `directory` has the
//! names and the rules of what may be removed when.

mod backups;
mod create;
mod directory;
mod report;
mod restore;
mod whole_file;

pub use backups::Backups;
pub(crate) use create::backup;
pub use report::{BackupInfo, BackupOptions, BackupReport, BackupVerification, RemoveReport, RestoreReport};

//! Locks between openers: which processes may open a store, and what each opener may do to its files
//! (`docs/recovery.md`, Openers).
//!
//! The file `LOCK` holds three locks:
//!
//! | lock | exclusive | shared |
//! | --- | --- | --- |
//! | writer | by the writer, as long as it has the store open | never held, only tried, to find out whether there is a writer |
//! | files | by a writer while it removes files | by read-only openers, as long as they have the store open |
//! | opening | by a writer while it opens the store, and while it recycles log segments | by read-only openers while they open it |
//!
//! Invariants:
//! 1. A writer takes *opening* before *writer*. A read-only opener tries *writer* only while it holds *opening*. So the
//!    attempt never makes the opening of a writer fail.
//! 2. While a read-only opener holds *opening*, the files named by the manifest that it read exist, and the log holds
//!    every number above that manifest's incorporated number: no file is removed, and no segment is recycled.

use super::store_files::LOCK;
use crate::io::{Clock, LockGuard, LockMode, LockPart, Storage};
use crate::util::planted::planted;
use crate::util::{Error, Result};
use std::io::ErrorKind;
use std::time::Duration;

/// A held lock. Dropping it releases the lock.
pub(crate) type Guard = Box<dyn LockGuard>;

/// How long an opener waits for others. An opening takes seconds at most.
const WAIT_MAX: Duration = Duration::from_secs(30);
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// The locks of a writer.
pub(crate) struct WriterLocks {
    /// Held until the store is open.
    pub(crate) opening: Guard,
    /// Held until the store is closed.
    pub(crate) writer: Guard,
}

/// The locks of a read-only opener. Both are `None` on a read-only file system if the store has no lock file.
pub(crate) struct ReaderLocks {
    /// Held until the store is open.
    pub(crate) opening: Option<Guard>,
    /// Held until the store is closed.
    pub(crate) files: Option<Guard>,
}

/// Takes the writer's locks. Returns `AlreadyOpen` if another writer holds them.
pub(crate) fn for_writing(storage: &dyn Storage, clock: &dyn Clock) -> Result<WriterLocks> {
    let opening = wait(storage, clock, LockPart::Opening, LockMode::Exclusive)?;
    let mode = planted!(LockMode::Exclusive, Bug::WriterLockShared => LockMode::Shared);
    match storage.lock(LOCK, LockPart::Writer, mode)? {
        Some(writer) => Ok(WriterLocks { opening, writer }),
        None => Err(Error::AlreadyOpen { path: storage.path().to_path_buf() }),
    }
}

/// Takes all locks, so that no other opener has the store open. Returns `AlreadyOpen` if one has.
pub(crate) fn for_destroying(storage: &dyn Storage) -> Result<[Guard; 3]> {
    let WriterLocks { opening, writer } = for_writing(storage, &*storage.clock())?;
    match storage.lock(LOCK, LockPart::Files, LockMode::Exclusive)? {
        Some(files) => Ok([opening, writer, files]),
        None => Err(Error::AlreadyOpen { path: storage.path().to_path_buf() }),
    }
}

/// Takes the locks of a read-only opener.
pub(crate) fn for_reading(storage: &dyn Storage) -> Result<ReaderLocks> {
    let clock = storage.clock();
    let opening = match wait(storage, &*clock, LockPart::Opening, LockMode::Shared) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
            return Ok(ReaderLocks { opening: None, files: None });
        }
        opening => opening?,
    };
    let files = wait(storage, &*clock, LockPart::Files, LockMode::Shared)?;
    Ok(ReaderLocks { opening: Some(opening), files: Some(files) })
}

/// Whether a writer has the store open. Requires *opening* (invariant 1).
pub(crate) fn has_writer(storage: &dyn Storage) -> Result<bool> {
    match storage.lock(LOCK, LockPart::Writer, LockMode::Shared) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
        held => Ok(held?.is_none()),
    }
}

/// Takes *opening* if a writer has the store open; `None` if none has. While it is held, no other writer can open the
/// store.
pub(crate) fn opening_beside_writer(storage: &dyn Storage) -> Result<Option<Guard>> {
    let opening = match wait(storage, &*storage.clock(), LockPart::Opening, LockMode::Shared) {
        // A store without a lock file on a read-only file system.
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        opening => opening?,
    };
    Ok(has_writer(storage)?.then_some(opening))
}

/// Permission to remove files; `None` while a read-only opener has the store open. Does not wait.
pub(crate) fn to_remove(storage: &dyn Storage) -> Result<Option<Guard>> {
    storage.lock(LOCK, LockPart::Files, LockMode::Exclusive)
}

/// Permission to recycle log segments; `None` while a read-only opener is opening the store. Does not wait.
pub(crate) fn to_recycle(storage: &dyn Storage) -> Result<Option<Guard>> {
    storage.lock(LOCK, LockPart::Opening, LockMode::Exclusive)
}

/// Waits for a lock that is only held for a short time. Returns `Io` after `WAIT_MAX`.
fn wait(storage: &dyn Storage, clock: &dyn Clock, part: LockPart, mode: LockMode) -> Result<Guard> {
    let started = clock.now();
    loop {
        if let Some(guard) = storage.lock(LOCK, part, mode)? {
            return Ok(guard);
        }
        if clock.now().saturating_sub(started) > WAIT_MAX {
            let error =
                std::io::Error::new(ErrorKind::TimedOut, "another process has been opening the store for 30 seconds");
            return Err(Error::io("wait for the lock of", &storage.path_of(LOCK), error));
        }
        clock.sleep(RETRY_INTERVAL);
    }
}

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
//! Besides, the writer locks the directory itself. *Otherwise:* once `LOCK` was removed, a second writer created
//! another one, locked it, and removed files that the first still used.
//!
//! Invariants:
//! 1. A writer takes *opening* before *writer*. A read-only opener tries *writer* only while it holds *opening*. So the
//!    attempt never makes the opening of a writer fail.
//! 2. While a read-only opener holds *opening*, the files named by the manifest that it read exist, and the log holds
//!    every number above that manifest's incorporated number: no file is removed, and no segment is recycled.
//! 3. A writer acknowledges no sync, makes no edit and removes no file once `WriterLock::check` has failed: what others
//!    take in a new lock file does not exclude this writer.

use super::store_files::LOCK;
use crate::io::{Clock, LockGuard, LockMode, LockPart, Storage};
use crate::util::planted::planted;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, Result};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

/// A held lock. Dropping it releases the lock.
pub(crate) type Guard = Box<dyn LockGuard>;

/// How long an opener waits for others. An opening takes seconds at most.
const WAIT_MAX: Duration = Duration::from_secs(30);
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// How long a writer waits for the lock of the directory after it got the one in `LOCK`. Other programs (`flock`, a
/// cleaner of temporary files) may hold it for a moment.
const DIRECTORY_WAIT_MAX: Duration = Duration::from_secs(1);

/// The lock of the one writer, held until this is dropped.
pub(crate) struct WriterLock(Arc<LockCheck>);

/// Compares the writer's lock file with the file that has its name now. Any thread.
pub(crate) struct LockCheck {
    path: PathBuf,
    /// `None` once the lock is released. Its parts are released in the order of the fields: whoever then gets the one
    /// in `LOCK` finds the directory free.
    held: Mutex<Option<HeldLock>>,
}

struct HeldLock {
    _directory: Guard,
    writer: Guard,
}

impl WriterLock {
    fn new(storage: &dyn Storage, held: HeldLock) -> Self {
        Self(Arc::new(LockCheck { path: storage.path_of(LOCK), held: Mutex::new(Some(held)) }))
    }

    /// The check, for those who write to the store.
    pub(crate) fn checker(&self) -> Arc<LockCheck> {
        Arc::clone(&self.0)
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        self.0.held.lock().take();
    }
}

impl LockCheck {
    /// An error if `LOCK` is not the file any more that this writer has locked. `Ok` after the lock was released.
    pub(crate) fn check(&self) -> Result<()> {
        let held = self.held.lock();
        let Some(held) = &*held else { return Ok(()) };
        if held.writer.is_in_place()? {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::ReadOnly {
            reason: format!(
                "{path}: expected the lock file of this open store, found that it was removed or replaced; nothing more \
                 is written here, since others may use the directory now"
            ),
        })
    }
}

/// The locks of a writer.
pub(crate) struct WriterLocks {
    /// Held until the store is open.
    pub(crate) opening: Guard,
    /// Held until the store is closed.
    pub(crate) writer: WriterLock,
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
    let already_open = || Error::AlreadyOpen { path: storage.path().to_path_buf() };
    let writer = storage.lock(LOCK, LockPart::Writer, mode)?.ok_or_else(already_open)?;
    let directory = wait_for_directory(storage, clock)?.ok_or_else(already_open)?;
    // From here on the storage stays in this directory. `LOCK` must be in it, too.
    if !(opening.is_in_place()? && writer.is_in_place()?) {
        return Err(already_open());
    }
    let writer = WriterLock::new(storage, HeldLock { _directory: directory, writer });
    Ok(WriterLocks { opening, writer })
}

/// The lock of the directory; `None` if another holder keeps it.
fn wait_for_directory(storage: &dyn Storage, clock: &dyn Clock) -> Result<Option<Guard>> {
    let started = clock.now();
    loop {
        let guard = planted!(storage.lock_directory()?, Bug::WriterLockShared => storage.lock(LOCK, LockPart::Writer, LockMode::Shared)?);
        if guard.is_some() || clock.now().saturating_sub(started) > DIRECTORY_WAIT_MAX {
            return Ok(guard);
        }
        clock.sleep(RETRY_INTERVAL);
    }
}

/// Takes all locks, so that no other opener has the store open. Returns `AlreadyOpen` if one has.
pub(crate) fn for_destroying(storage: &dyn Storage) -> Result<(WriterLock, [Guard; 2])> {
    let WriterLocks { opening, writer } = for_writing(storage, &*storage.clock())?;
    match storage.lock(LOCK, LockPart::Files, LockMode::Exclusive)? {
        Some(files) => Ok((writer, [opening, files])),
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
            let error = std::io::Error::new(
                ErrorKind::TimedOut,
                "another process has been opening, repairing or converting the store for 30 seconds",
            );
            return Err(Error::io("wait for the lock of", &storage.path_of(LOCK), error));
        }
        clock.sleep(RETRY_INTERVAL);
    }
}

//! Who may have a store open, and what each may do to its files meanwhile (`docs/recovery.md`, Openers).
//!
//! The three locks lie in the file `LOCK`:
//!
//! | lock | alone | shared |
//! | --- | --- | --- |
//! | writer | the one writer, as long as it lives | never held, only asked for: is there a writer? |
//! | files | a writer, while it removes files | read-only openers, as long as they live |
//! | opening | a writer, while it opens, and while it recycles log segments | read-only openers, while they open |
//!
//! Invariants:
//! 1. A writer takes *opening* before *writer*, and a read-only opener asks for *writer* only while it has *opening*; so the
//!    asking never makes a writer's opening fail.
//! 2. While a read-only opener has *opening*, the manifest that it read files every file that it needs, and the log holds every
//!    number above what that manifest says is incorporated: no file is removed, no segment recycled.

use super::store_files::LOCK;
use crate::io::{Clock, LockGuard, LockMode, LockPart, Storage};
use crate::util::planted::{self, Bug};
use crate::util::{Error, Result};
use std::io::ErrorKind;
use std::time::Duration;

/// A lock, held.
pub(crate) type Guard = Box<dyn LockGuard>;

/// An opening takes seconds at most.
const WAIT_MAX: Duration = Duration::from_secs(30);
const BETWEEN_TRIES: Duration = Duration::from_millis(1);

/// What a writer holds.
pub(crate) struct WriterLocks {
    /// For the length of the opening.
    pub(crate) opening: Guard,
    /// For life.
    pub(crate) writer: Guard,
}

/// What a read-only opener holds. Nothing on a read-only file system whose store has no lock file.
pub(crate) struct ReaderLocks {
    /// For the length of the opening.
    pub(crate) opening: Option<Guard>,
    /// For life.
    pub(crate) files: Option<Guard>,
}

/// Takes the writer's locks; `AlreadyOpen` where another writer has them.
pub(crate) fn for_writing(storage: &dyn Storage, clock: &dyn Clock) -> Result<WriterLocks> {
    let opening = wait(storage, clock, LockPart::Opening, LockMode::Exclusive)?;
    let mode = if planted::is(Bug::WriterLockShared) { LockMode::Shared } else { LockMode::Exclusive };
    match storage.lock(LOCK, LockPart::Writer, mode)? {
        Some(writer) => Ok(WriterLocks { opening, writer }),
        None => Err(Error::AlreadyOpen { path: storage.path().to_path_buf() }),
    }
}

/// Takes every lock, so that nobody else has the store open in any way.
pub(crate) fn for_destroying(storage: &dyn Storage) -> Result<[Guard; 3]> {
    let WriterLocks { opening, writer } = for_writing(storage, &*storage.clock())?;
    match storage.lock(LOCK, LockPart::Files, LockMode::Exclusive)? {
        Some(files) => Ok([opening, writer, files]),
        None => Err(Error::AlreadyOpen { path: storage.path().to_path_buf() }),
    }
}

/// Takes a read-only opener's locks.
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
pub(crate) fn writer_lives(storage: &dyn Storage) -> Result<bool> {
    match storage.lock(LOCK, LockPart::Writer, LockMode::Shared) {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
        held => Ok(held?.is_none()),
    }
}

/// *Opening*, where a writer has the store open; `None` where none has. As long as it is held, no other writer comes.
pub(crate) fn beside_writer(storage: &dyn Storage) -> Result<Option<Guard>> {
    let opening = match wait(storage, &*storage.clock(), LockPart::Opening, LockMode::Shared) {
        // A read-only file system, and a store without a lock file.
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        opening => opening?,
    };
    Ok(writer_lives(storage)?.then_some(opening))
}

/// The right to remove files, where no read-only opener has the store open. Does not wait.
pub(crate) fn to_remove(storage: &dyn Storage) -> Result<Option<Guard>> {
    storage.lock(LOCK, LockPart::Files, LockMode::Exclusive)
}

/// The right to recycle the log, where no read-only opener is opening. Does not wait.
pub(crate) fn to_recycle(storage: &dyn Storage) -> Result<Option<Guard>> {
    storage.lock(LOCK, LockPart::Opening, LockMode::Exclusive)
}

/// Waits for a lock that others hold only for a while.
fn wait(storage: &dyn Storage, clock: &dyn Clock, part: LockPart, mode: LockMode) -> Result<Guard> {
    let started = clock.now();
    loop {
        if let Some(guard) = storage.lock(LOCK, part, mode)? {
            return Ok(guard);
        }
        if clock.now().saturating_sub(started) > WAIT_MAX {
            let error = std::io::Error::new(ErrorKind::TimedOut, "another process has been opening it for 30 seconds");
            return Err(Error::io("wait for the lock of", &storage.path_of(LOCK), error));
        }
        clock.sleep(BETWEEN_TRIES);
    }
}

//! Iterators. Each is used by one thread at a time.

use crate::boundary::{self, ErrorPointer};
use crate::bytes::{Lent, Out};
use crate::database::{Database, Lease};
use crate::handle::{Handle, Object, object};
use crate::misuse::Misuse;
use crate::read_options::ReadOptions;
use crate::status::Status;
use crate::store::Cursor;
use alluvium::Error;
use libc::c_char;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// A position in a snapshot of a database.
pub struct IteratorState {
    cursor: Option<Cursor>,
    /// The error of the last move.
    error: Option<Status>,
    _lease: Lease,
}

object!(IteratorState, "leveldb_iterator_t", Exclusive, Entry);

/// The entry at which the iterator is positioned. It can be read without locking the iterator, because a scan reads it
/// three times per entry. The thread that moves the iterator writes it. The same thread reads it, or one to which the
/// iterator was handed over with synchronization, so relaxed access suffices.
#[derive(Default)]
pub struct Entry {
    /// One of the constants below; 0 if the iterator has not moved yet.
    place: AtomicU8,
    key: Part,
    value: Part,
}

/// The iterator is not positioned on an entry.
const UNPOSITIONED: u8 = 0;
/// The iterator is positioned on an entry.
const POSITIONED: u8 = 1;
/// The iterator was destroyed.
const ENDED: u8 = 2;

/// Bytes inside the iterator.
#[derive(Default)]
struct Part {
    pointer: AtomicPtr<c_char>,
    length: AtomicUsize,
}

impl Part {
    fn show(&self, bytes: &[u8]) {
        self.pointer.store(bytes.as_ptr().cast_mut().cast(), Ordering::Relaxed);
        self.length.store(bytes.len(), Ordering::Relaxed);
    }
}

impl Entry {
    /// Publishes the entry of a cursor.
    fn show(&self, cursor: Option<&Cursor>) {
        if let Some((key, value)) = cursor.and_then(Cursor::pair) {
            self.key.show(key);
            self.value.show(value);
            self.place.store(POSITIONED, Ordering::Relaxed);
        } else {
            self.place.store(UNPOSITIONED, Ordering::Relaxed);
        }
    }

    /// Whether the iterator is positioned on an entry.
    fn is_positioned(&self) -> Result<bool, Misuse> {
        match self.place.load(Ordering::Relaxed) {
            ENDED => Err(Misuse::Ended(IteratorState::NAME)),
            place => Ok(place == POSITIONED),
        }
    }
}

impl IteratorState {
    /// Moves the cursor. After an error the iterator is unpositioned and keeps the error.
    fn go(&mut self, entry: &Entry, go: impl FnOnce(&mut Cursor) -> Result<(), Error>) {
        let Some(cursor) = &mut self.cursor else { return };
        // If the move panics, the entry is gone, and a scan must not mistake that for its end.
        entry.place.store(UNPOSITIONED, Ordering::Relaxed);
        self.error = Some(Status::Bug("moving the iterator panicked".into()));
        self.error = go(cursor).err().map(Status::Store);
        entry.show(self.cursor.as_ref().filter(|_| self.error.is_none()));
    }
}

/// Creates an iterator over a whole database, at the snapshot of the options or at the current state. It is
/// unpositioned until a seek. If it cannot be created, `leveldb_iter_get_error` returns the error.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_iterator(db: Handle<Database>, options: Handle<ReadOptions>) -> Handle<IteratorState> {
    boundary::infallible("leveldb_create_iterator", Handle::NULL, || {
        let database = db.get()?;
        let made = database.moment(&*options.get()?).and_then(|moment| {
            let moment = moment.unwrap_or_else(|| database.store.snapshot());
            database.store.cursor(&moment)
        });
        let (cursor, error) = match made {
            Ok(cursor) => (Some(cursor), None),
            Err(error) => (None, Some(error)),
        };
        let handle = Handle::new(IteratorState { cursor, error, _lease: database.lease_iterator() });
        handle.published()?.show(None);
        Ok(handle)
    })
}

/// Destroys an iterator, also after its database was closed.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_destroy(iterator: Handle<IteratorState>) {
    boundary::infallible("leveldb_iter_destroy", (), || {
        let state = iterator.take()?;
        iterator.published()?.place.store(ENDED, Ordering::Relaxed);
        drop(state);
        Ok(())
    });
}

/// Whether the iterator is positioned on an entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_valid(iterator: Handle<IteratorState>) -> u8 {
    boundary::infallible("leveldb_iter_valid", 0, || Ok(iterator.published()?.is_positioned()?.into()))
}

fn seek(function: &str, iterator: Handle<IteratorState>, seek: impl FnOnce(&mut Cursor) -> Result<(), Error>) {
    boundary::infallible(function, (), || {
        let entry = iterator.published()?;
        Ok(iterator.change(|iterator| iterator.go(entry, seek))?)
    });
}

/// Moves to the first entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_first(iterator: Handle<IteratorState>) {
    seek("leveldb_iter_seek_to_first", iterator, Cursor::seek_first);
}

/// Moves to the last entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_last(iterator: Handle<IteratorState>) {
    seek("leveldb_iter_seek_to_last", iterator, Cursor::seek_last);
}

/// Moves to the first entry whose key is at or after `key`.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek(iterator: Handle<IteratorState>, key: Lent, key_length: usize) {
    boundary::infallible("leveldb_iter_seek", (), || {
        // A copy: the caller's key may lie in the iterator itself, which is about to move.
        let (entry, key) = (iterator.published()?, key.bytes(key_length, "the key")?.to_vec());
        Ok(iterator.change(|iterator| iterator.go(entry, |cursor| cursor.seek(&key)))?)
    });
}

fn step(function: &str, iterator: Handle<IteratorState>, step: impl FnOnce(&mut Cursor) -> Result<(), Error>) {
    boundary::infallible(function, (), || {
        let entry = iterator.published()?;
        if !entry.is_positioned()? {
            return Err(Misuse::NoEntry.into());
        }
        Ok(iterator.change(|iterator| iterator.go(entry, step))?)
    });
}

/// Moves to the next entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_next(iterator: Handle<IteratorState>) {
    step("leveldb_iter_next", iterator, Cursor::step);
}

/// Moves to the previous entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_prev(iterator: Handle<IteratorState>) {
    step("leveldb_iter_prev", iterator, Cursor::step_back);
}

/// Returns the pointer and the length of a part of the entry. Both are valid until the iterator moves or is destroyed.
fn part(
    function: &str,
    iterator: Handle<IteratorState>,
    length: &Out<usize>,
    part: impl FnOnce(&Entry) -> &Part,
) -> *const c_char {
    boundary::infallible(function, ptr::null(), || {
        length.set(0)?;
        let entry = iterator.published()?;
        if !entry.is_positioned()? {
            return Err(Misuse::NoEntry.into());
        }
        let part = part(entry);
        length.set(part.length.load(Ordering::Relaxed))?;
        Ok(part.pointer.load(Ordering::Relaxed).cast_const())
    })
}

/// Returns the key of the entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_key(iterator: Handle<IteratorState>, length: Out<usize>) -> *const c_char {
    part("leveldb_iter_key", iterator, &length, |entry| &entry.key)
}

/// Returns the value of the entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_value(iterator: Handle<IteratorState>, length: Out<usize>) -> *const c_char {
    part("leveldb_iter_value", iterator, &length, |entry| &entry.value)
}

/// Returns the error of the last move, if any.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_get_error(iterator: Handle<IteratorState>, error: ErrorPointer) {
    boundary::fallible("leveldb_iter_get_error", error, (), || {
        iterator.look(|iterator| iterator.error.clone().map_or(Ok(()), Err))?
    });
}

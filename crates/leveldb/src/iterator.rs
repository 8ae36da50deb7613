//! Iterators. Each belongs to one thread at a time.

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

/// A position in a database at a moment.
pub struct IteratorState {
    cursor: Option<Cursor>,
    /// The error of the last move.
    error: Option<Status>,
    _lease: Lease,
}

object!(IteratorState, "leveldb_iterator_t", Exclusive, Entry);

/// What the iterator stands on, so that who asks for it need not hold the iterator: a scan asks three times an entry. Written by who moves
/// the iterator, and read by the same thread, or behind whatever hands the iterator over; so relaxed is enough.
#[derive(Default)]
pub struct Entry {
    /// One of the constants below; 0 where the iterator has not moved yet.
    place: AtomicU8,
    key: Part,
    value: Part,
}

/// The iterator stands on no entry.
const NOWHERE: u8 = 0;
/// It stands on one.
const THERE: u8 = 1;
/// It has ended.
const ENDED: u8 = 2;

/// Bytes that lie in the iterator.
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
    /// Shows what a cursor stands on.
    fn show(&self, cursor: Option<&Cursor>) {
        if let Some(cursor) = cursor.filter(|cursor| cursor.valid()) {
            self.key.show(cursor.key());
            self.value.show(cursor.value());
            self.place.store(THERE, Ordering::Relaxed);
        } else {
            self.place.store(NOWHERE, Ordering::Relaxed);
        }
    }

    /// Whether the iterator stands on an entry.
    fn is_there(&self) -> Result<bool, Misuse> {
        match self.place.load(Ordering::Relaxed) {
            ENDED => Err(Misuse::Ended(IteratorState::NAME)),
            place => Ok(place == THERE),
        }
    }
}

impl IteratorState {
    /// Moves; where that fails, the iterator stands nowhere and keeps the error.
    fn go(&mut self, entry: &Entry, go: impl FnOnce(&mut Cursor) -> Result<(), Error>) {
        let Some(cursor) = &mut self.cursor else { return };
        // Where the move panics, nothing is left of the entry, and a scan must not take that for its end.
        entry.place.store(NOWHERE, Ordering::Relaxed);
        self.error = Some(Status::Bug("a move of the iterator panicked".into()));
        self.error = go(cursor).err().map(Status::Store);
        entry.show(self.cursor.as_ref().filter(|_| self.error.is_none()));
    }
}

/// Makes an iterator over all of a database, at the snapshot of the options or at this moment. It stands nowhere until a seek. Where it
/// cannot be made, `leveldb_iter_get_error` tells why.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_iterator(db: Handle<Database>, options: Handle<ReadOptions>) -> Handle<IteratorState> {
    boundary::infallible("leveldb_create_iterator", Handle::NULL, || {
        let database = db.get()?;
        let made = database.moment(&*options.get()?).and_then(|moment| {
            let moment = moment.map_or_else(|| database.store.snapshot(), Ok)?;
            database.store.cursor(&moment)
        });
        let (cursor, error) = match made {
            Ok(cursor) => (Some(cursor), None),
            Err(error) => (None, Some(error)),
        };
        let handle = Handle::new(IteratorState { cursor, error, _lease: database.lease_iterator() });
        handle.face()?.show(None);
        Ok(handle)
    })
}

/// Ends an iterator; also one whose database was closed.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_destroy(iterator: Handle<IteratorState>) {
    boundary::infallible("leveldb_iter_destroy", (), || {
        let state = iterator.take()?;
        iterator.face()?.place.store(ENDED, Ordering::Relaxed);
        drop(state);
        Ok(())
    });
}

/// Whether the iterator stands on an entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_valid(iterator: Handle<IteratorState>) -> u8 {
    boundary::infallible("leveldb_iter_valid", 0, || Ok(iterator.face()?.is_there()?.into()))
}

fn seek(function: &str, iterator: Handle<IteratorState>, seek: impl FnOnce(&mut Cursor) -> Result<(), Error>) {
    boundary::infallible(function, (), || {
        let entry = iterator.face()?;
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

/// Moves to the first entry at a key or behind it.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek(iterator: Handle<IteratorState>, key: Lent, key_length: usize) {
    boundary::infallible("leveldb_iter_seek", (), || {
        // A copy: the caller's key may lie in the iterator itself, out of which it is moved.
        let (entry, key) = (iterator.face()?, key.bytes(key_length, "the key")?.to_vec());
        Ok(iterator.change(|iterator| iterator.go(entry, |cursor| cursor.seek(&key)))?)
    });
}

fn step(function: &str, iterator: Handle<IteratorState>, step: impl FnOnce(&mut Cursor) -> Result<(), Error>) {
    boundary::infallible(function, (), || {
        let entry = iterator.face()?;
        if !entry.is_there()? {
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

/// Moves to the entry before.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_prev(iterator: Handle<IteratorState>) {
    step("leveldb_iter_prev", iterator, Cursor::step_back);
}

/// The pointer and the length of a part of the entry; both stay good until the iterator moves or ends.
fn part(
    function: &str,
    iterator: Handle<IteratorState>,
    length: &Out<usize>,
    part: impl FnOnce(&Entry) -> &Part,
) -> *const c_char {
    boundary::infallible(function, ptr::null(), || {
        length.set(0)?;
        let entry = iterator.face()?;
        if !entry.is_there()? {
            return Err(Misuse::NoEntry.into());
        }
        let part = part(entry);
        length.set(part.length.load(Ordering::Relaxed))?;
        Ok(part.pointer.load(Ordering::Relaxed).cast_const())
    })
}

/// The key of the entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_key(iterator: Handle<IteratorState>, length: Out<usize>) -> *const c_char {
    part("leveldb_iter_key", iterator, &length, |entry| &entry.key)
}

/// The value of the entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_value(iterator: Handle<IteratorState>, length: Out<usize>) -> *const c_char {
    part("leveldb_iter_value", iterator, &length, |entry| &entry.value)
}

/// Tells of an error that the iterator has met.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_get_error(iterator: Handle<IteratorState>, error: ErrorPointer) {
    boundary::fallible("leveldb_iter_get_error", error, (), || {
        iterator.look(|iterator| iterator.error.clone().map_or(Ok(()), Err))?
    });
}

//! Iterators. Each belongs to one thread at a time.

use crate::boundary::{self, ErrorPointer};
use crate::bytes::{Lent, Out};
use crate::database::{Database, Lease};
use crate::handle::{Handle, object};
use crate::misuse::Misuse;
use crate::read_options::ReadOptions;
use crate::status::Status;
use crate::store::Cursor;
use alluvium::Error;
use libc::c_char;
use std::ptr;

/// A position in a database at a moment.
pub struct IteratorState {
    cursor: Option<Cursor>,
    /// The first error since the last seek.
    error: Option<Status>,
    _lease: Option<Lease>,
}

object!(IteratorState, "leveldb_iterator_t", Exclusive);

impl IteratorState {
    fn valid(&self) -> bool {
        self.error.is_none() && self.cursor.as_ref().is_some_and(Cursor::valid)
    }

    /// Moves; where that fails, the iterator stands nowhere and keeps the error.
    fn go(&mut self, go: impl FnOnce(&mut Cursor) -> Result<(), Error>) {
        if let Some(cursor) = &mut self.cursor {
            self.error = go(cursor).err().map(Status::Store);
        }
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
        Ok(Handle::new(IteratorState { cursor, error, _lease: Some(database.lease_iterator()) }))
    })
}

/// Ends an iterator; also one whose database was closed.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_destroy(iterator: Handle<IteratorState>) {
    boundary::infallible("leveldb_iter_destroy", (), || Ok(iterator.take().map(drop)?));
}

/// Whether the iterator stands on an entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_valid(iterator: Handle<IteratorState>) -> u8 {
    boundary::infallible("leveldb_iter_valid", 0, || Ok(iterator.look(|iterator| u8::from(iterator.valid()))?))
}

/// Moves to the first entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_first(iterator: Handle<IteratorState>) {
    boundary::infallible("leveldb_iter_seek_to_first", (), || {
        Ok(iterator.change(|iterator| iterator.go(Cursor::seek_first))?)
    });
}

/// Moves to the last entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek_to_last(iterator: Handle<IteratorState>) {
    boundary::infallible("leveldb_iter_seek_to_last", (), || {
        Ok(iterator.change(|iterator| iterator.go(Cursor::seek_last))?)
    });
}

/// Moves to the first entry at a key or behind it.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_seek(iterator: Handle<IteratorState>, key: Lent, key_length: usize) {
    boundary::infallible("leveldb_iter_seek", (), || {
        let key = key.bytes(key_length, "the key")?;
        Ok(iterator.change(|iterator| iterator.go(|cursor| cursor.seek(key)))?)
    });
}

fn step(function: &str, iterator: Handle<IteratorState>, step: impl FnOnce(&mut Cursor) -> Result<(), Error>) {
    boundary::infallible(function, (), || {
        let stepped = iterator.change(|iterator| {
            let valid = iterator.valid();
            if valid {
                iterator.go(step);
            }
            valid
        })?;
        if stepped { Ok(()) } else { Err(Misuse::NoEntry.into()) }
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
    part: impl FnOnce(&Cursor) -> &[u8],
) -> *const c_char {
    boundary::infallible(function, ptr::null(), || {
        length.set(0)?;
        let found = iterator.look(|iterator| {
            let cursor = iterator.cursor.as_ref().filter(|_| iterator.valid())?;
            let bytes = part(cursor);
            Some((bytes.as_ptr(), bytes.len()))
        })?;
        let (pointer, bytes) = found.ok_or(Misuse::NoEntry)?;
        length.set(bytes)?;
        Ok(pointer.cast())
    })
}

/// The key of the entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_key(iterator: Handle<IteratorState>, length: Out<usize>) -> *const c_char {
    part("leveldb_iter_key", iterator, &length, Cursor::key)
}

/// The value of the entry.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_value(iterator: Handle<IteratorState>, length: Out<usize>) -> *const c_char {
    part("leveldb_iter_value", iterator, &length, Cursor::value)
}

/// Tells of an error that the iterator has met.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_iter_get_error(iterator: Handle<IteratorState>, error: ErrorPointer) {
    boundary::fallible("leveldb_iter_get_error", error, (), || {
        iterator.look(|iterator| iterator.error.clone().map_or(Ok(()), Err))?
    });
}

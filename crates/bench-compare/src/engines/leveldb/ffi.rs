//! The part of LevelDB's C interface (`leveldb/c.h`, version 1.23) that the comparison needs: the declarations, and one safe
//! owner for each kind of object. Written against the header's description; nothing is generated.
//!
//! 1. Every pointer in an owner is valid from its creation to its drop, and is freed once, by the drop. Cache and filter
//!    of a store with default options are null.
//! 2. `Store` frees its options, cache and filter only after the database is closed.
//! 3. LevelDB locks inside: a `Store` may be used by many threads at once; an `Iterator` belongs to one.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::ptr::{self, NonNull};

/// Declares the opaque types of the header.
macro_rules! opaque {
    ($($name:ident),*) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* };
}
opaque!(RawDb, RawOptions, RawReadOptions, RawWriteOptions, RawBatch, RawIterator, RawCache, RawFilter);

#[link(name = "leveldb")]
unsafe extern "C" {
    fn leveldb_open(options: *const RawOptions, name: *const c_char, error: *mut *mut c_char) -> *mut RawDb;
    fn leveldb_close(db: *mut RawDb);
    fn leveldb_put(
        db: *mut RawDb,
        options: *const RawWriteOptions,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_delete(
        db: *mut RawDb,
        options: *const RawWriteOptions,
        key: *const c_char,
        key_length: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_write(db: *mut RawDb, options: *const RawWriteOptions, batch: *mut RawBatch, error: *mut *mut c_char);
    fn leveldb_get(
        db: *mut RawDb,
        options: *const RawReadOptions,
        key: *const c_char,
        key_length: usize,
        value_length: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;
    fn leveldb_property_value(db: *mut RawDb, name: *const c_char) -> *mut c_char;
    fn leveldb_compact_range(
        db: *mut RawDb,
        start: *const c_char,
        start_length: usize,
        limit: *const c_char,
        limit_length: usize,
    );
    fn leveldb_create_iterator(db: *mut RawDb, options: *const RawReadOptions) -> *mut RawIterator;
    fn leveldb_iter_destroy(iterator: *mut RawIterator);
    fn leveldb_iter_valid(iterator: *const RawIterator) -> c_uchar;
    fn leveldb_iter_seek_to_first(iterator: *mut RawIterator);
    fn leveldb_iter_seek_to_last(iterator: *mut RawIterator);
    fn leveldb_iter_seek(iterator: *mut RawIterator, key: *const c_char, key_length: usize);
    fn leveldb_iter_next(iterator: *mut RawIterator);
    fn leveldb_iter_prev(iterator: *mut RawIterator);
    fn leveldb_iter_key(iterator: *const RawIterator, length: *mut usize) -> *const c_char;
    fn leveldb_iter_value(iterator: *const RawIterator, length: *mut usize) -> *const c_char;
    fn leveldb_iter_get_error(iterator: *const RawIterator, error: *mut *mut c_char);
    fn leveldb_writebatch_create() -> *mut RawBatch;
    fn leveldb_writebatch_destroy(batch: *mut RawBatch);
    fn leveldb_writebatch_put(
        batch: *mut RawBatch,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
    );
    fn leveldb_options_create() -> *mut RawOptions;
    fn leveldb_options_destroy(options: *mut RawOptions);
    fn leveldb_options_set_create_if_missing(options: *mut RawOptions, value: c_uchar);
    fn leveldb_options_set_write_buffer_size(options: *mut RawOptions, bytes: usize);
    fn leveldb_options_set_max_open_files(options: *mut RawOptions, files: c_int);
    fn leveldb_options_set_compression(options: *mut RawOptions, kind: c_int);
    fn leveldb_options_set_cache(options: *mut RawOptions, cache: *mut RawCache);
    fn leveldb_options_set_filter_policy(options: *mut RawOptions, filter: *mut RawFilter);
    fn leveldb_cache_create_lru(bytes: usize) -> *mut RawCache;
    fn leveldb_cache_destroy(cache: *mut RawCache);
    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut RawFilter;
    fn leveldb_filterpolicy_destroy(filter: *mut RawFilter);
    fn leveldb_readoptions_create() -> *mut RawReadOptions;
    fn leveldb_readoptions_destroy(options: *mut RawReadOptions);
    fn leveldb_writeoptions_create() -> *mut RawWriteOptions;
    fn leveldb_writeoptions_destroy(options: *mut RawWriteOptions);
    fn leveldb_writeoptions_set_sync(options: *mut RawWriteOptions, sync: c_uchar);
    fn leveldb_free(pointer: *mut c_void);
    fn leveldb_major_version() -> c_int;
    fn leveldb_minor_version() -> c_int;
}

const NO_COMPRESSION: c_int = 0;

/// How a store is opened.
pub struct Config<'a> {
    pub directory: &'a CStr,
    /// `None` for its defaults.
    pub tuning: Option<Tuning>,
    pub sync: bool,
}

/// Options that differ from the defaults. Compression is off, too.
#[derive(Clone, Copy)]
pub struct Tuning {
    pub write_buffer_bytes: usize,
    pub cache_bytes: usize,
    pub bloom_bits: c_int,
    pub open_files: c_int,
}

/// An open database with all that it was given.
pub struct Store {
    db: NonNull<RawDb>,
    options: *mut RawOptions,
    cache: *mut RawCache,
    filter: *mut RawFilter,
    read: *mut RawReadOptions,
    write: *mut RawWriteOptions,
}

// SAFETY: LevelDB's database locks inside, and the options are not changed after opening (invariant 3).
unsafe impl Send for Store {}
// SAFETY: as above.
unsafe impl Sync for Store {}

/// The version of the linked library.
pub fn version() -> (i32, i32) {
    // SAFETY: both functions only return constants.
    unsafe { (leveldb_major_version(), leveldb_minor_version()) }
}

/// Converts the error that a call left into ours, and frees it.
fn check(error: *mut c_char) -> Result<(), String> {
    match take_text(error) {
        None => Ok(()),
        Some(text) => Err(format!("leveldb: {text}")),
    }
}

/// Copies a string that LevelDB allocated, and frees it; `None` for null.
fn take_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: LevelDB returns terminated strings of its own allocation, which the caller owns and frees once.
    let copied = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    // SAFETY: as above; the copy was made.
    unsafe { leveldb_free(text.cast()) };
    Some(copied)
}

impl Store {
    /// Opens or creates a database.
    pub fn open(config: &Config<'_>) -> Result<Self, String> {
        let mut error = ptr::null_mut();
        // SAFETY: every object is made by LevelDB just before it is used, and freed below or by the drop; the name is a
        // terminated string that outlives the call; `error` is a valid place for a pointer.
        unsafe {
            let options = leveldb_options_create();
            leveldb_options_set_create_if_missing(options, 1);
            let (mut cache, mut filter) = (ptr::null_mut(), ptr::null_mut());
            if let Some(tuning) = config.tuning {
                cache = leveldb_cache_create_lru(tuning.cache_bytes);
                filter = leveldb_filterpolicy_create_bloom(tuning.bloom_bits);
                leveldb_options_set_write_buffer_size(options, tuning.write_buffer_bytes);
                leveldb_options_set_max_open_files(options, tuning.open_files);
                leveldb_options_set_compression(options, NO_COMPRESSION);
                leveldb_options_set_cache(options, cache);
                leveldb_options_set_filter_policy(options, filter);
            }
            let read = leveldb_readoptions_create();
            let write = leveldb_writeoptions_create();
            leveldb_writeoptions_set_sync(write, config.sync.into());
            let db = leveldb_open(options, config.directory.as_ptr(), &mut error);
            let opened = check(error);
            match NonNull::new(db) {
                Some(db) if opened.is_ok() => Ok(Self { db, options, cache, filter, read, write }),
                _ => {
                    free_parts(options, cache, filter, read, write);
                    Err(opened.err().unwrap_or_else(|| "leveldb: no store and no error was returned".to_owned()))
                }
            }
        }
    }

    /// Sets a key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let mut error = ptr::null_mut();
        // SAFETY: the database and options live as long as `self`; LevelDB copies key and value before it returns.
        unsafe {
            leveldb_put(
                self.db.as_ptr(),
                self.write,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        check(error)
    }

    /// Sets several keys at once.
    pub fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<(), String> {
        let mut error = ptr::null_mut();
        // SAFETY: the batch is made, used and freed here; it copies keys and values; the database lives as long as `self`.
        unsafe {
            let batch = leveldb_writebatch_create();
            for (key, value) in pairs {
                leveldb_writebatch_put(batch, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len());
            }
            leveldb_write(self.db.as_ptr(), self.write, batch, &mut error);
            leveldb_writebatch_destroy(batch);
        }
        check(error)
    }

    /// Removes a key.
    pub fn delete(&self, key: &[u8]) -> Result<(), String> {
        let mut error = ptr::null_mut();
        // SAFETY: as for `put`.
        unsafe { leveldb_delete(self.db.as_ptr(), self.write, key.as_ptr().cast(), key.len(), &mut error) };
        check(error)
    }

    /// Copies a value into `value`; false if the key is absent.
    pub fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        let (mut error, mut length) = (ptr::null_mut(), 0);
        value.clear();
        // SAFETY: the database and options live as long as `self`; the result is null or an array of `length` bytes that
        // the caller owns, copied and freed here.
        unsafe {
            let found =
                leveldb_get(self.db.as_ptr(), self.read, key.as_ptr().cast(), key.len(), &mut length, &mut error);
            check(error)?;
            if found.is_null() {
                return Ok(false);
            }
            value.extend_from_slice(std::slice::from_raw_parts(found.cast::<u8>(), length));
            leveldb_free(found.cast());
        }
        Ok(true)
    }

    /// A property such as `leveldb.stats`.
    pub fn property(&self, name: &str) -> Option<String> {
        let name = CString::new(name).ok()?;
        // SAFETY: the database lives as long as `self`, the name is terminated; the result is null or owned by the caller.
        take_text(unsafe { leveldb_property_value(self.db.as_ptr(), name.as_ptr()) })
    }

    /// Flushes the memtable, and compacts what overlaps the one key `key`.
    pub fn compact_at(&self, key: &[u8]) {
        let (start, length) = (key.as_ptr().cast(), key.len());
        // SAFETY: the database lives as long as `self`; LevelDB only reads the key during the call.
        unsafe { leveldb_compact_range(self.db.as_ptr(), start, length, start, length) };
    }

    /// A new iterator, not positioned yet.
    pub fn iterator(&self) -> Iterator<'_> {
        // SAFETY: the database and options live as long as `self`, which the iterator borrows.
        let raw = unsafe { leveldb_create_iterator(self.db.as_ptr(), self.read) };
        Iterator { raw, _store: self }
    }
}

/// Frees what a store was opened with.
///
/// # Safety
/// Each pointer was made by LevelDB, is not freed yet, and no open database uses it. Cache and filter may both be null.
unsafe fn free_parts(
    options: *mut RawOptions,
    cache: *mut RawCache,
    filter: *mut RawFilter,
    read: *mut RawReadOptions,
    write: *mut RawWriteOptions,
) {
    // SAFETY: the caller's promise.
    unsafe {
        leveldb_options_destroy(options);
        // Without tuning there is neither.
        if !cache.is_null() {
            leveldb_cache_destroy(cache);
            leveldb_filterpolicy_destroy(filter);
        }
        leveldb_readoptions_destroy(read);
        leveldb_writeoptions_destroy(write);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: iterators borrow the store, so none is alive; the database is closed before what it uses is freed
        // (invariant 2), and all of it belongs to this owner alone.
        unsafe {
            leveldb_close(self.db.as_ptr());
            free_parts(self.options, self.cache, self.filter, self.read, self.write);
        }
    }
}

/// A cursor over a store.
pub struct Iterator<'a> {
    raw: *mut RawIterator,
    _store: &'a Store,
}

impl Iterator<'_> {
    /// Goes to the first key.
    pub fn seek_to_first(&mut self) {
        // SAFETY: the iterator is alive until its drop and used by one thread (invariants 1 and 3).
        unsafe { leveldb_iter_seek_to_first(self.raw) }
    }

    /// Goes to the last key.
    pub fn seek_to_last(&mut self) {
        // SAFETY: as above.
        unsafe { leveldb_iter_seek_to_last(self.raw) }
    }

    /// Goes to the first key at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        // SAFETY: as above; LevelDB copies the key.
        unsafe { leveldb_iter_seek(self.raw, key.as_ptr().cast(), key.len()) }
    }

    /// Moves forward.
    pub fn next(&mut self) {
        debug_assert!(self.pair().is_some());
        // SAFETY: as above; callers step only from a pair.
        unsafe { leveldb_iter_next(self.raw) }
    }

    /// Moves backward.
    pub fn prev(&mut self) {
        debug_assert!(self.pair().is_some());
        // SAFETY: as above; callers step only from a pair.
        unsafe { leveldb_iter_prev(self.raw) }
    }

    /// The current pair; `None` after the end.
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        let (mut key_length, mut value_length) = (0, 0);
        // SAFETY: as above; key and value are asked for only at a valid place, and stay until the iterator moves, which
        // needs it borrowed again.
        unsafe {
            if leveldb_iter_valid(self.raw) == 0 {
                return None;
            }
            let key = leveldb_iter_key(self.raw, &mut key_length);
            let value = leveldb_iter_value(self.raw, &mut value_length);
            Some((
                std::slice::from_raw_parts(key.cast(), key_length),
                std::slice::from_raw_parts(value.cast(), value_length),
            ))
        }
    }

    /// The error, if it stopped for another reason than the end.
    pub fn status(&self) -> Result<(), String> {
        let mut error = ptr::null_mut();
        // SAFETY: as above.
        unsafe { leveldb_iter_get_error(self.raw, &mut error) };
        check(error)
    }
}

impl Drop for Iterator<'_> {
    fn drop(&mut self) {
        // SAFETY: made by LevelDB, freed once, here.
        unsafe { leveldb_iter_destroy(self.raw) }
    }
}

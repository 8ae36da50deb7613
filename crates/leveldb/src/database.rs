//! Opening and closing, reading and writing. Any thread.

use crate::boundary::{self, ErrorPointer};
use crate::bytes::{self, Lent, LentArray, Out};
use crate::handle::{Handle, object};
use crate::maintenance;
use crate::misuse::{self, Misuse};
use crate::options::{Options, Settings};
use crate::property;
use crate::read_options::ReadOptions;
use crate::status::Status;
use crate::store::{Moment, Store};
use crate::write_batch::Batch;
use crate::write_options::WriteOptions;
use alluvium::Error;
use libc::{c_char, c_int};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts of the objects of a database that have not been destroyed.
#[derive(Default)]
struct Alive {
    iterators: AtomicUsize,
    snapshots: AtomicUsize,
}

/// An open database.
pub struct Database {
    /// The store.
    pub store: Store,
    alive: Arc<Alive>,
}

object!(Database, "leveldb_t", Shared);

/// Counts an object of a database until it is dropped.
pub struct Lease {
    alive: Arc<Alive>,
    is_iterator: bool,
}

impl Lease {
    fn new(alive: &Arc<Alive>, is_iterator: bool) -> Self {
        let lease = Self { alive: Arc::clone(alive), is_iterator };
        lease.count().fetch_add(1, Ordering::Relaxed);
        lease
    }

    fn count(&self) -> &AtomicUsize {
        if self.is_iterator { &self.alive.iterators } else { &self.alive.snapshots }
    }

    /// Whether the object belongs to this database.
    pub fn is_of(&self, database: &Database) -> bool {
        Arc::ptr_eq(&self.alive, &database.alive)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}

impl Database {
    fn open(path: &Path, settings: &Settings) -> Result<Self, Status> {
        let invalid = |what: &str| Status::Invalid(format!("{}: {what}", path.display()));
        maintenance::check_format(path)?;
        // LevelDB recognizes a database by its CURRENT; a store is recognized by its manifest.
        let exists = path.join("MANIFEST").exists();
        if exists && settings.error_if_exists {
            return Err(invalid("exists (error_if_exists is true)"));
        }
        if !exists && !settings.create_if_missing && (!path.exists() || is_empty(path)) {
            return Err(invalid("does not exist (create_if_missing is false)"));
        }
        // LevelDB creates one directory only: a misspelt path must not create several.
        if let Some(parent) =
            path.parent().filter(|parent| !exists && !parent.as_os_str().is_empty() && !parent.exists())
        {
            return Err(Status::Missing(parent.to_path_buf()));
        }
        let store = match Store::open(path, settings.of_store()?, settings.comparator()?) {
            Err(Status::Store(Error::AlreadyOpen { .. })) => return Err(Status::Locked(path.join("LOCK"))),
            opened => opened?,
        };
        Ok(Self { store, alive: Arc::default() })
    }

    /// Counts an iterator.
    pub fn lease_iterator(&self) -> Lease {
        Lease::new(&self.alive, true)
    }

    /// Counts a snapshot.
    pub fn lease_snapshot(&self) -> Lease {
        Lease::new(&self.alive, false)
    }

    /// Returns the snapshot that the options select; `None` means the newest state.
    pub fn moment(&self, options: &ReadOptions) -> Result<Option<Moment>, Status> {
        let handle = options.snapshot();
        if handle.is_null() {
            return Ok(None);
        }
        let snapshot = handle.get()?;
        if snapshot.lease.is_of(self) {
            Ok(Some(snapshot.moment.clone()))
        } else {
            Err(Status::Invalid(
                "the snapshot in the read options belongs to another database, or to one that was closed".into(),
            ))
        }
    }

    fn warn_of_leaks(&self) {
        let alive = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (iterators, snapshots) = (alive(&self.alive.iterators), alive(&self.alive.snapshots));
        if iterators + snapshots > 0 {
            let what = format!(
                "{iterators} iterators and {snapshots} snapshots of the database are still alive; using them is an error from now on"
            );
            misuse::report("leveldb_close", &Misuse::Other(what));
        }
    }
}

fn is_empty(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

/// Opens a database. Returns NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_open(options: Handle<Options>, name: Lent, error: ErrorPointer) -> Handle<Database> {
    boundary::fallible("leveldb_open", error, Handle::NULL, || {
        Ok(Handle::new(Database::open(name.path()?, &options.get()?.settings())?))
    })
}

/// Closes a database; everything that was written is then on the disk. Waits for running calls of other threads.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_close(db: Handle<Database>) {
    boundary::infallible("leveldb_close", (), || {
        let mut database = db.end()?;
        database.warn_of_leaks();
        loop {
            match Arc::try_unwrap(database) {
                Ok(database) => return Ok(database.store.close()?),
                Err(in_use) => database = in_use,
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
}

/// Sets a key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_put(
    db: Handle<Database>,
    options: Handle<WriteOptions>,
    key: Lent,
    key_length: usize,
    value: Lent,
    value_length: usize,
    error: ErrorPointer,
) {
    boundary::fallible("leveldb_put", error, (), || {
        let (key, value) = (key.bytes(key_length, "the key")?, value.bytes(value_length, "the value")?);
        Ok(db.get()?.store.write_one(key, Some(value), (&*options.get()?).into())?)
    });
}

/// Deletes a key. It is not an error if the key is absent.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_delete(
    db: Handle<Database>,
    options: Handle<WriteOptions>,
    key: Lent,
    key_length: usize,
    error: ErrorPointer,
) {
    boundary::fallible("leveldb_delete", error, (), || {
        let key = key.bytes(key_length, "the key")?;
        Ok(db.get()?.store.write_one(key, None, (&*options.get()?).into())?)
    });
}

/// Applies a batch atomically. The batch is unchanged.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_write(
    db: Handle<Database>,
    options: Handle<WriteOptions>,
    batch: Handle<Batch>,
    error: ErrorPointer,
) {
    boundary::fallible("leveldb_write", error, (), || {
        let (database, options) = (db.get()?, options.get()?);
        Ok(batch.look(|batch| database.store.write(&batch.0, (&*options).into()))??)
    });
}

/// Returns the value of a key, to be released with `leveldb_free`; NULL if the key is absent, or on an error.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_get(
    db: Handle<Database>,
    options: Handle<ReadOptions>,
    key: Lent,
    key_length: usize,
    value_length: Out<usize>,
    error: ErrorPointer,
) -> *mut c_char {
    boundary::fallible("leveldb_get", error, ptr::null_mut(), || {
        value_length.set(0)?;
        let (database, key) = (db.get()?, key.bytes(key_length, "the key")?);
        let moment = database.moment(&*options.get()?)?;
        let copied = database.store.get(key, moment.as_ref(), |value| (bytes::to_c(value), value.len()))?;
        let Some((value, length)) = copied else { return Ok(ptr::null_mut()) };
        value_length.set(length)?;
        Ok(value)
    })
}

/// Returns a property, to be released with `leveldb_free`; NULL if the name is unknown.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_property_value(db: Handle<Database>, name: Lent) -> *mut c_char {
    boundary::infallible("leveldb_property_value", ptr::null_mut(), || {
        let value = property::value(db.get()?.store.db(), name.string("the property's name")?.to_bytes());
        Ok(value.map_or(ptr::null_mut(), |value| bytes::to_c_string(value.as_bytes())))
    })
}

/// Estimates how many bytes ranges of keys occupy. Each range excludes its limit.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_approximate_sizes(
    db: Handle<Database>,
    ranges: c_int,
    start_keys: LentArray<Lent>,
    start_lengths: LentArray<usize>,
    limit_keys: LentArray<Lent>,
    limit_lengths: LentArray<usize>,
    sizes: Out<u64>,
) {
    boundary::infallible("leveldb_approximate_sizes", (), || {
        let count = usize::try_from(ranges)
            .map_err(|_| Misuse::Other(format!("the number of ranges is {ranges}, which must not be negative")))?;
        let database = db.get()?;
        let starts = start_keys.elements(count, "the array of first keys")?;
        let start_lengths = start_lengths.elements(count, "the array of first keys' lengths")?;
        let limits = limit_keys.elements(count, "the array of limits")?;
        let limit_lengths = limit_lengths.elements(count, "the array of limits' lengths")?;
        for at in 0..count {
            let start = starts[at].bytes(start_lengths[at], "a first key")?;
            let limit = limits[at].bytes(limit_lengths[at], "a limit")?;
            sizes.fill(at, database.store.approximate_size(start, limit)?, "the array of sizes")?;
        }
        Ok(())
    });
}

/// Removes deleted and overwritten data from a range of keys. NULL means the first or the last key.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_compact_range(
    db: Handle<Database>,
    start: Lent,
    start_length: usize,
    limit: Lent,
    limit_length: usize,
) {
    boundary::infallible("leveldb_compact_range", (), || {
        let bound = |key: Lent, length| if key.is_null() { Ok(None) } else { key.bytes(length, "a bound").map(Some) };
        Ok(db.get()?.store.compact(bound(start, start_length)?, bound(limit, limit_length)?)?)
    });
}

/// Deletes a closed database and its directory. It is not an error if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_destroy_db(options: Handle<Options>, name: Lent, error: ErrorPointer) {
    boundary::fallible("leveldb_destroy_db", error, (), || {
        options.get()?;
        maintenance::destroy(name.path()?)
    });
}

/// Rebuilds a damaged database from the files that are left.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_repair_db(options: Handle<Options>, name: Lent, error: ErrorPointer) {
    boundary::fallible("leveldb_repair_db", error, (), || {
        options.get()?;
        maintenance::repair(name.path()?)
    });
}

//! An open store, sorted by bytes or by the caller's comparator. Any thread.

use crate::comparator::Comparator;
use crate::order::{self, Ordered, OrderedCursor, OrderedSnapshot};
use crate::status::Status;
use alluvium::storage::PosixStorage;
use alluvium::{Db, Error, Iter, Snapshot, WriteBatch, WriteOptions};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

/// The order of the keys of a store.
enum Order {
    Bytes,
    Caller(Ordered),
}

/// See the module.
pub struct Store {
    db: Db,
    order: Order,
}

/// A snapshot of a store.
#[derive(Clone)]
pub enum Moment {
    /// Sorted by bytes.
    Bytes(Snapshot),
    /// Sorted by the caller's comparator.
    Caller(OrderedSnapshot),
}

/// A cursor in a store.
pub enum Cursor {
    /// Sorted by bytes.
    Bytes(Iter),
    /// Sorted by the caller's comparator.
    Caller(OrderedCursor),
}

thread_local! {
    /// Values are read into this buffer before they are copied to memory of C.
    static VALUE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The largest buffer that a thread keeps.
const KEPT_VALUE_BYTES: usize = 1 << 20;

/// Opens a store in a separate thread. *Otherwise:* Rust's library would keep data about the caller's thread, which
/// valgrind reports as possibly lost in every program that opens a database for the second time.
fn open_on_own_thread(storage: PosixStorage, options: alluvium::Options) -> Result<Db, Status> {
    let open = move || Db::open_with(Arc::new(storage), options);
    let opening = std::thread::Builder::new().name("alluvium-open".into()).spawn(open);
    let opening = opening.map_err(|error| Error::io("start a thread to open", Path::new("a database"), error))?;
    match opening.join() {
        Ok(opened) => Ok(opened?),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl Store {
    /// Opens a store that is sorted by a comparator, or by bytes.
    pub fn open(path: &Path, options: alluvium::Options, comparator: Option<Arc<Comparator>>) -> Result<Self, Status> {
        // A program that was written for LevelDB leaves most of the machine's memory to the page cache.
        let storage = PosixStorage::new(path).reading_through_page_cache();
        let db = open_on_own_thread(storage, options)?;
        let order = match comparator {
            None => {
                order::check_absent(path)?;
                Order::Bytes
            }
            Some(comparator) => Order::Caller(Ordered::open(&db, path, comparator)?),
        };
        Ok(Self { db, order })
    }

    /// The underlying store.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Closes it.
    pub fn close(self) -> alluvium::Result<()> {
        self.db.close()
    }

    /// Applies one write.
    pub fn write_one(&self, key: &[u8], value: Option<&[u8]>, options: WriteOptions) -> alluvium::Result<()> {
        match (&self.order, value) {
            (Order::Bytes, Some(value)) => self.db.put_with(key, value, options),
            (Order::Bytes, None) => self.db.delete_with(key, options),
            (Order::Caller(ordered), value) => {
                let mut batch = WriteBatch::new();
                match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                };
                ordered.write(&self.db, &batch, options)
            }
        }
    }

    /// Applies a batch.
    pub fn write(&self, batch: &WriteBatch, options: WriteOptions) -> alluvium::Result<()> {
        match &self.order {
            Order::Bytes => self.db.write_with(batch.clone(), options),
            Order::Caller(ordered) => ordered.write(&self.db, batch, options),
        }
    }

    /// Passes the value of a key, now or at a snapshot, to a function.
    pub fn get<R>(&self, key: &[u8], at: Option<&Moment>, give: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, Status> {
        match (&self.order, at) {
            (Order::Bytes, None) => {
                // A thread that is ending has lost its buffer and may still read: in a destructor, or after `exit`.
                let mut value = VALUE.try_with(Cell::take).unwrap_or_default();
                let found = self.db.get_into(key, &mut value)?;
                let given = found.then(|| give(&value));
                if value.capacity() <= KEPT_VALUE_BYTES {
                    let _ = VALUE.try_with(|kept| kept.set(value));
                }
                Ok(given)
            }
            (Order::Bytes, Some(Moment::Bytes(snapshot))) => Ok(snapshot.get(key)?.map(|value| give(&value))),
            (Order::Caller(ordered), None) => Ok(ordered.get(&self.db, key)?.map(|value| give(&value))),
            (Order::Caller(ordered), Some(Moment::Caller(snapshot))) => {
                Ok(ordered.get_at(snapshot, key)?.map(|value| give(&value)))
            }
            _ => Err(other_database()),
        }
    }

    /// Takes a snapshot.
    pub fn snapshot(&self) -> Moment {
        match &self.order {
            Order::Bytes => Moment::Bytes(self.db.snapshot()),
            Order::Caller(ordered) => Moment::Caller(ordered.snapshot(&self.db)),
        }
    }

    /// Creates a cursor over all pairs of a snapshot.
    pub fn cursor(&self, at: &Moment) -> Result<Cursor, Status> {
        match (&self.order, at) {
            (Order::Bytes, Moment::Bytes(snapshot)) => Ok(Cursor::Bytes(snapshot.iter()?)),
            (Order::Caller(ordered), Moment::Caller(snapshot)) => Ok(Cursor::Caller(ordered.cursor(snapshot.clone()))),
            _ => Err(other_database()),
        }
    }

    /// Estimates how many bytes the keys from `from` up to, but not including, `to` occupy.
    pub fn approximate_size(&self, from: &[u8], to: &[u8]) -> alluvium::Result<u64> {
        match &self.order {
            Order::Bytes => self.db.approximate_size(from..to),
            Order::Caller(ordered) => ordered.approximate_size(&self.db, from, to),
        }
    }

    /// Compacts the keys from `from` to `to`, both included; `None` is an end of the store. Compacts everything if the
    /// store has a comparator.
    pub fn compact(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> alluvium::Result<()> {
        use std::ops::Bound::{Included, Unbounded};
        match &self.order {
            Order::Bytes => self.db.compact_range((from.map_or(Unbounded, Included), to.map_or(Unbounded, Included))),
            Order::Caller(_) => self.db.compact(),
        }
    }
}

fn other_database() -> Status {
    Status::Invalid("the snapshot belongs to another database".into())
}

impl Cursor {
    /// Moves to the first pair.
    pub fn seek_first(&mut self) -> alluvium::Result<()> {
        match self {
            Self::Bytes(iter) => iter.seek_first(),
            Self::Caller(cursor) => cursor.seek_first(),
        }
    }

    /// Moves to the last pair.
    pub fn seek_last(&mut self) -> alluvium::Result<()> {
        match self {
            Self::Bytes(iter) => iter.seek_last(),
            Self::Caller(cursor) => cursor.seek_last(),
        }
    }

    /// Moves to the first pair whose key is at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> alluvium::Result<()> {
        match self {
            Self::Bytes(iter) => iter.seek(key),
            Self::Caller(cursor) => cursor.seek(key),
        }
    }

    /// Moves to the next pair.
    pub fn step(&mut self) -> alluvium::Result<()> {
        match self {
            Self::Bytes(iter) => iter.step(),
            Self::Caller(cursor) => cursor.step(),
        }
    }

    /// Moves to the previous pair.
    pub fn step_back(&mut self) -> alluvium::Result<()> {
        match self {
            Self::Bytes(iter) => iter.step_back(),
            Self::Caller(cursor) => cursor.step_back(),
        }
    }

    /// Returns the key and the value of the pair; `None` if the cursor is unpositioned.
    pub fn pair(&self) -> Option<(&[u8], &[u8])> {
        match self {
            Self::Bytes(iter) => iter.pair(),
            Self::Caller(cursor) => cursor.valid().then(|| (cursor.key(), cursor.value())),
        }
    }
}

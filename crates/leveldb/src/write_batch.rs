//! Batches of writes that are applied atomically. One thread at a time may change a batch; several may read it at once.

use crate::boundary;
use crate::bytes::Lent;
use crate::handle::{Handle, object};
use alluvium::{Operation, WriteBatch};
use libc::{c_char, c_void};

/// A batch.
#[derive(Default)]
pub struct Batch(pub WriteBatch);

object!(Batch, "leveldb_writebatch_t", Exclusive);

type Put = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize);
type Deleted = unsafe extern "C" fn(*mut c_void, *const c_char, usize);

/// Creates an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> Handle<Batch> {
    Handle::new(Batch::default())
}

/// Destroys a batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_destroy(batch: Handle<Batch>) {
    boundary::infallible("leveldb_writebatch_destroy", (), || Ok(batch.take().map(drop)?));
}

/// Removes all writes from a batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_clear(batch: Handle<Batch>) {
    boundary::infallible("leveldb_writebatch_clear", (), || Ok(batch.change(|batch| batch.0.clear())?));
}

/// Adds a put.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_put(
    batch: Handle<Batch>,
    key: Lent,
    key_length: usize,
    value: Lent,
    value_length: usize,
) {
    boundary::infallible("leveldb_writebatch_put", (), || {
        let (key, value) = (key.bytes(key_length, "the key")?, value.bytes(value_length, "the value")?);
        batch.change(|batch| {
            batch.0.put(key, value);
        })?;
        Ok(())
    });
}

/// Adds a delete.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_delete(batch: Handle<Batch>, key: Lent, key_length: usize) {
    boundary::infallible("leveldb_writebatch_delete", (), || {
        let key = key.bytes(key_length, "the key")?;
        batch.change(|batch| {
            batch.0.delete(key);
        })?;
        Ok(())
    });
}

/// Calls a function for each write, in the order in which they were added.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_iterate(
    batch: Handle<Batch>,
    state: *mut c_void,
    put: Option<Put>,
    deleted: Option<Deleted>,
) {
    boundary::infallible("leveldb_writebatch_iterate", (), || {
        batch.look(|batch| {
            for operation in &batch.0 {
                let (key, value) = match operation {
                    Operation::Put { key, value, .. } => (key, Some(value)),
                    Operation::Delete { key, .. } => (key, None),
                    // LevelDB's batches have no others.
                    _ => continue,
                };
                let key_bytes = key.as_ptr().cast();
                // SAFETY: the caller guarantees that its functions are valid. The bytes stay until they return, because
                // the batch cannot be changed meanwhile.
                unsafe {
                    match (value, put, deleted) {
                        (Some(value), Some(put), _) => {
                            put(state, key_bytes, key.len(), value.as_ptr().cast(), value.len());
                        }
                        (None, _, Some(deleted)) => deleted(state, key_bytes, key.len()),
                        _ => {}
                    }
                }
            }
        })?;
        Ok(())
    });
}

/// Appends the writes of one batch to another, or to itself.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_append(destination: Handle<Batch>, source: Handle<Batch>) {
    boundary::infallible("leveldb_writebatch_append", (), || {
        let added = source.look(|source| source.0.clone())?;
        destination.change(|destination| {
            destination.0.append(&added);
        })?;
        Ok(())
    });
}

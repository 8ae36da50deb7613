//! Options for reads. Several threads may use one options object while another changes it.

use crate::boundary;
use crate::handle::{Handle, object};
use crate::snapshot::SnapshotState;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Options for a read. Only the snapshot has an effect: checksums are always verified, and the store decides what it
/// caches.
#[derive(Default)]
pub struct ReadOptions {
    /// The address of a snapshot's handle, or 0.
    snapshot: AtomicUsize,
}

object!(ReadOptions, "leveldb_readoptions_t", Shared);

impl ReadOptions {
    /// Returns the snapshot to read at; NULL means the newest state.
    pub fn snapshot(&self) -> Handle<SnapshotState> {
        Handle::from_address(self.snapshot.load(Ordering::Acquire))
    }
}

/// Creates the default options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> Handle<ReadOptions> {
    Handle::new(ReadOptions::default())
}

/// Destroys an options object.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_destroy(options: Handle<ReadOptions>) {
    boundary::infallible("leveldb_readoptions_destroy", (), || Ok(options.end().map(drop)?));
}

/// No effect: everything that is read is verified.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_verify_checksums(options: Handle<ReadOptions>, _verify: u8) {
    boundary::infallible("leveldb_readoptions_set_verify_checksums", (), || Ok(options.get().map(drop)?));
}

/// No effect: a scan does not evict what other reads need from the cache.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_fill_cache(options: Handle<ReadOptions>, _fill: u8) {
    boundary::infallible("leveldb_readoptions_set_fill_cache", (), || Ok(options.get().map(drop)?));
}

/// Sets the snapshot to read at; NULL means the newest state.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_snapshot(options: Handle<ReadOptions>, snapshot: Handle<SnapshotState>) {
    boundary::infallible("leveldb_readoptions_set_snapshot", (), || {
        let options = options.get()?;
        if !snapshot.is_null() {
            snapshot.get()?;
        }
        options.snapshot.store(snapshot.address(), Ordering::Release);
        Ok(())
    });
}

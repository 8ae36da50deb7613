//! How something is read. Several threads may use one object of options, and one may change it meanwhile.

use crate::boundary;
use crate::handle::{Handle, object};
use crate::snapshot::SnapshotState;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Options of a read. Checksums are always checked, and what is read is cached as it pays, so there is only the snapshot.
#[derive(Default)]
pub struct ReadOptions {
    /// The address of a snapshot's handle, or 0.
    snapshot: AtomicUsize,
}

object!(ReadOptions, "leveldb_readoptions_t", Shared);

impl ReadOptions {
    /// The snapshot to read at; NULL for the newest.
    pub fn snapshot(&self) -> Handle<SnapshotState> {
        Handle::from_address(self.snapshot.load(Ordering::Acquire))
    }
}

/// Makes the default options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> Handle<ReadOptions> {
    Handle::new(ReadOptions::default())
}

/// Ends an object of options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_destroy(options: Handle<ReadOptions>) {
    boundary::infallible("leveldb_readoptions_destroy", (), || Ok(options.end().map(drop)?));
}

/// Nothing: everything that is read is checked.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_verify_checksums(options: Handle<ReadOptions>, _verify: u8) {
    boundary::infallible("leveldb_readoptions_set_verify_checksums", (), || Ok(options.get().map(drop)?));
}

/// Nothing: one scan does not drive out of the cache what others need.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_set_fill_cache(options: Handle<ReadOptions>, _fill: u8) {
    boundary::infallible("leveldb_readoptions_set_fill_cache", (), || Ok(options.get().map(drop)?));
}

/// Sets the snapshot to read at; NULL for the newest.
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

//! How something is written. Several threads may use one object of options, and one may change it meanwhile.

use crate::boundary;
use crate::handle::{Handle, object};
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of a write.
#[derive(Default)]
pub struct WriteOptions {
    sync: AtomicBool,
}

object!(WriteOptions, "leveldb_writeoptions_t", Shared);

impl From<&WriteOptions> for alluvium::WriteOptions {
    fn from(options: &WriteOptions) -> Self {
        if options.sync.load(Ordering::Relaxed) { Self::sync() } else { Self::default() }
    }
}

/// Makes the default options: a write is in the system's hands when it returns.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> Handle<WriteOptions> {
    Handle::new(WriteOptions::default())
}

/// Ends an object of options.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_destroy(options: Handle<WriteOptions>) {
    boundary::infallible("leveldb_writeoptions_destroy", (), || Ok(options.end().map(drop)?));
}

/// Sets whether a write is on the disk when it returns.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_set_sync(options: Handle<WriteOptions>, sync: u8) {
    boundary::infallible("leveldb_writeoptions_set_sync", (), || {
        options.get()?.sync.store(sync != 0, Ordering::Relaxed);
        Ok(())
    });
}

//! Options for writes. Several threads may use one options object while another changes it.

use crate::boundary;
use crate::handle::{Handle, object};
use std::sync::atomic::{AtomicBool, Ordering};

/// Options for a write.
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

/// Creates the default options: a write returns once the operating system has it.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> Handle<WriteOptions> {
    Handle::new(WriteOptions::default())
}

/// Destroys an options object.
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

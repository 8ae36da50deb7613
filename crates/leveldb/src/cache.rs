//! Caches. Each store has one of its own inside its memory budget; a cache of the caller's is a number of
//! bytes from which that follows (`memory`).

use crate::boundary;
use crate::handle::{Handle, object};

/// How much a program wants cached.
pub struct Cache {
    /// Bytes.
    pub capacity: usize,
}

object!(Cache, "leveldb_cache_t", Shared);

/// Makes a cache of so many bytes.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Handle<Cache> {
    Handle::new(Cache { capacity })
}

/// Ends a cache. A store that was opened with it keeps its memory.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_destroy(cache: Handle<Cache>) {
    boundary::infallible("leveldb_cache_destroy", (), || Ok(cache.end().map(drop)?));
}

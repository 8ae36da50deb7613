//! Caches. Each store has its own cache inside its memory budget. A cache that the caller creates is only a number of
//! bytes, from which the budget is computed (`memory`).

use crate::boundary;
use crate::handle::{Handle, object};

/// The cache size that a program requests.
pub struct Cache {
    /// The size in bytes.
    pub capacity: usize,
}

object!(Cache, "leveldb_cache_t", Shared);

/// Creates a cache with a capacity in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: usize) -> Handle<Cache> {
    Handle::new(Cache { capacity })
}

/// Destroys a cache. A store that was opened with it keeps its memory.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_destroy(cache: Handle<Cache>) {
    boundary::infallible("leveldb_cache_destroy", (), || Ok(cache.end().map(drop)?));
}

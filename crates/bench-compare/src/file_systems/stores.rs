//! `EngineStore`: a store of a file system that can also settle and report the bytes it wrote. Any thread.

use alluvium_bench::engine::Result;
use skipfs::store::{AlluviumStore, Store};

/// A store under measurement.
pub trait EngineStore: Store + 'static {
    /// Writes memory to files, and waits until background work is done.
    fn settle(&self) -> Result<()>;

    /// Bytes of data and log that were written so far.
    fn written_bytes(&self) -> u64;
}

impl EngineStore for AlluviumStore {
    fn settle(&self) -> Result<()> {
        self.db().flush()?;
        Ok(self.db().settle()?)
    }

    fn written_bytes(&self) -> u64 {
        let stats = self.db().stats();
        stats.incorporated_bytes + stats.compacted_bytes + stats.logged_bytes
    }
}

//! `Engine`: a store that is open for writing, as a set of components. The public handles are in `db`.
//!
//! Each component holds the components below it and knows nothing of those above. `open/assembly.rs` makes them:
//!
//! | component | what | uses |
//! | --- | --- | --- |
//! | `ReadPath` | view, snapshots, cursors; all that reading needs | |
//! | `Scheduler` | what background tasks share | |
//! | `DurableLog` | log, syncs, poison | read path, scheduler |
//! | `Generations` | memory, switches | read path, scheduler |
//! | `TreePublisher` | manifest edits, new trees | read path, log |
//! | `Space` | ballast, full disk | log, generations |
//! | `WritePath` | put, batch, update, commit | all of these |
//! | `Background` | choice and execution of tasks | all of these |

use super::background::background::Background;
use super::directory::file_hashes::FileHashes;
use super::directory::locks::WriterLock;
use super::pool::{Membership, PoolClient, WorkerPool};
use super::read::read_path::ReadPath;
use super::state::health::Health;
use super::write::write_path::WritePath;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, FileNumbers, Result};

/// See the module.
pub(crate) struct Engine {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) write: Arc<WritePath>,
    pub(crate) background: Arc<Background>,
    pub(crate) health: Arc<Health>,
    pub(crate) numbers: Arc<FileNumbers>,
    /// For backups.
    pub(crate) hashes: FileHashes,
    /// Its place in its pool, until it is closed.
    pub(super) membership: Mutex<Option<Membership>>,
    /// Held by the thread that closes.
    pub(super) closing: Mutex<()>,
    /// The lock of the one writer; released when the store is closed.
    pub(super) writer_lock: Mutex<Option<WriterLock>>,
}

impl Engine {
    /// Lets the threads of a pool do the background work.
    pub(crate) fn enter(&self, pool: &Arc<WorkerPool>) -> Result<()> {
        let client: Arc<dyn PoolClient> = self.background.clone();
        let entered = pool.enter(client, &self.background.scheduler.bell, self.background.budget.workers);
        let failed = |error| Error::io("start a thread for", self.read.storage.path(), error);
        *self.membership.lock() = Some(entered.map_err(failed)?);
        Ok(())
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("path", &self.read.storage.path()).finish_non_exhaustive()
    }
}

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
use super::directory::locks::WriterLock;
use super::read::read_path::ReadPath;
use super::scheduler::task::WorkerRole;
use super::state::health::Health;
use super::write::write_path::WritePath;
use crate::log::LogTask;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, FileNumbers, Result};
use std::thread::JoinHandle;

/// See the module.
pub(crate) struct Engine {
    pub(crate) read: Arc<ReadPath>,
    pub(crate) write: Arc<WritePath>,
    pub(crate) background: Arc<Background>,
    pub(crate) health: Arc<Health>,
    pub(crate) numbers: Arc<FileNumbers>,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    /// The lock of the one writer; released when the store is closed.
    pub(super) writer_lock: Mutex<Option<WriterLock>>,
}

impl Engine {
    /// Starts the workers and the log threads.
    pub(crate) fn start_threads(&self) -> Result<()> {
        for (name, task) in [("alluvium-log", LogTask::MakeReady), ("alluvium-sync", LogTask::Finish)] {
            let background = Arc::clone(&self.background);
            self.spawn(name, move || background.maintain_log(task))?;
        }
        let workers = std::iter::repeat_n(("alluvium-work", WorkerRole::All), self.background.budget.workers);
        for (name, role) in workers.chain([("alluvium-flush", WorkerRole::Memory)]) {
            let background = Arc::clone(&self.background);
            self.spawn(name, move || background.work(role))?;
        }
        Ok(())
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run);
        let failed = |error| Error::io("start a thread for", self.read.storage.path(), error);
        self.threads.lock().push(thread.map_err(failed)?);
        Ok(())
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("path", &self.read.storage.path()).finish_non_exhaustive()
    }
}

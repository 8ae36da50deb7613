//! Flushing, closing, destroying, and the figures.

use crate::engine::directory::leveldb_guard;
use crate::engine::directory::store_files::{self, Found, StoreFile};
use crate::engine::engine::Engine;
use crate::engine::types::stats::Stats;
use crate::format::manifest_edit::ManifestEdit;
use crate::io::Storage;
use crate::util::sync::Ordering;
use crate::util::{Error, Result};

impl Engine {
    /// Switches generations where the newest holds anything, and waits until all older ones are incorporated.
    pub(crate) fn flush(&self) -> Result<()> {
        self.flush_unless(&|| false)
    }

    /// The same; waits no longer once `is_cancelled`.
    pub(crate) fn flush_unless(&self, is_cancelled: &dyn Fn() -> bool) -> Result<()> {
        self.health.check()?;
        let end = {
            let _switching = self.switching.lock();
            let view = self.view.load_full();
            if !view.newest().memtable.is_empty() {
                self.switch(&view)
            } else if let Some(end) = view.generations.get(1).and_then(|generation| generation.end()) {
                end
            } else {
                return Ok(());
            }
        };
        self.wait_for_progress(|inner| inner.incorporated.load(Ordering::Acquire) >= end.0 || is_cancelled())
    }

    /// What can fail of closing: nothing acknowledged is left to a power loss.
    pub(crate) fn prepare_to_close(&self) -> Result<()> {
        self.health.check()?;
        let flushed = if self.unlogged.load(Ordering::Relaxed) { self.flush() } else { Ok(()) };
        // Also where the flush failed: what was logged need not suffer for what was not.
        flushed.and(self.sync_through(self.sequencer.last()))
    }

    /// Ends the log's generation. Background work that still needs it gives up.
    pub(crate) fn close_log(&self) -> Result<()> {
        if self.health.check().is_ok() { self.log.close(&self.sequencer) } else { Ok(()) }
    }

    /// Tells the manifest how far the log goes, where anything in it is needed. Without it an older copy of the newest segment
    /// looks like a process that died earlier.
    pub(crate) fn note_log_end(&self) -> Result<()> {
        let (synced, mut edits) = (self.log.synced(), self.edits.lock());
        let state = edits.manifest.state();
        if self.health.check().is_err() || synced <= state.log_synced.max(state.incorporated) {
            return Ok(());
        }
        match edits.manifest.append(&ManifestEdit { log_synced: Some(synced), ..ManifestEdit::default() }) {
            // Nothing is lost with this edit, so a full disk closes as well as another.
            Err(error) if !error.is_disk_full() => Err(error),
            _ => Ok(()),
        }
    }

    /// The rest of closing, once no thread works any more.
    pub(crate) fn release(&self) {
        self.threads.clear();
        self.shared_snapshot.clear();
        // Idle iterators give their files back.
        self.cached_cursors.revoke_idle(u64::MAX);
        // A worker that was stopped between publishing a merge and looking for dead files leaves them. What readers that are still alive
        // hold, and what cannot be removed, is found as stray at the next opening. After a failure nothing is touched.
        if self.health.check().is_ok() {
            let _ = self.remove_dead_files();
        }
        // Before the lock goes: what is found without it counts as left by a process that died.
        self.publisher.withdraw(&*self.storage);
        self.lock.lock().take();
    }

    pub(crate) fn stats(&self) -> Stats {
        let written = self.trunk.written();
        Stats {
            synced_number: self.log.synced().0,
            incorporated_number: self.incorporated.load(Ordering::Relaxed),
            log_bytes: self.log.bytes(),
            log_memory_bytes: self.log.memory_bytes(),
            log_memory_refused: self.log.memory_refused(),
            memory_budget: self.budget.total,
            writes: self.threads.sum(|counters| &counters.writes),
            user_bytes: self.threads.sum(|counters| &counters.user_bytes),
            logged_bytes: self.threads.sum(|counters| &counters.logged_bytes),
            incorporated_bytes: written.incorporated_bytes,
            compacted_bytes: written.compacted_bytes + written.mapped_bytes,
            scan_compacted_bytes: written.scan_compacted_bytes,
            incorporations: written.incorporations,
            jobs: written.jobs,
            splits: written.splits,
            joins: written.joins,
            live_rewrites: written.live_rewrites,
            reused_bytes: written.reused_bytes,
            slowed_writes: self.threads.sum(|counters| &counters.slowed_writes),
            slowed_ns: self.threads.sum(|counters| &counters.slowed_ns),
            garbage_slowed_writes: self.threads.sum(|counters| &counters.garbage_slowed_writes),
            garbage_slowed_ns: self.threads.sum(|counters| &counters.garbage_slowed_ns),
            stalled_writes: self.delays.stalled_writes(),
            stalled_ns: self.delays.stalled_ns(),
            longest_delay_ns: self.delays.longest_ns(),
            conflicts: self.conflicts.load(Ordering::Relaxed),
            retried_updates: self.retried_updates.load(Ordering::Relaxed),
            running: self.work.running.describe(self.clock.now()),
            background_write_limit: self.write_limit.get(),
            background_paused: self.work.is_paused(),
            ballast_bytes: self.ballast.bytes(),
            disk_full: self.health.is_full(),
            failure: self.health.describe(),
            ..self.read.stats()
        }
    }
}

/// Removes a store's files, and the directory where nothing else is left in it.
pub(crate) fn destroy(storage: &dyn Storage) -> Result<()> {
    let no_store = |reason: &str| Error::NoStore { path: storage.path().to_path_buf(), reason: reason.into() };
    if !storage.directory_exists()? {
        return Err(no_store("nothing is there"));
    }
    if store_files::inspect(storage)? != Found::Store {
        return Err(no_store("the directory is empty"));
    }
    let locks = crate::engine::directory::locks::for_destroying(storage)?;
    crate::log::remove_shadows(storage);
    let mut names = storage.list()?;
    // The manifest goes last: a store that was destroyed in part can be destroyed again. And what tells in which order it is, behind what is
    // in that order.
    names.sort_by_key(|name| match StoreFile::parse(name) {
        Some(StoreFile::Manifest) => 2,
        Some(StoreFile::Comparator) => 1,
        _ => 0,
    });
    let mut foreign = false;
    for name in &names {
        match StoreFile::parse(name) {
            Some(StoreFile::Lock) => {}
            Some(StoreFile::Guard) if !leveldb_guard::exists(storage) => foreign = true,
            Some(_) => storage.remove(name)?,
            None => foreign = true,
        }
    }
    storage.remove(store_files::LOCK)?;
    storage.sync_directory()?;
    drop(locks);
    if foreign { Ok(()) } else { storage.remove_directory() }
}

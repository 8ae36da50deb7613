//! Closes a store that is open for writing. The closing thread; others may call the store meanwhile
//! (`docs/concurrency.md`, X).

use crate::engine::engine::Engine;
use crate::engine::write::writer_threads::RetiredStates;
use crate::util::Result;
use crate::util::sync::{Arc, Ordering};
use std::time::Duration;

/// Closing finishes the merges of a tree up to this size with more than `SMALL_FILES` files: some milliseconds.
const SMALL_BYTES: u64 = 2 << 20;
/// See `SMALL_BYTES`.
const SMALL_FILES: usize = 8;
/// The longest time that closing waits for merges on a disk with little space.
const SCARCE_PATIENCE: Duration = Duration::from_secs(2);

impl Engine {
    /// Syncs and closes. Background work is cancelled. Does nothing if the store is closed already; waits for another
    /// thread that closes it.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        if let Err(forked) = self.read.check_process() {
            // This is the store of the parent process: the threads of its pool are not here, its log is not mapped, and its locks
            // may be held for ever. Nothing of it may be touched, not even to free it.
            std::mem::forget(Arc::clone(self));
            return Err(forked);
        }
        let closed = self.close_once();
        // Without a lock: the listener may close the store, too.
        self.background.events.finish();
        closed
    }

    fn close_once(&self) -> Result<()> {
        let _closing = self.closing.lock();
        if self.read.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let background = &self.background;
        // What must still be incorporated must not be throttled, and not wait for merges.
        background.throttle.write_limits.lift();
        background.scheduler.begin_closing();
        if self.read.expiry.due().is_some() {
            // So that the time until the next opening counts for what was written last.
            background.expire();
        }
        // Writers that wait for memory get it, since background work goes on.
        let states = self.write.end();
        self.merge_if_small();
        self.merge_if_scarce();
        let result = self.make_durable();
        background.changes.close(result.is_ok().then(|| self.read.sequencer.last()));
        self.read.closed.store(true, Ordering::Release);
        background.scheduler.stop();
        let result = result.and(self.close_log());
        // Waits for its running tasks.
        let membership = self.membership.lock().take();
        drop(membership);
        let result = result.and_then(|()| self.note_log_end());
        self.release(states);
        result
    }

    /// Finishes the merges of a small store of many files. *Otherwise,* a store that many short-lived processes write, each
    /// a little, has a file for each of them: each opening incorporates what the log has, and each closing cancels the
    /// merges that are due.
    fn merge_if_small(&self) {
        let disk = self.read.view.load().disk.clone();
        let is_small = disk.bytes() <= SMALL_BYTES && disk.branches().len() > SMALL_FILES;
        drop(disk);
        if is_small && self.health.check_put().is_ok() && !self.background.scheduler.is_paused() {
            // If it fails, nothing is lost but space.
            let _ = self.background.wait_until_idle();
        }
    }

    /// Waits a moment for the merges of a store on a full or nearly full disk. *Otherwise,* a program that opens the store for one
    /// delete after the other cancels all of them, each opening writes another file, and the last ones find no space.
    fn merge_if_scarce(&self) {
        if self.background.space.is_scarce() && !self.background.scheduler.is_paused() {
            let until = self.background.scheduler.clock.now() + SCARCE_PATIENCE;
            // If they find no space either, the next opening tries again.
            let _ = self.background.wait_until_idle_or(until);
        }
    }

    /// The part of closing that can fail: after it no power loss takes anything that was acknowledged.
    pub(in crate::engine) fn make_durable(&self) -> Result<()> {
        self.health.check()?;
        let background = &self.background;
        let incorporated = if self.write.has_unlogged() { background.generations.incorporate_all() } else { Ok(()) };
        if background.has_much_log() && !self.health.is_full() {
            // Only to save space: what was logged is safe without it.
            let _ = background.generations.incorporate_all();
        }
        // Also if that failed: what was logged need not suffer for what was not.
        incorporated.and(background.log.sync_through(self.read.sequencer.last()))
    }

    /// Ends the log epoch. Background work that still needs the log gives up.
    pub(in crate::engine) fn close_log(&self) -> Result<()> {
        if self.health.check().is_ok() {
            self.background.log.log.close(&self.read.sequencer, self.background.generations.incorporated())
        } else {
            Ok(())
        }
    }

    /// Leaves no more of the log than what the next opening needs.
    fn note_log_end(&self) -> Result<()> {
        if self.health.check().is_ok() { self.background.trim_log().map(drop) } else { Ok(()) }
    }

    /// The rest of closing, when no task runs any more.
    fn release(&self, states: RetiredStates) {
        let read = &self.read;
        drop(states);
        read.shared_snapshot.clear();
        // Idle iterators give their files back.
        read.cached_cursors.revoke_idle(u64::MAX);
        // A worker that was stopped after it published a merge leaves obsolete files. The next opening removes those
        // that live readers hold or that cannot be removed now. After a failure nothing is touched.
        if self.health.check().is_ok() {
            let _ = self.background.obsolete_files.remove();
            self.background.space.close();
        }
        read.branches.close();
        // Before the lock is released: a statistics file that is found without the lock counts as left by a process
        // that died.
        self.background.live_stats.withdraw(&*read.storage);
        self.writer_lock.lock().take();
    }
}

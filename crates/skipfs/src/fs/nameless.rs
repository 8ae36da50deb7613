//! Inodes that have lost their last name and are still in use: open, or looked up by the kernel or another caller. They
//! go with the last `release` or `forget`; any thread.
//!
//! 1. If the record is all of such an inode, it is only in memory (`Kept::Memory`). So the removal of a small file costs
//!    no more than if it were not in use. A request that changes its content or extended attributes makes it an orphan.
//! 2. Others are orphans: they have a mark and a record of their own in the store, so that the next opening deletes them
//!    after a crash.
//! 3. `forget` takes the lookups back first and then locks the inode. A removal of the last name looks at the lookups
//!    while it has the lock. So one of the two sees that nothing uses the inode any more. `release` does all under the lock.
//! 4. No inode without names gets new lookups: lookups are added under a lock on a directory with a name of it, or by
//!    `link`, which refuses it.

use super::change::delete_data;
use super::counts::Growth;
use super::inodes::{Inode, Kept, State, record_of};
use super::system::SkipFs;
use crate::error::FsResult;
use crate::format::key;
use crate::store::{Batch, Store};

impl<S: Store> SkipFs<S> {
    /// Takes back lookups of an inode. With the last ones of an inode without names that is not open all of it is deleted.
    /// No operation of the store for others. If the store fails, the next opening of the file system deletes it.
    pub fn forget(&self, ino: u64, lookups: u64) {
        if let Some(inode) = self.table.forget(ino, lookups) {
            // The caller of `forget` gets no errors; an orphan that stays is deleted by the next opening.
            let _ = self.delete_unused(&inode, &mut inode.write());
        }
    }

    /// Deletes an inode that is stored without a name, unless something uses it. Requires its write lock.
    pub(super) fn delete_unused(&self, inode: &Inode, state: &mut State) -> FsResult<()> {
        if !state.is_closed_orphan() || self.table.is_looked_up(inode.ino) {
            return Ok(());
        }
        self.delete_orphan(inode, state)
    }

    fn delete_orphan(&self, inode: &Inode, state: &mut State) -> FsResult<()> {
        let record = record_of(state)?;
        let mut batch = Batch::new();
        delete_data(&mut batch, record);
        batch.delete(key::inode(inode.ino));
        batch.delete(key::orphan(inode.ino));
        let mut growth = Growth::default();
        growth.remove(record);
        self.commit_batch(batch, growth)?;
        state.kept = Kept::Nowhere;
        Ok(())
    }

    /// Deletes the inodes without names that are not open. For the end: the kernel does not always forget before it.
    pub(super) fn delete_closed_orphans(&self) {
        for inode in self.table.inos().into_iter().filter_map(|ino| self.table.pin(ino)) {
            let state = &mut *inode.write();
            if state.is_closed_orphan() {
                // *Otherwise:* the next opening does it.
                let _ = self.delete_orphan(&inode, state);
            }
        }
    }
}

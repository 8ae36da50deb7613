//! `LockSet`: the inodes that a request has locked for writing. One thread.
//!
//! Rule 4 of `fs/mod.rs`: `lock` waits for locks in the order of inode numbers. `try_add` waits only for a number
//! that is greater than all that are held, and otherwise tries.

use super::inodes::{Inode, Pin, State, WriteGuard};
use crate::error::{FsError, FsResult};

struct Held<'t> {
    // Unlocked before it is unpinned: fields are dropped in this order.
    state: WriteGuard,
    pin: Pin<'t>,
}

/// Locked inodes, in the order of their numbers.
pub(super) struct LockSet<'t> {
    held: Vec<Held<'t>>,
}

impl<'t> LockSet<'t> {
    /// Locks inodes. Requires that they are in the order of their numbers, each once.
    pub(super) fn lock(pins: Vec<Pin<'t>>) -> Self {
        debug_assert!(pins.is_sorted_by(|one, other| one.ino < other.ino), "locks are taken in order");
        let held = pins.into_iter().map(|pin| Held { state: pin.write(), pin }).collect();
        Self { held }
    }

    fn place(&self, ino: u64) -> Result<usize, usize> {
        self.held.binary_search_by_key(&ino, |held| held.pin.ino)
    }

    pub(super) fn holds(&self, ino: u64) -> bool {
        self.place(ino).is_ok()
    }

    /// Locks one more inode; returns the pin if another thread has it and waiting is not allowed. Requires that it is
    /// not held.
    pub(super) fn try_add(&mut self, pin: Pin<'t>) -> Result<(), Pin<'t>> {
        let place = self.place(pin.ino).unwrap_or_else(|place| place);
        let state = if place == self.held.len() { Some(pin.write()) } else { pin.try_write() };
        match state {
            Some(state) => {
                self.held.insert(place, Held { state, pin });
                Ok(())
            }
            None => Err(pin),
        }
    }

    fn held(&self, ino: u64) -> FsResult<&Held<'t>> {
        let place = self.place(ino).map_err(|_| FsError::with_detail(libc::EIO, "an inode that is not locked"))?;
        Ok(&self.held[place])
    }

    /// The state of a locked inode.
    pub(super) fn state(&self, ino: u64) -> FsResult<&State> {
        self.held(ino).map(|held| &*held.state)
    }

    /// A locked inode.
    pub(super) fn inode(&self, ino: u64) -> FsResult<&Inode> {
        self.held(ino).map(|held| &*held.pin)
    }

    /// Its pin, to add lookups.
    pub(super) fn pin(&self, ino: u64) -> FsResult<&Pin<'t>> {
        self.held(ino).map(|held| &held.pin)
    }

    /// The state of a locked inode, to change what is only in memory.
    pub(super) fn state_mut(&mut self, ino: u64) -> FsResult<&mut State> {
        self.of(ino).map(|(_, state)| state)
    }

    /// A locked inode and its state.
    pub(super) fn of(&mut self, ino: u64) -> FsResult<(&Inode, &mut State)> {
        let place = self.place(ino).map_err(|_| FsError::with_detail(libc::EIO, "an inode that is not locked"))?;
        let held = &mut self.held[place];
        Ok((&held.pin, &mut held.state))
    }

    /// Replaces a state by what was committed.
    pub(super) fn replace(&mut self, ino: u64, state: State) -> FsResult<()> {
        self.inode(ino)?.mark_changed();
        *self.state_mut(ino)? = state;
        Ok(())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Inode, &mut State)> {
        self.held.iter_mut().map(|held| (&*held.pin, &mut *held.state))
    }
}

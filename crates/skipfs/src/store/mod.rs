//! `Store`: what a file system needs of a key-value store, and the batch of changes that it commits.
//!
//! 1. A batch is atomic: after a crash all of it is there or nothing.
//! 2. Batches become durable in the order of their commits. So a crash leaves what some prefix of them made.
//! 3. A get or scan that begins after a commit has returned sees it.
//!
//! A store is used from any number of threads at once.

mod alluvium;
mod counted;
mod reader;

pub use self::alluvium::AlluviumStore;
pub use self::counted::{Counted, Counts};
pub use self::reader::AlluviumReader;

use crate::error::FsResult;
use std::ops::ControlFlow;

/// What a scan calls with each key and its value.
pub type Visitor<'v> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'v;

/// A key-value store with ordered keys.
///
/// Errors are numbers of the system: a store that takes no more writes is `EROFS`, a full disk `ENOSPC`, damage, failed
/// I/O and a closed store `EIO`.
pub trait Store: Send + Sync {
    /// The value of a key.
    fn get(&self, key: &[u8]) -> FsResult<Option<Vec<u8>>>;

    /// Calls `visit` with the pairs from `start` to before `end` in the order of their keys, until it breaks. All pairs
    /// are of one moment.
    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visitor<'_>) -> FsResult<()>;

    /// Applies a batch atomically. It is durable after the next `sync`, or earlier.
    fn commit(&self, batch: Batch) -> FsResult<()>;

    /// Returns once everything that was committed is durable.
    fn sync(&self) -> FsResult<()>;

    /// The space for data.
    fn space(&self) -> FsResult<Space>;

    /// Syncs and closes. Later calls fail.
    fn close(&self) -> FsResult<()>;
}

/// Space for data, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All space, used or not.
    pub total: u64,
    /// What can still be used.
    pub free: u64,
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets a key.
    Put(Vec<u8>, Vec<u8>),
    /// Deletes a key, which may be absent.
    Delete(Vec<u8>),
    /// Deletes the keys from the first to before the second.
    DeleteRange(Vec<u8>, Vec<u8>),
}

/// Changes that are applied together, in their order: a later change of a key wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    changes: Vec<Change>,
    frees_space: bool,
    waits_for_space: bool,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a key.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.changes.push(Change::Put(key.into(), value.into()));
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        self.changes.push(Change::Delete(key.into()));
    }

    /// Deletes the keys from `start` to before `end`.
    pub fn delete_range(&mut self, start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) {
        self.changes.push(Change::DeleteRange(start.into(), end.into()));
    }

    /// Says that the batch frees space although it puts something: a full disk is to take it if its puts are small.
    pub fn set_frees_space(&mut self, frees_space: bool) {
        self.frees_space = frees_space;
    }

    /// Whether it frees space although it puts something.
    pub fn frees_space(&self) -> bool {
        self.frees_space
    }

    /// Says that the batch is to wait on a full disk while the space of what was deleted comes back.
    pub fn set_waits_for_space(&mut self, waits_for_space: bool) {
        self.waits_for_space = waits_for_space;
    }

    /// Whether it waits on a full disk while the space of what was deleted comes back.
    pub fn waits_for_space(&self) -> bool {
        self.waits_for_space
    }

    /// The changes in their order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The changes in their order, to keep.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn get(&self, key: &[u8]) -> FsResult<Option<Vec<u8>>> {
        (**self).get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visitor<'_>) -> FsResult<()> {
        (**self).scan(start, end, visit)
    }

    fn commit(&self, batch: Batch) -> FsResult<()> {
        (**self).commit(batch)
    }

    fn sync(&self) -> FsResult<()> {
        (**self).sync()
    }

    fn space(&self) -> FsResult<Space> {
        (**self).space()
    }

    fn close(&self) -> FsResult<()> {
        (**self).close()
    }
}

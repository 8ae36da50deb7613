//! Memory that outlives the process but not the machine, in pieces that belong to one store. Any thread.
//!
//! Invariants:
//! 1. A piece belongs to the directory of the storage that it was asked of: a copy of that directory has none of its pieces.
//! 2. A piece is there, whole, from its creation until somebody removes it or the machine's life ends. Who holds its mapping or has
//!    it open keeps its bytes beyond removal.
//! 3. A piece has its memory from the start: no store to it can find that there is none.

use super::{MappedFile, StorageFile};
use crate::util::Result;
use crate::util::sync::Arc;
use std::path::PathBuf;

/// See the module.
pub trait SharedMemory: Send + Sync + std::fmt::Debug {
    /// Whether it is known for certain that pieces outlive the process. Where that cannot be told, whoever asks for it all the
    /// same vouches for it.
    fn outlives_process(&self) -> bool;
    /// Where a piece lies, for messages.
    fn path_of(&self, piece: u64) -> PathBuf;
    /// The store's pieces, in no order.
    fn list(&self) -> Result<Vec<u64>>;
    /// Makes a piece of zeroes that nobody else can read, by a name that must not exist; all of it is present and mapped. After
    /// an error there is none.
    fn create(&self, piece: u64, length: usize) -> Result<Arc<dyn MappedFile>>;
    /// Opens a piece for reading; `None` where there is none by this name that is ours.
    fn open(&self, piece: u64) -> Result<Option<Arc<dyn StorageFile>>>;
    /// Removes a piece.
    fn remove(&self, piece: u64) -> Result<()>;
}

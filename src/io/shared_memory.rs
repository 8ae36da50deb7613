//! Memory that outlives the process but not the machine, in pieces that belong to one store. Any thread.
//!
//! Invariants:
//! 1. A piece belongs to the directory of the storage that created it: a copy of that directory has none of its pieces.
//! 2. A piece exists completely from its creation until it is removed or the life ends. A process that has it mapped or
//!    open keeps its bytes even after removal.
//! 3. A piece has its memory from the start: no store to it can find that there is none.

use super::{MappedFile, StorageFile};
use crate::util::Result;
use crate::util::sync::Arc;
use std::path::PathBuf;

/// See the module.
pub trait SharedMemory: Send + Sync + std::fmt::Debug {
    /// Whether it is certain that pieces outlive the process. If not, a user who asks for shared memory nevertheless is
    /// responsible for that.
    fn outlives_process(&self) -> bool;
    /// Where a piece is, for messages.
    fn path_of(&self, piece: u64) -> PathBuf;
    /// The store's pieces, unordered.
    fn list(&self) -> Result<Vec<u64>>;
    /// Creates a piece of zeroes that no other user can read, under a name that must not exist. All of it is present
    /// and mapped. After an error there is none.
    fn create(&self, piece: u64, length: usize) -> Result<Arc<dyn MappedFile>>;
    /// Opens a piece for reading; `None` if there is no trusted one of this name.
    fn open(&self, piece: u64) -> Result<Option<Arc<dyn StorageFile>>>;
    /// Removes a piece.
    fn remove(&self, piece: u64) -> Result<()>;
}

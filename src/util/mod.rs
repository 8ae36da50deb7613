//! Layer 0: utilities for every other layer. No I/O, no formats, no knowledge of the store.

pub mod arena;
pub mod checksum;
pub mod error;
pub mod fork;
pub mod hash;
pub mod key;
pub mod limits;
pub mod parallel;
pub(crate) mod planted;
pub mod prefetch;
pub(crate) mod random;
pub mod sequencer;
pub mod sync;
mod types;
pub mod varint;

pub use error::{Error, Result};
pub use key::KeyspaceId;
pub use types::{DatabaseId, FileNumber, FileNumbers, Kind, SequenceNumber};

//! Layer 0: utilities for every other layer. No I/O, no formats, no knowledge of the store.

pub mod arena;
pub mod checksum;
pub mod error;
pub mod fork;
pub mod hash;
pub mod key;
pub mod kind;
pub mod limits;
pub mod number;
pub mod parallel;
pub(crate) mod planted;
pub mod prefetch;
pub(crate) mod random;
pub mod sequencer;
pub mod sync;
pub mod varint;

pub use error::{Error, Result};
pub use key::KeyspaceId;
pub use kind::Kind;
pub use number::{DatabaseId, FileNumber, FileNumbers, SequenceNumber};

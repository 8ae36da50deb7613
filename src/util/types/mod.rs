//! The plain types that every layer shares: the kinds of entries, and numbers that must not be mixed up.

mod kind;
mod number;

pub use kind::Kind;
pub use number::{DatabaseId, FileNumber, FileNumbers, SequenceNumber};

//! The modules that the shared files use.

#[path = "../../../../src/util/types/number.rs"]
pub mod number;
#[allow(dead_code, reason = "most bugs are of parts that are not here")]
#[path = "../../../../src/util/planted.rs"]
pub(crate) mod planted;
#[path = "../../../../src/util/sequencer.rs"]
pub mod sequencer;
pub mod sync;

pub use number::SequenceNumber;

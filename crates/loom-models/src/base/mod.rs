//! What `base/sequencer.rs` finds around it.

#[path = "../../../../src/base/number.rs"]
pub mod number;
#[allow(dead_code, reason = "most bugs are of parts that are not here")]
#[path = "../../../../src/base/planted.rs"]
pub(crate) mod planted;
#[path = "../../../../src/base/sequencer.rs"]
pub mod sequencer;
pub mod sync;

pub use number::SequenceNumber;

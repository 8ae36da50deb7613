//! Small parts of the store with loom's atomics: the files `util/sequencer.rs` and `engine/state/snapshot_slots.rs` of
//! alluvium, and short copies of the protocols of `memory/`, whose memory words are too small for loom. The models are
//! in `tests/models.rs` (`docs/concurrency.md`, Model checking).

pub mod protocols;
#[path = "../../../src/engine/state/snapshot_slots.rs"]
pub mod snapshot_slots;
pub mod util;

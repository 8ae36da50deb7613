//! Small parts of the store with loom's atomics: the file `util/sequencer.rs` of alluvium, and short copies of the
//! protocols of `memory/`, whose memory words are too small for loom. The models are in `tests/models.rs`
//! (`docs/concurrency.md`, Model checking).

pub mod protocols;
pub mod util;

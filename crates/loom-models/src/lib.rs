//! Small parts of the store over loom's atomics: `util/sequencer.rs` as it stands in alluvium, and the protocols of `memory/` retold,
//! whose words are too small for loom's. `tests/models.rs` has the models (`docs/concurrency.md`, Model checking).

pub mod retold;
pub mod util;

//! The soak test: a random mix of operations on a store that is killed and reopened again and again, with every read
//! checked.
//!
//! There are two processes. The parent (`parent`) starts a child for each round, checks its resource use (`limits`),
//! ends it and reports (`report`). The child (`child`) opens the store, checks its contents and works: writer threads
//! (`writer`, `held_snapshot`) and an observer (`observer`). Both map one file of counters (`board`). `directory` defines
//! the contents of a soak's directory.
//!
//! 1. Operation `n` of writer `w` is a function of (seed, w, n): `work`. So the state of its keys after `n` operations
//!    can be computed: `model`.
//! 2. Each writer has its own keys. Its counters on the board satisfy `synced <= acknowledged <= begun <= acknowledged
//!    + 1`.
//! 3. After a kill, the keys of each writer equal the state after `acknowledged` operations or, if one was in flight,
//!    one more. After a forced cut, they equal the state after some number of operations from `synced` to `begun`.

mod board;
mod child;
mod directory;
mod held_snapshot;
mod limits;
mod model;
mod observer;
mod parent;
mod plan;
mod reading;
mod report;
mod work;
mod writer;

pub use child::run_round;
pub use directory::SoakDirectory;
pub use parent::{SoakArguments, soak};
pub use work::Work;

/// A failed check, as text. An error of the store is one too: no operation may fail here.
#[derive(Debug)]
pub struct Broken(pub String);

impl From<alluvium::Error> for Broken {
    fn from(error: alluvium::Error) -> Self {
        Self(error.to_string())
    }
}

//! The soak: a store under a random mix of work that is killed and reopened again and again, with every read checked.
//!
//! Two processes. The parent (`parent`) starts a child for each life, watches its resources (`watch`), ends it and reports
//! (`report`). The child (`life`) opens the store, checks that it holds what it must, and works: writer threads (`writer`,
//! `held`) and an observer (`observer`). Both map one file of counters (`board`). What a directory of a soak holds: `place`.
//!
//! 1. What writer `w` does in its operation `n` follows from (seed, w, n): `work`. So the state of its keys after `n`
//!    operations is known to whoever can count: `model`.
//! 2. A writer's keys are its own. Its counters on the board satisfy `synced <= acknowledged <= begun <= acknowledged + 1`.
//! 3. After a death the keys of each writer equal the state after `acknowledged` operations or, where one was in flight,
//!    one more; after a forced cut, after some number from `synced` to `begun`.

mod board;
mod held;
mod life;
mod model;
mod observer;
mod parent;
mod place;
mod plan;
mod reading;
mod report;
mod watch;
mod work;
mod writer;

pub use life::live;
pub use parent::{Asked, soak};
pub use place::Place;
pub use work::Work;

/// What was found wrong, in words. A store's error is one too: nothing here may fail.
#[derive(Debug)]
pub struct Broken(pub String);

impl From<alluvium::Error> for Broken {
    fn from(error: alluvium::Error) -> Self {
        Self(error.to_string())
    }
}

//! The door to atomics and locks, as in alluvium; behind it are loom's.

pub use loom::sync::atomic::{AtomicU64, Ordering, fence};
pub use std::sync::Arc;

/// As that of alluvium.
#[derive(Debug)]
pub struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// Nobody has it.
    pub fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    /// Shares it. Panics where a thread panicked with it.
    pub fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("a failed model goes no further")
    }

    /// Takes it. Panics where a thread panicked with it.
    pub fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("a failed model goes no further")
    }
}

/// As that of alluvium.
#[derive(Debug, Default)]
pub struct Backoff;

impl Backoff {
    /// A fresh wait.
    pub fn new() -> Self {
        Self
    }

    /// One round of waiting.
    pub fn wait(&mut self) {
        loom::thread::yield_now();
    }
}

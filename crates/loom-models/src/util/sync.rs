//! Atomics and locks with alluvium's interface, implemented by loom.

pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::Arc;

/// Like alluvium's.
#[derive(Debug)]
pub struct RwLock<T>(loom::sync::RwLock<T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub fn new(value: T) -> Self {
        Self(loom::sync::RwLock::new(value))
    }

    /// Locks for reading. Panics if a thread panicked with the lock.
    pub fn read(&self) -> loom::sync::RwLockReadGuard<'_, T> {
        self.0.read().expect("a failed model goes no further")
    }

    /// Locks for writing. Panics if a thread panicked with the lock.
    pub fn write(&self) -> loom::sync::RwLockWriteGuard<'_, T> {
        self.0.write().expect("a failed model goes no further")
    }
}

/// Like alluvium's.
#[derive(Debug, Default)]
pub struct Backoff;

impl Backoff {
    /// A new wait.
    pub fn new() -> Self {
        Self
    }

    /// One round of waiting.
    pub fn wait(&mut self) {
        loom::thread::yield_now();
    }
}

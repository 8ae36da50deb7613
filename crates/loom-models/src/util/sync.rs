//! Atomics and locks with alluvium's interface, implemented by loom.

pub use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
pub use std::sync::Arc;

/// Like the standard library's, with loom's ordering: who finds the value sees what came before it was set.
#[derive(Debug)]
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: AtomicBool,
}

impl<T> OnceLock<T> {
    /// One without a value.
    #[allow(clippy::new_without_default, reason = "alluvium uses `new`")]
    pub fn new() -> Self {
        Self { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false) }
    }

    /// The value, if one was set.
    pub fn get(&self) -> Option<&T> {
        if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
    }

    /// Sets the value, unless there is one.
    ///
    /// # Errors
    /// The given value, if there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        match self.value.set(value) {
            Ok(()) => {
                self.is_set.store(true, Ordering::Release);
                Ok(())
            }
            Err(value) => {
                // Like the standard library's, which fails only once the value can be seen.
                while !self.is_set.load(Ordering::Acquire) {
                    loom::thread::yield_now();
                }
                Err(value)
            }
        }
    }

    /// Takes the value out.
    pub fn take(&mut self) -> Option<T> {
        self.value.take()
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

//! The open store. A `DB` and all objects that came from it share it until it is closed.
//!
//! Invariants:
//! 1. A caller that takes the store (`Handle::engine`) holds it for one call into the store and runs no Python code
//!    meanwhile. So closing, which waits until nobody holds it, never waits for long, and never for its own thread.
//! 2. A forked child does not use the store: locks in its memory may be held by threads that it does not have. Objects
//!    that the child drops are leaked (`Owned`).

use crate::engine::Engine;
use crate::errors::{Failure, Outcome};
use crate::lock::lock;
use alluvium::Error;
use alluvium::ForkCount;
use arc_swap::ArcSwapOption;
use pyo3::Python;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often closing checks whether calls of other threads have ended.
const POLL_INTERVAL: Duration = Duration::from_micros(200);

/// See the module.
pub struct Handle {
    engine: ArcSwapOption<Engine>,
    process: ForkCount,
}

impl Handle {
    /// Creates the handle of a store that was just opened.
    pub fn new(engine: Engine) -> Self {
        Self { engine: ArcSwapOption::from_pointee(engine), process: ForkCount::current() }
    }

    /// Returns the store for one call into it.
    pub fn engine(&self) -> Outcome<Arc<Engine>> {
        self.check_process()?;
        self.engine.load_full().ok_or(Failure::Closed("store"))
    }

    /// Returns an error if the store is closed, or if this process is a child of the one that opened it.
    pub fn check(&self) -> Outcome<()> {
        self.check_process()?;
        if self.is_closed() { Err(Failure::Closed("store")) } else { Ok(()) }
    }

    /// Returns an error if this process is a child of the one that opened the store.
    pub fn check_process(&self) -> Outcome<()> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked.into()) }
    }

    /// Whether the store is closed.
    pub fn is_closed(&self) -> bool {
        self.engine.load().is_none()
    }

    /// Wraps an object that belongs to the store.
    pub fn own<T>(&self, value: T) -> Owned<T> {
        Owned { value: Some(value), process: self.process }
    }

    /// Drops an object once no other thread uses it. In a forked child, which lacks those threads, it is leaked.
    pub fn end<T: Send>(&self, py: Python<'_>, mutex: &Mutex<Owned<T>>) {
        if self.process.is_current() {
            let mut guard = lock(py, mutex);
            let owned: &mut Owned<T> = &mut guard;
            py.detach(|| owned.end());
        }
    }

    /// Closes the store once the calls of other threads have ended. Does nothing if it is closed. Must be called
    /// detached.
    pub fn close(&self) -> Outcome<()> {
        let Some(mut engine) = self.engine.swap(None) else { return Ok(()) };
        if !self.process.is_current() {
            std::mem::forget(engine);
            return Ok(());
        }
        loop {
            match Arc::try_unwrap(engine) {
                Ok(engine) => return Ok(engine.close()?),
                Err(in_use) => engine = in_use,
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_closed() {
            return;
        }
        // Errors are ignored here; `close` returns them.
        let close = || drop(self.close());
        if Python::try_attach(|py| py.detach(close)).is_none() {
            close();
        }
    }
}

/// An object that belongs to a store. It is leaked if it is dropped in a forked child.
pub struct Owned<T> {
    value: Option<T>,
    process: ForkCount,
}

impl<T> Owned<T> {
    /// Returns the object; `None` if it was dropped or taken.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Like `get`, for changes.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut()
    }

    /// Takes the object.
    pub fn take(&mut self) -> Option<T> {
        self.value.take()
    }

    /// Drops the object.
    fn end(&mut self) {
        let value = self.value.take();
        if !self.process.is_current() {
            std::mem::forget(value);
        }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.end();
    }
}

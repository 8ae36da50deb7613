//! The open store that a `DB` and all that comes from it share, until it is closed.
//!
//! Invariants:
//! 1. Whoever takes the store out (`Handle::engine`) has it for one call into the store and runs no Python code meanwhile; so closing,
//!    which waits until nobody has it, never waits for long, and never for itself.
//! 2. A forked child touches nothing of the store: locks in its memory may be held by threads that it does not have. What the child drops
//!    is left in memory (`Owned`).

use crate::engine::Engine;
use crate::errors::{Failure, Outcome};
use crate::lock::lock;
use alluvium::Error;
use alluvium::ForkCount;
use arc_swap::ArcSwapOption;
use pyo3::Python;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often closing looks whether calls of other threads have ended.
const LOOK: Duration = Duration::from_micros(200);

/// See the module.
pub struct Handle {
    engine: ArcSwapOption<Engine>,
    process: ForkCount,
}

impl Handle {
    /// Of a store that was just opened.
    pub fn new(engine: Engine) -> Self {
        Self { engine: ArcSwapOption::from_pointee(engine), process: ForkCount::current() }
    }

    /// The store, for one call into it.
    pub fn engine(&self) -> Outcome<Arc<Engine>> {
        self.check_process()?;
        self.engine.load_full().ok_or(Failure::Closed("store"))
    }

    /// An error where the store was closed, or this process is a child of the one that opened it.
    pub fn check(&self) -> Outcome<()> {
        self.check_process()?;
        if self.is_closed() { Err(Failure::Closed("store")) } else { Ok(()) }
    }

    fn check_process(&self) -> Outcome<()> {
        if self.process.is_current() { Ok(()) } else { Err(Error::Forked.into()) }
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.engine.load().is_none()
    }

    /// Wraps something that belongs to the store.
    pub fn own<T>(&self, value: T) -> Owned<T> {
        Owned { value: Some(value), process: self.process }
    }

    /// Gives up what others may be using, once they do not. In a forked child, where those may not be there, it is left as it is.
    pub fn end<T: Send>(&self, py: Python<'_>, mutex: &Mutex<Owned<T>>) {
        if self.process.is_current() {
            let mut guard = lock(py, mutex);
            let owned: &mut Owned<T> = &mut guard;
            py.detach(|| owned.end());
        }
    }

    /// Closes the store once the calls of other threads have ended; nothing where it is closed. To be called detached.
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
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.is_closed() {
            return;
        }
        // Whoever wants to know of an error calls `close`.
        let close = || drop(self.close());
        if Python::try_attach(|py| py.detach(close)).is_none() {
            close();
        }
    }
}

/// Something that belongs to a store; dropped in a forked child, it is left in memory.
pub struct Owned<T> {
    value: Option<T>,
    process: ForkCount,
}

impl<T> Owned<T> {
    /// What it is; `None` once it was given up.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.as_mut()
    }

    /// Takes it out.
    pub fn take(&mut self) -> Option<T> {
        self.value.take()
    }

    /// Gives it up.
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

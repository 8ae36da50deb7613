//! Atomics and a condition variable in which every use is a point where the model checker may switch to another thread (feature
//! `model-checking`).
//!
//! An atomic has the layout of the one that it replaces, so that words of an arena or of a mapped file can be used as
//! one. In a model, all threads share one system thread and run one at a time: the explored orders are those of
//! sequential consistency. The further effects of weaker memory orders are tested by `crates/loom-models` and
//! ThreadSanitizer.
//!
//! Outside a model, in the ordinary tests, everything works as usual, at a higher cost.

use super::locks::MutexGuard;
use super::points::{PAUSE, is_scheduled, pause, point};
use std::ops::{Deref, DerefMut};
use std::sync::atomic;
use std::time::Duration;

/// The number of switches that a wait with a time limit lasts in a model, where there is no time.
const SWITCHES_MAX: u32 = 8;

/// An atomic. Every access goes through `point`.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Checked<A>(A);

impl<A> Deref for Checked<A> {
    type Target = A;

    fn deref(&self) -> &A {
        point();
        &self.0
    }
}

impl<A> DerefMut for Checked<A> {
    fn deref_mut(&mut self) -> &mut A {
        &mut self.0
    }
}

macro_rules! watched {
    ($($name:ident($value:ty)),*) => {$(
        /// See `Checked`.
        pub type $name = Checked<atomic::$name>;

        impl Checked<atomic::$name> {
            /// As the atomic's.
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// As the atomic's.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// As the atomic's.
            ///
            /// # Safety
            /// As the atomic's.
            pub unsafe fn from_ptr<'a>(value: *mut $value) -> &'a Self {
                // SAFETY: the caller's promise. This type has the layout of the atomic, which has that of the value.
                unsafe { &*value.cast() }
            }
        }

        impl From<$value> for Checked<atomic::$name> {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    )*};
}

watched!(AtomicBool(bool), AtomicU8(u8), AtomicU32(u32), AtomicU64(u64), AtomicUsize(usize));

/// See `Checked`.
pub type AtomicPtr<T> = Checked<atomic::AtomicPtr<T>>;

impl<T> Checked<atomic::AtomicPtr<T>> {
    /// As the atomic's.
    pub const fn new(value: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(value))
    }

    /// As the atomic's.
    pub fn into_inner(self) -> *mut T {
        self.0.into_inner()
    }
}

/// As `locks::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar {
    notified: atomic::AtomicU64,
}

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self { notified: atomic::AtomicU64::new(0) }
    }

    /// Releases the mutex and waits for a notification, then takes the mutex again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_rounds(guard, u32::MAX);
    }

    /// As `wait`, with a time limit. In a model it may return at any time.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) {
        let rounds = if is_scheduled() { SWITCHES_MAX } else { (timeout.as_micros() / PAUSE.as_micros()) as u32 };
        self.wait_rounds(guard, rounds);
    }

    fn wait_rounds<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, rounds: u32) {
        let seen = self.notified.load(atomic::Ordering::SeqCst);
        MutexGuard::unlocked(guard, || {
            for _ in 0..rounds {
                pause();
                if self.notified.load(atomic::Ordering::SeqCst) != seen {
                    break;
                }
            }
        });
    }

    /// Wakes all waiters. A waiter that should continue to wait checks again.
    pub fn notify_one(&self) {
        self.notify_all();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.notified.fetch_add(1, atomic::Ordering::SeqCst);
    }
}

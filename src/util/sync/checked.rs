//! Atomics and locks in which every use is a point where the model checker may switch to another thread (feature
//! `model-checking`).
//!
//! An atomic has the layout of the one that it replaces, so that words of an arena or of a mapped file can be used as
//! one. In a model, all threads share one system thread and run one at a time: the explored orders are those of
//! sequential consistency. The further effects of weaker memory orders are tested by `crates/loom-models` and
//! ThreadSanitizer.
//!
//! Outside a model, in the ordinary tests, everything works as usual, at a higher cost.

use parking_lot::lock_api;
use std::ops::{Deref, DerefMut};
use std::sync::atomic;
use std::time::Duration;

/// The number of switches that a wait with a time limit lasts in a model, where there is no time.
const SWITCHES_MAX: u32 = 8;
/// The pause between two checks of a wait outside a model.
const PAUSE: Duration = Duration::from_micros(50);

/// Whether the calling thread belongs to a model and may be switched.
fn is_scheduled() -> bool {
    // While a failure unwinds, no other thread runs.
    !std::thread::panicking() && shuttle::current::try_get_current_task().is_some()
}

/// A point where another thread may run.
fn point() {
    if is_scheduled() {
        // It takes no time: a model has none. Unlike a yield it says nothing about whether this thread can continue.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Lets other threads run first, because the caller waits for one of them. Returns false outside a model.
pub fn give_way() -> bool {
    let scheduled = is_scheduled();
    if scheduled {
        shuttle::thread::yield_now();
    }
    scheduled
}

fn pause() {
    if !give_way() {
        std::thread::sleep(PAUSE);
    }
}

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

/// Tries a lock until it is free. A thread that blocked would block the whole model.
fn take<G>(attempt: impl Fn() -> Option<G>) -> G {
    loop {
        if let Some(guard) = attempt() {
            return guard;
        }
        pause();
    }
}

/// A mutex that switches threads where another one would block.
pub struct RawMutex(parking_lot::RawMutex);

// SAFETY: a thread that holds this holds the inner lock, which is exclusive.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: Self = Self(parking_lot::RawMutex::INIT);
    type Guard = <parking_lot::RawMutex as lock_api::RawMutex>::Guard;

    fn lock(&self) -> Self::Guard {
        take(|| self.try_lock())
    }

    fn try_lock(&self) -> Option<Self::Guard> {
        point();
        self.0.try_lock()
    }

    unsafe fn unlock(&self, guard: Self::Guard) {
        // SAFETY: the caller holds it.
        unsafe { self.0.unlock(guard) }
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as for `RawMutex`; whom the lock goes to next is the scheduler's choice in a model.
unsafe impl lock_api::RawMutexFair for RawMutex {
    unsafe fn unlock_fair(&self, guard: Self::Guard) {
        // SAFETY: the caller holds the lock.
        unsafe { lock_api::RawMutex::unlock(self, guard) };
    }
}

/// As `RawMutex`, for many readers or one writer.
pub struct RawRwLock(parking_lot::RawRwLock);

// SAFETY: a thread that holds this holds the inner lock in the same mode.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: Self = Self(parking_lot::RawRwLock::INIT);
    type SharedGuard = <parking_lot::RawRwLock as lock_api::RawRwLock>::SharedGuard;
    type ExclusiveGuard = <parking_lot::RawRwLock as lock_api::RawRwLock>::ExclusiveGuard;

    fn lock_shared(&self) -> Self::SharedGuard {
        take(|| self.try_lock_shared())
    }

    fn try_lock_shared(&self) -> Option<Self::SharedGuard> {
        point();
        self.0.try_lock_shared()
    }

    unsafe fn unlock_shared(&self, guard: Self::SharedGuard) {
        // SAFETY: the caller holds it shared.
        unsafe { self.0.unlock_shared(guard) }
    }

    fn lock_exclusive(&self) -> Self::ExclusiveGuard {
        take(|| self.try_lock_exclusive())
    }

    fn try_lock_exclusive(&self) -> Option<Self::ExclusiveGuard> {
        point();
        self.0.try_lock_exclusive()
    }

    unsafe fn unlock_exclusive(&self, guard: Self::ExclusiveGuard) {
        // SAFETY: the caller holds it exclusively.
        unsafe { self.0.unlock_exclusive(guard) }
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}

/// As `parking_lot`'s.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// As `parking_lot`'s.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// As `parking_lot`'s.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// As `parking_lot`'s.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// As `parking_lot`'s, with all of its calls that the store uses.
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

//! Atomics and locks whose every use is a point at which the model checker may let another thread go on (feature `model-checking`).
//!
//! An atomic is laid out as the one it stands for, so that words of an arena or of a mapped file can be one. In a model all threads
//! share one thread of the system and one goes at a time: the orders tried are those of sequential consistency. What weaker
//! memory may do besides is for `crates/loom-models` and ThreadSanitizer.
//!
//! Outside a model, in the ordinary tests, all of this works as usual and only costs more.

use parking_lot::lock_api;
use std::ops::{Deref, DerefMut};
use std::sync::atomic;
use std::time::Duration;

/// How often a wait with a limit gives way in a model, where there is no time.
const PATIENCE: u32 = 8;
/// Between two looks of a wait outside a model.
const PAUSE: Duration = Duration::from_micros(50);

/// Whether the calling thread is one of a model, and may be stopped here.
fn is_scheduled() -> bool {
    // While a failure unwinds, nothing else goes on.
    !std::thread::panicking() && shuttle::current::try_get_current_task().is_some()
}

/// Where another thread may go on.
fn point() {
    if is_scheduled() {
        // It takes no time: there is none in a model. Unlike a yield it says nothing about whether this thread may go on.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Lets others go on first, as the caller waits for one of them; false outside a model.
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

/// An atomic, to be reached through a point.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Watched<A>(A);

impl<A> Deref for Watched<A> {
    type Target = A;

    fn deref(&self) -> &A {
        point();
        &self.0
    }
}

impl<A> DerefMut for Watched<A> {
    fn deref_mut(&mut self) -> &mut A {
        &mut self.0
    }
}

macro_rules! watched {
    ($($name:ident($value:ty)),*) => {$(
        /// See `Watched`.
        pub type $name = Watched<atomic::$name>;

        impl Watched<atomic::$name> {
            /// As that of what is watched.
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// As that of what is watched.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// As that of what is watched.
            ///
            /// # Safety
            /// As that of what is watched.
            pub unsafe fn from_ptr<'a>(value: *mut $value) -> &'a Self {
                // SAFETY: the caller's promise; this is laid out as what it watches, and that as the value.
                unsafe { &*value.cast() }
            }
        }

        impl From<$value> for Watched<atomic::$name> {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    )*};
}

watched!(AtomicBool(bool), AtomicU8(u8), AtomicU32(u32), AtomicU64(u64), AtomicUsize(usize));

/// See `Watched`.
pub type AtomicPtr<T> = Watched<atomic::AtomicPtr<T>>;

impl<T> Watched<atomic::AtomicPtr<T>> {
    /// As that of what is watched.
    pub const fn new(value: *mut T) -> Self {
        Self(atomic::AtomicPtr::new(value))
    }

    /// As that of what is watched.
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

/// A mutex that gives way where another one would block.
pub struct RawMutex(parking_lot::RawMutex);

// SAFETY: whoever holds this holds the one inside, which excludes.
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

/// As `RawMutex`, for many readers or one writer.
pub struct RawRwLock(parking_lot::RawRwLock);

// SAFETY: whoever holds this holds the one inside, in the same way.
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
        // SAFETY: the caller holds it alone.
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
    /// Nobody waits.
    pub const fn new() -> Self {
        Self { notified: atomic::AtomicU64::new(0) }
    }

    /// Lets go of the mutex and waits for a notification; then takes it again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_rounds(guard, u32::MAX);
    }

    /// The same, but not longer than this; in a model it may end at any time.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) {
        let rounds = if is_scheduled() { PATIENCE } else { (timeout.as_micros() / PAUSE.as_micros()) as u32 };
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

    /// Ends the waits of all; one that was to go on waiting looks again.
    pub fn notify_one(&self) {
        self.notify_all();
    }

    /// Ends the waits of all.
    pub fn notify_all(&self) {
        self.notified.fetch_add(1, atomic::Ordering::SeqCst);
    }
}

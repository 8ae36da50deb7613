//! Locks: those of the standard library, with guards that can be released for a moment. A panic does not poison them.
//!
//! They are words in the structure that they protect, and nothing else: no table of waiting threads, which a forked child
//! would inherit with the parent's threads in it (`docs/recovery.md`, O5).

#[cfg(feature = "model-checking")]
use super::points;
use std::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, PoisonError, TryLockError, TryLockResult};

/// The value or guard, poisoned or not: a panic inside the store makes the store refuse writes by itself.
fn sound<G>(result: LockResult<G>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

fn attempted<G>(result: TryLockResult<G>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Exclusive access to a value.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// The access, until it is dropped.
#[derive(Debug)]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Absent only while the guard is released for a moment.
    guard: Option<sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    /// A free mutex.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// The value.
    pub fn into_inner(self) -> T {
        sound(self.0.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the mutex and takes it. Nothing is said about whose turn is next.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, guard: Some(self.acquire()) }
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(feature = "model-checking")]
        points::point();
        Some(MutexGuard { mutex: self, guard: Some(attempted(self.0.try_lock())?) })
    }

    /// The value, which no other thread can have.
    pub fn get_mut(&mut self) -> &mut T {
        sound(self.0.get_mut())
    }

    #[inline]
    fn acquire(&self) -> sync::MutexGuard<'_, T> {
        #[cfg(feature = "model-checking")]
        return points::take(|| attempted(self.0.try_lock()));
        #[cfg(not(feature = "model-checking"))]
        sound(self.0.lock())
    }
}

impl<T: ?Sized> MutexGuard<'_, T> {
    /// Releases the mutex for a call and takes it again.
    pub fn unlocked<R>(this: &mut Self, call: impl FnOnce() -> R) -> R {
        this.guard = None;
        let taken_again = Retaken(this);
        let result = call();
        drop(taken_again);
        result
    }
}

/// Takes the mutex again, also if the call panicked.
struct Retaken<'g, 'a, T: ?Sized>(&'g mut MutexGuard<'a, T>);

impl<T: ?Sized> Drop for Retaken<'_, '_, T> {
    fn drop(&mut self) {
        self.0.guard = Some(self.0.mutex.acquire());
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.guard {
            Some(guard) => guard,
            None => unreachable!("the guard is borrowed while it is released"),
        }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.guard {
            Some(guard) => guard,
            None => unreachable!("the guard is borrowed while it is released"),
        }
    }
}

/// Waits for a notification, with the mutex released.
#[cfg(not(feature = "model-checking"))]
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

#[cfg(not(feature = "model-checking"))]
impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Releases the mutex and waits for a notification, then takes the mutex again. It may return without one.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(held) = guard.guard.take() {
            guard.guard = Some(sound(self.0.wait(held)));
        }
    }

    /// As `wait`, with a time limit.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: std::time::Duration) {
        if let Some(held) = guard.guard.take() {
            guard.guard = Some(sound(self.0.wait_timeout(held, timeout)).0);
        }
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Access to a value for many readers or one writer. A reader may not take it twice: a writer that waits between would
/// block both.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

/// A reader's access, until it is dropped.
pub type RwLockReadGuard<'a, T> = sync::RwLockReadGuard<'a, T>;
/// A writer's access, until it is dropped.
pub type RwLockWriteGuard<'a, T> = sync::RwLockWriteGuard<'a, T>;

impl<T> RwLock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self(sync::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no writer has the lock and shares it.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        #[cfg(feature = "model-checking")]
        return points::take(|| attempted(self.0.try_read()));
        #[cfg(not(feature = "model-checking"))]
        sound(self.0.read())
    }

    /// Waits for the lock and takes it for writing.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        #[cfg(feature = "model-checking")]
        return points::take(|| attempted(self.0.try_write()));
        #[cfg(not(feature = "model-checking"))]
        sound(self.0.write())
    }

    /// Takes the lock for writing if it is free.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        #[cfg(feature = "model-checking")]
        points::point();
        attempted(self.0.try_write())
    }
}

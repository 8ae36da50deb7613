//! Detects whether this process is still the one that created a value, or a forked child of it. Any thread.
//!
//! Invariant: in a child, the count increases before `fork` returns, by a handler that the first `ForkCount` installs.
//! A child created by a bare `clone` system call is not detected.

use super::sync::{AtomicU32, Ordering};
use std::sync::Once;

/// The number of forks that led to this process since the first `ForkCount` was taken.
static FORKS: AtomicU32 = AtomicU32::new(0);
static INSTALLED: Once = Once::new();

/// A process, identified by the number of forks that led to it.
///
/// ```
/// use alluvium::ForkCount;
/// let process = ForkCount::current();
/// assert!(process.is_current()); // false in a child that is forked from here on
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkCount(u32);

impl ForkCount {
    /// The current process.
    pub fn current() -> Self {
        INSTALLED.call_once(|| {
            // SAFETY: `count` is a function that exists for the whole life of the program. It only does an atomic
            // addition, which is allowed in a child of a multithreaded process. If the call fails (no memory), forks
            // stay undetected, nothing worse.
            unsafe { libc::pthread_atfork(None, None, Some(count)) };
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// How many forks led to the process.
    pub(crate) fn number(self) -> usize {
        self.0 as usize
    }

    /// Whether the current process is still that process. One load of a word that almost never changes.
    #[inline]
    pub fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

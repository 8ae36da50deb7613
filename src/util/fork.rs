//! Whether this process is still the one that something was made in, or a forked child of it. Any thread.
//!
//! Invariant: the count rises in a child before `fork` returns there, by a handler that the first `ForkCount` installs. A
//! child made by a bare `clone` system call is not seen.

use super::sync::{AtomicU32, Ordering};
use std::sync::Once;

/// How many forks led to this process since the first `ForkCount` was taken.
static FORKS: AtomicU32 = AtomicU32::new(0);
static INSTALLED: Once = Once::new();

/// A process, by the forks that led to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForkCount(u32);

impl ForkCount {
    /// The present process.
    pub fn current() -> Self {
        INSTALLED.call_once(|| {
            // SAFETY: `count` is a function for the program's whole life, and does nothing but an atomic addition, which is
            // allowed in a child of a process with many threads. A failure (no memory) leaves forks unseen, nothing worse.
            unsafe { libc::pthread_atfork(None, None, Some(count)) };
        });
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Whether this still is that process. One load of a word that nearly never changes.
    #[inline]
    pub fn is_current(self) -> bool {
        FORKS.load(Ordering::Relaxed) == self.0
    }
}

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

//! When to look which files have expired, and what was done about them. Any thread.

use crate::util::FileNumber;
use crate::util::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use std::collections::BTreeSet;
use std::time::Duration;

/// The time between two looks at the files.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// The same while snapshots still need what has expired.
const WHILE_HELD: Duration = Duration::from_secs(10);

/// No look at the files is due.
const NEVER: u64 = u64::MAX;

/// What was done about the space of what has expired.
#[derive(Debug)]
pub(crate) struct ExpiredSpace {
    /// Files whose compaction was asked for. Held during a look at the files.
    asked: Mutex<BTreeSet<FileNumber>>,
    /// Times of the store's clock, nanoseconds: the earliest one of the next look, and when it is due.
    not_before: AtomicU64,
    due: AtomicU64,
}

impl Default for ExpiredSpace {
    fn default() -> Self {
        Self { asked: Mutex::default(), not_before: AtomicU64::new(0), due: AtomicU64::new(NEVER) }
    }
}

impl ExpiredSpace {
    /// Something has expired: looks soon.
    pub(crate) fn note_expired(&self) {
        self.due.fetch_min(self.not_before.load(Ordering::Relaxed), Ordering::Release);
    }

    /// When the next look is due.
    pub(crate) fn due(&self) -> Option<Duration> {
        let due = self.due.load(Ordering::Acquire);
        (due != NEVER).then(|| Duration::from_nanos(due))
    }

    /// A look begins: returns the files whose compaction was asked for. If one goes on, another one follows it.
    pub(crate) fn begin(&self, now: Duration) -> Option<MutexGuard<'_, BTreeSet<FileNumber>>> {
        self.due.store(NEVER, Ordering::Release);
        self.not_before.store(nanos(now + BETWEEN_LOOKS), Ordering::Relaxed);
        let asked = self.asked.try_lock();
        if asked.is_none() {
            self.note_expired();
        }
        asked
    }

    /// Snapshots still have some of what has expired, and may end at any time.
    pub(crate) fn note_held(&self, now: Duration) {
        self.due.fetch_min(nanos(now + WHILE_HELD), Ordering::Release);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER - 1)
}

//! How much of its limits a file system uses. Any thread; the lock is held for nothing else.
//!
//! 1. Nothing is counted without a limit.
//! 2. A request reserves what it adds before its commit, and gives it back if the commit fails. What a request takes away
//!    counts from the same moment on, so the limit may be passed by what requests in flight remove, if these fail.
//! 3. The sums are in the store only between a close and the next opening, which deletes them before it changes anything
//!    else. So a crash leaves none, and the opening after it counts anew by a scan of all inodes.
//! 4. After the sums were taken for the store no request adds or removes anything.

use crate::error::{FsError, FsResult};
use crate::format::{Entry, Key, Limits, Record, Usage, key};
use crate::fs::system::damaged;
use crate::store::Store;
use parking_lot::Mutex;
use std::ops::ControlFlow;

/// What a request adds, or takes away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::fs) struct Growth {
    bytes: i64,
    inodes: i64,
}

impl Growth {
    /// An inode comes.
    pub(in crate::fs) fn add(&mut self, record: &Record) {
        self.bytes = self.bytes.saturating_add_unsigned(record.attributes.allocated);
        self.inodes += 1;
    }

    /// An inode goes.
    pub(in crate::fs) fn remove(&mut self, record: &Record) {
        self.bytes = self.bytes.saturating_sub_unsigned(record.attributes.allocated);
        self.inodes -= 1;
    }

    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

#[derive(Debug)]
struct Counted {
    used: Usage,
    in_flight: u64,
    is_closed: bool,
}

/// The limits, and what is used if there are any.
#[derive(Debug)]
pub(in crate::fs) struct UsageCount {
    limits: Limits,
    counted: Option<Mutex<Counted>>,
}

/// What a request has reserved.
#[must_use]
pub(in crate::fs) struct Reserved<'u> {
    counted: Option<(&'u Mutex<Counted>, Growth)>,
}

impl UsageCount {
    /// `used` is `None` without limits.
    pub(in crate::fs) fn new(limits: Limits, used: Option<Usage>) -> Self {
        let counted = |used| Mutex::new(Counted { used, in_flight: 0, is_closed: false });
        Self { limits, counted: used.map(counted) }
    }

    pub(in crate::fs) fn limits(&self) -> Limits {
        self.limits
    }

    /// What is used; `None` without limits.
    pub(in crate::fs) fn used(&self) -> Option<Usage> {
        self.counted.as_ref().map(|counted| counted.lock().used)
    }

    /// Reserves what a request adds. `ENOSPC` if a limit does not allow it.
    pub(in crate::fs) fn reserve(&self, growth: Growth) -> FsResult<Reserved<'_>> {
        let Some(counted) = self.counted.as_ref().filter(|_| !growth.is_nothing()) else {
            return Ok(Reserved { counted: None });
        };
        let mut state = counted.lock();
        if state.is_closed {
            return Err(FsError::with_detail(libc::EIO, "the file system is closed"));
        }
        let next = grown(state.used, growth);
        let is_over = |growth: i64, used: u64, max: Option<u64>| growth > 0 && max.is_some_and(|max| used > max);
        if is_over(growth.bytes, next.bytes, self.limits.max_bytes) {
            return Err(FsError::with_detail(libc::ENOSPC, "the limit of bytes of the file system"));
        }
        if is_over(growth.inodes, next.inodes, self.limits.max_inodes) {
            return Err(FsError::with_detail(libc::ENOSPC, "the limit of inodes of the file system"));
        }
        state.used = next;
        state.in_flight += 1;
        Ok(Reserved { counted: Some((counted, growth)) })
    }

    /// Takes the sums for the store; `None` if they are not known.
    pub(in crate::fs) fn close(&self) -> Option<Usage> {
        let mut state = self.counted.as_ref()?.lock();
        state.is_closed = true;
        (state.in_flight == 0).then_some(state.used)
    }
}

fn grown(used: Usage, growth: Growth) -> Usage {
    Usage {
        bytes: used.bytes.saturating_add_signed(growth.bytes),
        inodes: used.inodes.saturating_add_signed(growth.inodes),
    }
}

impl Reserved<'_> {
    /// The commit has succeeded.
    pub(in crate::fs) fn keep(mut self) {
        if let Some((counted, _)) = self.counted.take() {
            counted.lock().in_flight -= 1;
        }
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some((counted, Growth { bytes, inodes })) = self.counted.take() {
            let mut state = counted.lock();
            state.used = grown(state.used, Growth { bytes: -bytes, inodes: -inodes });
            state.in_flight -= 1;
        }
    }
}

/// Counts what all inodes use. One scan of their records and of all names.
pub(in crate::fs) fn count(store: &impl Store) -> FsResult<Usage> {
    let (mut used, mut failure) = (Usage::default(), None);
    for (start, end) in [key::ENTRIES, key::INODES] {
        store.scan(start, end, &mut |found, value| {
            let record = match Key::decode(found) {
                Some(Key::Entry { .. }) => Entry::decode(value).map(|entry| match entry {
                    Entry::Embedded(record) => Some(record),
                    Entry::Link { .. } => None,
                }),
                Some(Key::Inode(_)) => Record::decode(value).map(Some),
                _ => Ok(None),
            };
            match record.map_err(damaged(found)) {
                Ok(None) => {}
                Ok(Some(record)) => {
                    used.bytes = used.bytes.saturating_add(record.attributes.allocated);
                    used.inodes += 1;
                }
                Err(error) => {
                    failure = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
    }
    failure.map_or(Ok(used), Err)
}

//! Compacting a key range because somebody asks for it. Any thread; the work is the pool's, or in a store without threads the
//! caller's.
//!
//! A call is a wish that idle workers look at (`tasks.rs`). What is still to be done for it is worked out from the tree each time, so
//! it does not matter who does it: the call's own jobs, those of another call, or work that was due anyway.

use super::tasks::Scheduler;
use crate::disk::RequestedRange;
use crate::engine::engine::{Driver, Engine};
use crate::merge::Retention;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use crate::util::{Error, Result, SequenceNumber};
use std::time::Duration;

/// How often a call tells how far it is.
const TELL: Duration = Duration::from_millis(50);

/// Which leaves `Db::compact_with` rewrites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// Those where a read meets more than one run, and those that may hold versions or deletes that no snapshot needs: the least space,
    /// and one run to read. `Db::compact` and `Db::compact_range`.
    #[default]
    Space,
    /// Only those where a read meets more than one run: reads are as fast, for less rewriting. `Db::optimize`.
    Reads,
}

/// How to compact.
///
/// ```
/// use alluvium::{Cancellation, CompactOptions, Goal};
/// let cancellation = Cancellation::new();
/// let options = CompactOptions { goal: Goal::Reads, cancellation: Some(cancellation.clone()) };
/// // Another thread, or a signal handler's, may end it:
/// cancellation.cancel();
/// ```
#[derive(Clone, Debug, Default)]
pub struct CompactOptions {
    /// What is rewritten.
    pub goal: Goal,
    /// Calls it off.
    pub cancellation: Option<Cancellation>,
}

/// Calls a long operation off, from any thread. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Not called off.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls the operation off: it ends within some milliseconds with `Error::Cancelled`. What it has done stays.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was called off.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How far `Db::compact_with` is. What is to be done is estimated, and changes where others write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactProgress {
    /// Bytes of branch files read and merged.
    pub bytes_done: u64,
    /// The same, and about how many are still to be.
    pub bytes_total: u64,
}

/// What `Db::compact_with` did. Work that was due anyway, and work for another such call, does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Bytes of branch files merged.
    pub bytes_read: u64,
    /// Bytes of branch files written.
    pub bytes_written: u64,
}

/// One call. Counters are relaxed: figures order nothing.
#[derive(Debug)]
pub(crate) struct CompactionRequest {
    pub(crate) wanted: RequestedRange,
    /// By the caller.
    cancellation: Option<Cancellation>,
    /// The call has ended.
    over: AtomicBool,
    read: AtomicU64,
    written: AtomicU64,
}

impl CompactionRequest {
    /// Whether jobs for it are to end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.cancellation.as_ref().is_some_and(Cancellation::is_cancelled)
    }

    /// A job for it has come to its end.
    pub(crate) fn note_done(&self, read: u64, written: u64) {
        self.read.fetch_add(read, Ordering::Relaxed);
        self.written.fetch_add(written, Ordering::Relaxed);
    }

    fn report(&self) -> CompactReport {
        CompactReport {
            bytes_read: self.read.load(Ordering::Relaxed),
            bytes_written: self.written.load(Ordering::Relaxed),
        }
    }
}

/// While it lives, idle workers do what is wished for.
struct RequestGuard<'a> {
    work: &'a Scheduler,
    request: Arc<CompactionRequest>,
}

impl<'a> RequestGuard<'a> {
    fn new(work: &'a Scheduler, request: CompactionRequest) -> Self {
        let request = Arc::new(request);
        work.state.lock().requests.push(Arc::clone(&request));
        work.wake();
        Self { work, request }
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.request.over.store(true, Ordering::Relaxed);
        self.work.state.lock().requests.retain(|request| !Arc::ptr_eq(request, &self.request));
    }
}

impl Engine {
    /// See `Db::compact_with`. Encoded keys.
    pub(crate) fn compact(
        &self,
        (lower, upper): (Vec<u8>, Option<Vec<u8>>),
        options: &CompactOptions,
        progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<CompactReport> {
        self.check_open()?;
        let is_cancelled = || options.cancellation.as_ref().is_some_and(Cancellation::is_cancelled);
        self.flush_unless(&is_cancelled)?;
        if is_cancelled() {
            return Err(Error::Cancelled);
        }
        if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            return Ok(CompactReport::default());
        }
        let through = SequenceNumber(self.incorporated.load(Ordering::Acquire));
        self.disk.forget_unreferenced(&self.view.load().disk);
        let wishing = RequestGuard::new(
            &self.work,
            CompactionRequest {
                wanted: RequestedRange { lower, upper, through, clean: options.goal == Goal::Space },
                cancellation: options.cancellation.clone(),
                over: AtomicBool::new(false),
                read: AtomicU64::new(0),
                written: AtomicU64::new(0),
            },
        );
        self.wait_for_wish(&wishing.request, progress)?;
        Ok(wishing.request.report())
    }

    fn wait_for_wish(&self, request: &Arc<CompactionRequest>, progress: &mut dyn FnMut(CompactProgress)) -> Result<()> {
        let (mut done, mut fed) = (0, false);
        loop {
            if request.is_cancelled() {
                return Err(Error::Cancelled);
            }
            self.health.check()?;
            if self.health.is_full() {
                // Only what frees space is merged.
                self.wait_until_idle()?;
                self.health.check_put()?;
            }
            let left = {
                let view = self.view.load();
                self.disk.remaining(&view.disk, &request.wanted, &Retention::new(self.snapshots.numbers()))
            };
            let (finished, running) = (request.report().bytes_read, self.work.running.done_for(request));
            // A job that ends between the looks is no step back.
            done = (finished + running).max(done);
            let bytes_total = (finished + left.unwrap_or(0)).max(done);
            progress(CompactProgress { bytes_done: if left.is_none() { bytes_total } else { done }, bytes_total });
            if left.is_none() {
                return Ok(());
            }
            if self.lacks_room(request) {
                if fed {
                    let reason = "what is left to merge needs more room than there is".into();
                    return Err(Error::DiskFull { reason });
                }
                fed = true;
                self.retry_backed_off();
            }
            match self.driver {
                Driver::Threads => self.work.wait_for_progress(TELL)?,
                Driver::Deterministic if self.step() => {}
                Driver::Deterministic => {
                    self.health.blocking_error()?;
                    let paused = self.work.is_paused();
                    assert!(paused, "nothing is left to do, and yet the range is not as it was wanted");
                    return Err(Error::InvalidArgument(
                        "background work is paused, and nobody else could do it".into(),
                    ));
                }
            }
        }
    }

    /// Whether what is left to do waits for room on the disk.
    fn lacks_room(&self, request: &CompactionRequest) -> bool {
        if !self.disk.is_backed_off() || self.work.state.lock().jobs > 0 {
            return false;
        }
        let (view, retention) = (self.view.load(), Retention::new(self.snapshots.numbers()));
        self.disk.pick(&view.disk, &retention).is_none()
            && self.disk.pick_requested(&view.disk, &request.wanted, &retention).is_none()
    }
}

//! Compaction requests of users: incorporate memory, then merge a key range until nothing remains. Any thread; the
//! workers do the work, or the calling thread with `Driver::Deterministic`.
//!
//! Invariant: a request covers only data that was there when it was made (`RequestedRange::through`), so that it ends
//! although writes go on.

use super::background::Background;
use crate::disk::RequestedRange;
use crate::engine::scheduler::compaction_request::CompactionRequest;
use crate::engine::scheduler::open_request::OpenRequest;
use crate::engine::types::compaction::{Cancellation, CompactOptions, CompactProgress, CompactReport, Goal};
use crate::merge::Retention;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::time::Duration;

/// How often a call reports its progress.
const BETWEEN_REPORTS: Duration = Duration::from_millis(50);

impl Background {
    /// See `Db::compact_with`. The keys are encoded.
    pub(crate) fn compact(
        &self,
        (lower, upper): (Vec<u8>, Option<Vec<u8>>),
        options: &CompactOptions,
        progress: &mut dyn FnMut(CompactProgress),
    ) -> Result<CompactReport> {
        self.read.check_open()?;
        let is_cancelled = || options.cancellation.as_ref().is_some_and(Cancellation::is_cancelled);
        self.generations.incorporate_all_unless(&is_cancelled)?;
        if is_cancelled() {
            return Err(Error::Cancelled);
        }
        if upper.as_ref().is_some_and(|upper| *upper <= lower) {
            return Ok(CompactReport::default());
        }
        // After the incorporation, so that it includes all data that was in memory at the call.
        let through = self.generations.incorporated().max(self.read.view.load().ingested);
        self.disk.forget_unreferenced(&self.read.view.load().disk);
        let next_file = self.read.branches.numbers.next();
        let buffered_below = (options.goal == Goal::Recovery).then_some(next_file);
        let clean = options.goal == Goal::Space;
        let filters = self.compaction_filters.current().filter(|_| clean).map(|filters| (filters, next_file));
        let range = RequestedRange { lower, upper, through, clean, buffered_below, filters };
        let registered = OpenRequest::new(&self.scheduler, CompactionRequest::new(range, options.cancellation.clone()));
        self.wait_for(registered.request(), progress)?;
        Ok(registered.request().report())
    }

    fn wait_for(&self, request: &Arc<CompactionRequest>, progress: &mut dyn FnMut(CompactProgress)) -> Result<()> {
        let (mut bytes_done, mut has_retried) = (0, false);
        loop {
            if request.is_cancelled() {
                return Err(Error::Cancelled);
            }
            self.health.check()?;
            if self.health.is_full() {
                // While the disk is full, only merges that free space run. Wait for those.
                self.wait_until_idle()?;
                self.health.check_put()?;
            }
            let bytes_left = {
                let view = self.read.view.load();
                self.disk.remaining(&view.disk, &request.range, &self.retention())
            };
            let (finished, running) = (request.report().bytes_read, self.scheduler.running.bytes_done_for(request));
            // A job that ends between these two reads is counted in neither. The reported figure never falls.
            bytes_done = (finished + running).max(bytes_done);
            let bytes_total = (finished + bytes_left.unwrap_or(0)).max(bytes_done);
            let reported = if bytes_left.is_none() { bytes_total } else { bytes_done };
            progress(CompactProgress { bytes_done: reported, bytes_total });
            if bytes_left.is_none() {
                return Ok(());
            }
            // Jobs that found no space are tried once more: other jobs may have freed some since.
            if self.lacks_space(request) {
                if has_retried {
                    let reason = "the remaining merges need more space than there is".into();
                    return Err(Error::DiskFull { reason });
                }
                has_retried = true;
                self.space.retry_backed_off();
            }
            // False only with the deterministic driver, if it has nothing to do.
            let has_run = self.scheduler.wait_for_progress(BETWEEN_REPORTS)?;
            if !has_run {
                self.health.blocking_error()?;
                assert!(
                    self.scheduler.is_paused(),
                    "the scheduler has no task, yet the requested range is not compacted"
                );
                return Err(Error::InvalidArgument("background work is paused, and this store has no threads".into()));
            }
        }
    }

    /// Whether the remaining jobs of a request all wait for space on the disk.
    fn lacks_space(&self, request: &CompactionRequest) -> bool {
        if !self.disk.is_backed_off() || self.scheduler.state.lock().jobs > 0 {
            return false;
        }
        let (view, retention) = (self.read.view.load(), self.retention());
        self.disk.pick(&view.disk, &retention).is_none()
            && self.disk.pick_requested(&view.disk, &request.range, &retention).is_none()
    }

    /// What live snapshots need retained now.
    pub(super) fn retention(&self) -> Retention {
        self.read.retention()
    }
}

//! A compaction request that workers serve, for as long as its caller waits.

use super::compaction_request::CompactionRequest;
use super::scheduler::Scheduler;
use crate::util::sync::Arc;

/// Keeps a request open. Idle workers serve it until this is dropped.
pub(crate) struct OpenRequest<'a> {
    scheduler: &'a Scheduler,
    request: Arc<CompactionRequest>,
}

impl<'a> OpenRequest<'a> {
    pub(crate) fn new(scheduler: &'a Scheduler, request: CompactionRequest) -> Self {
        let request = Arc::new(request);
        scheduler.state.lock().requests.push(Arc::clone(&request));
        scheduler.wake_workers();
        Self { scheduler, request }
    }

    pub(crate) fn request(&self) -> &Arc<CompactionRequest> {
        &self.request
    }
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        self.request.end();
        self.scheduler.state.lock().requests.retain(|request| !Arc::ptr_eq(request, &self.request));
    }
}

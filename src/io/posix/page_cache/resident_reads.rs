//! A batch of reads, some of which the page cache served when they were started. One thread at a time.
//!
//! Invariant: `done` has a place for each request, in their order; the empty ones belong to the reads in `rest`, in the
//! same order.

use crate::io::reads::{PendingReads, ReadDone, ReadRequest};

/// See the module.
#[derive(Debug)]
pub(crate) struct ResidentReads {
    done: Vec<Option<ReadDone>>,
    rest: Option<Box<dyn PendingReads>>,
}

impl ResidentReads {
    /// Takes what the page cache has, and starts the other reads with `start`.
    pub(crate) fn start(
        requests: Vec<ReadRequest>,
        start: impl FnOnce(Vec<ReadRequest>) -> Box<dyn PendingReads>,
    ) -> Box<dyn PendingReads> {
        let mut done = Vec::with_capacity(requests.len());
        let mut missing = Vec::new();
        for mut request in requests {
            if request.file.read_resident(&mut request.buffer[..request.length], request.offset) {
                done.push(Some(ReadDone { buffer: request.buffer, result: Ok(()) }));
            } else {
                missing.push(request);
                done.push(None);
            }
        }
        if missing.len() == done.len() {
            return start(missing);
        }
        let rest = (!missing.is_empty()).then(|| start(missing));
        Box::new(Self { done, rest })
    }
}

impl PendingReads for ResidentReads {
    fn is_done(&mut self) -> bool {
        self.rest.as_mut().is_none_or(|rest| rest.is_done())
    }

    fn wait(self: Box<Self>) -> Vec<ReadDone> {
        let Self { done, rest } = *self;
        let mut rest = rest.map_or_else(Vec::new, PendingReads::wait).into_iter();
        done.into_iter().filter_map(|done| done.or_else(|| rest.next())).collect()
    }
}

//! Rings, each lent to one batch of reads at a time. A thread that waits in its own ring is woken by its own reads and
//! needs no lock. (A single ring would need a leader among the waiting threads. And the kernel completes a read in the
//! context of the thread that started it, so each read would wake two threads.) Any thread.
//!
//! Invariants:
//! 1. At most `RINGS_MAX` rings exist: lent, idle or ending.
//! 2. Rings in `idle` have nothing in flight; those in `ending` only abandoned reads.
//! 3. The mutex is not held during system calls or while buffers are freed.

use super::priority::is_low;
use super::ring::{RING_DEPTH, Ring};
use super::spinning::Spinning;
use crate::io::reads::{PendingReads, ReadDone, ReadRequest};
use crate::util::sync::{Arc, Mutex};
use std::collections::VecDeque;
use std::io;

/// Most rings; each takes a descriptor and some kernel memory. Further batches are read when they are waited for.
const RINGS_MAX: usize = 64;

#[derive(Debug)]
struct Rings {
    idle: Vec<Ring>,
    ending: Vec<Ring>,
    made: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct RingPool {
    rings: Mutex<Rings>,
    spinning: Spinning,
}

impl RingPool {
    /// A pool with one ring. An error if the kernel has none or forbids it.
    pub(super) fn new() -> io::Result<Arc<Self>> {
        let first = Ring::new()?;
        let rings = Rings { idle: vec![first], ending: Vec::new(), made: 1 };
        Ok(Arc::new(Self { rings: Mutex::new(rings), spinning: Spinning::new() }))
    }

    /// Starts reads. If no ring is free, they are started when they are waited for.
    pub(super) fn start(self: &Arc<Self>, requests: Vec<ReadRequest>) -> RingReads {
        let done = requests.iter().map(|_| None).collect();
        let queue: VecDeque<_> = requests.into_iter().enumerate().collect();
        let mut reads = RingReads { pool: Arc::clone(self), ring: self.take(), left: queue.len(), queue, done };
        reads.feed_and_submit();
        reads
    }

    /// A ring, preferably one with nothing in flight; `None` if all are lent.
    fn take(&self) -> Option<Ring> {
        self.settle();
        let mut rings = self.rings.lock();
        if let Some(ring) = rings.idle.pop() {
            return Some(ring);
        }
        if rings.made == RINGS_MAX {
            return rings.ending.pop();
        }
        rings.made += 1;
        drop(rings);
        let made = Ring::new();
        if made.is_err() {
            self.forget();
        }
        made.ok()
    }

    fn give(&self, ring: Ring) {
        let mut rings = self.rings.lock();
        if ring.in_flight() == 0 { rings.idle.push(ring) } else { rings.ending.push(ring) }
    }

    /// Moves the rings whose abandoned reads have ended to the idle ones.
    fn settle(&self) {
        let ending = std::mem::take(&mut self.rings.lock().ending);
        for mut ring in ending {
            // A read that was queued and never submitted would never end.
            ring.submit();
            ring.reap(|_, _| {});
            self.give(ring);
        }
    }

    /// A ring is gone, or could not be made.
    fn forget(&self) {
        self.rings.lock().made -= 1;
    }
}

/// Reads in a ring.
#[derive(Debug)]
pub(super) struct RingReads {
    pool: Arc<RingPool>,
    ring: Option<Ring>,
    /// Reads that found no free slot in the ring yet.
    queue: VecDeque<(usize, ReadRequest)>,
    done: Vec<Option<ReadDone>>,
    /// The number of missing results in `done`.
    left: usize,
}

impl RingReads {
    /// Takes the available results and fills the ring from the queue.
    fn feed(&mut self) {
        let Self { ring: Some(ring), queue, done, left, .. } = self else { return };
        let mut finished = |tag: usize, read: ReadDone| {
            done[tag] = Some(read);
            *left -= 1;
        };
        ring.reap(&mut finished);
        while ring.in_flight() < RING_DEPTH {
            let Some((tag, request)) = queue.pop_front() else { return };
            if let Err(request) = ring.push(tag, request) {
                finished(tag, request.perform());
            }
        }
    }

    /// Like `feed`, for a caller that does not wait next.
    fn feed_and_submit(&mut self) {
        let queued = self.queue.len();
        self.feed();
        if self.queue.len() < queued
            && let Some(ring) = &mut self.ring
        {
            ring.submit();
        }
    }

    /// Waits for some results, or for all if none are queued.
    fn advance(&mut self) {
        let Some(ring) = &mut self.ring else {
            let Some((tag, request)) = self.queue.pop_front() else { return };
            self.done[tag] = Some(request.perform());
            self.left -= 1;
            return;
        };
        let wanted = if self.queue.is_empty() { self.left } else { (ring.in_flight() / 2).max(1) };
        if ring.wait(wanted).is_err() {
            let (done, left) = (&mut self.done, &mut self.left);
            ring.forsake(|tag, read| {
                done[tag] = Some(read);
                *left -= 1;
            });
            self.ring = None;
            self.pool.forget();
        }
    }
}

impl PendingReads for RingReads {
    fn is_done(&mut self) -> bool {
        self.feed_and_submit();
        self.left == 0
    }

    fn wait(mut self: Box<Self>) -> Vec<ReadDone> {
        if self.ring.is_none() {
            self.ring = self.pool.take();
        }
        // What found no place in the ring when it was started is not submitted yet.
        let was_submitted = self.queue.is_empty();
        self.feed();
        let pool = Arc::clone(&self.pool);
        let wait = (was_submitted && self.left > 0 && !is_low()).then(|| pool.spinning.begin());
        if let Some(wait) = &wait {
            wait.spin(|| {
                self.feed();
                self.left == 0
            });
        }
        loop {
            self.feed();
            if self.left == 0 {
                return std::mem::take(&mut self.done).into_iter().flatten().collect();
            }
            self.advance();
        }
    }
}

impl Drop for RingReads {
    fn drop(&mut self) {
        if let Some(mut ring) = self.ring.take() {
            ring.abandon();
            self.pool.give(ring);
        }
    }
}

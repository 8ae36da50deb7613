//! Threads that read if the kernel has no io_uring or forbids it. Any thread may start reads.
//!
//! Threads are made when reads queue up, and joined when the value is dropped. A thread that waits for a batch reads
//! along, so reads make progress even if no thread can be made.
//!
//! Invariants:
//! 1. At most `THREADS_MAX` threads and `QUEUE_MAX` queued reads. Further reads stay with their batch and are performed
//!    by the thread that waits for it.
//! 2. A queued read is taken by one thread, which sets its result. The queue's mutex and a batch's are never held
//!    together, and neither is held during a read.
//! 3. Threads end only when the queue is empty.

use crate::io::reads::{PendingReads, ReadDone, ReadRequest};
use crate::util::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use std::collections::VecDeque;
use std::thread::JoinHandle;

/// Most threads (`docs/performance.md`).
const THREADS_MAX: usize = 16;
/// Most queued reads.
const QUEUE_MAX: usize = 256;

/// A read for the first free thread.
#[derive(Debug)]
struct Job {
    batch: Arc<Batch>,
    at: usize,
    request: ReadRequest,
}

/// Collects the results of one batch.
#[derive(Debug)]
struct Batch {
    results: Mutex<Results>,
    finished: Condvar,
    /// No thread waits any more: reads that have not begun need not begin. A hint, so relaxed is enough.
    abandoned: AtomicBool,
}

#[derive(Debug)]
struct Results {
    done: Vec<Option<ReadDone>>,
    left: usize,
}

#[derive(Debug, Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that sleep until there is more to read.
    idle: usize,
    closed: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReadThreads {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Job {
    fn run(self) {
        if self.batch.abandoned.load(Ordering::Relaxed) {
            return;
        }
        let read = self.request.perform();
        let mut results = self.batch.results.lock();
        results.done[self.at] = Some(read);
        results.left -= 1;
        if results.left == 0 {
            self.batch.finished.notify_all();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job.run();
                queue = self.queue.lock();
            } else if queue.closed {
                return;
            } else {
                queue.idle += 1;
                self.more.wait(&mut queue);
                queue.idle -= 1;
            }
        }
    }
}

impl ReadThreads {
    /// Starts reads.
    pub(super) fn start(&self, requests: Vec<ReadRequest>) -> ThreadReads {
        let results = Results { done: requests.iter().map(|_| None).collect(), left: requests.len() };
        let batch = Arc::new(Batch {
            results: Mutex::new(results),
            finished: Condvar::new(),
            abandoned: AtomicBool::new(false),
        });
        let mut jobs = requests
            .into_iter()
            .enumerate()
            .map(|(at, request)| Job { batch: Arc::clone(&batch), at, request })
            .collect::<VecDeque<Job>>();
        let mut queue = self.shared.queue.lock();
        let count = jobs.len().min(QUEUE_MAX.saturating_sub(queue.jobs.len()));
        queue.jobs.extend(jobs.drain(..count));
        let (waiting, idle) = (queue.jobs.len(), queue.idle);
        drop(queue);
        for _ in 0..count.min(idle) {
            self.shared.more.notify_one();
        }
        self.grow(waiting.saturating_sub(idle));
        ThreadReads { shared: Arc::clone(&self.shared), batch, rest: jobs }
    }

    /// Makes up to `count` more threads.
    fn grow(&self, count: usize) {
        if count == 0 {
            return;
        }
        let mut threads = self.threads.lock();
        for _ in 0..count.min(THREADS_MAX - threads.len()) {
            let shared = Arc::clone(&self.shared);
            let made = std::thread::Builder::new().name("alluvium-read".into()).spawn(move || shared.work());
            // Without another thread, the waiting thread reads.
            let Ok(thread) = made else { return };
            threads.push(thread);
        }
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.shared.queue.lock().closed = true;
        self.shared.more.notify_all();
        for thread in self.threads.get_mut().drain(..) {
            // Reads do not panic. If one did, this would not be the place to report it.
            let _ = thread.join();
        }
    }
}

/// Reads that are performed by threads.
#[derive(Debug)]
pub(super) struct ThreadReads {
    shared: Arc<Shared>,
    batch: Arc<Batch>,
    /// The reads that found the queue full.
    rest: VecDeque<Job>,
}

impl ThreadReads {
    /// A read of this batch that no thread has begun.
    fn queued(&self) -> Option<Job> {
        let mut queue = self.shared.queue.lock();
        let at = queue.jobs.iter().position(|job| Arc::ptr_eq(&job.batch, &self.batch))?;
        queue.jobs.remove(at)
    }
}

impl PendingReads for ThreadReads {
    fn is_done(&mut self) -> bool {
        self.batch.results.lock().left == 0
    }

    fn wait(mut self: Box<Self>) -> Vec<ReadDone> {
        // The queued ones first: a thread that becomes free meanwhile cannot take one of the rest.
        while let Some(job) = self.queued().or_else(|| self.rest.pop_front()) {
            job.run();
        }
        let mut results = self.batch.results.lock();
        while results.left > 0 {
            self.batch.finished.wait(&mut results);
        }
        std::mem::take(&mut results.done).into_iter().flatten().collect()
    }
}

impl Drop for ThreadReads {
    fn drop(&mut self) {
        self.batch.abandoned.store(true, Ordering::Relaxed);
    }
}

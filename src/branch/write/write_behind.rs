//! Writes the buffers of new branch files, and syncs the files, in a thread of its own, so that the thread that builds them
//! does not wait for the disk. One builder at a time hands buffers over.
//!
//! Invariants:
//! 1. Buffers are written one after the other, in the order in which they were handed over.
//! 2. After the first failure nothing more is written, and every later call returns that failure.
//! 3. When `wait` has succeeded, everything that was handed over before is written, and the files that were ended are
//!    synced.

use crate::branch::buffer_pool::BufferPool;
use crate::branch::context::WRITE_BYTES;
use crate::io::{AlignedBuffer, StorageFile};
use crate::util::sync::{Arc, Condvar, Mutex};
use crate::util::{Error, Result};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// How many buffers wait while one is written. With eight an ingest was no faster.
const WAITING_MAX: usize = 2;
/// So many files are synced together: the first sync writes what the file system keeps of all of them.
const UNSYNCED_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct WriteBehind {
    shared: Arc<Shared>,
    /// `None` only while it is dropped.
    queue: Option<SyncSender<Request>>,
    thread: Option<JoinHandle<()>>,
}

enum Request {
    Write(Buffer),
    /// The file is complete.
    End(Arc<dyn StorageFile>),
    Sync,
}

/// A buffer and its place.
struct Buffer {
    file: Arc<dyn StorageFile>,
    buffer: AlignedBuffer,
    /// So much of the buffer is to be written.
    bytes: usize,
    offset: u64,
}

#[derive(Debug)]
struct Shared {
    /// Those that were written.
    idle: BufferPool,
    state: Mutex<State>,
    /// Signals that a request is done.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Requests that are not done.
    left: usize,
    failure: Option<Error>,
}

impl WriteBehind {
    /// Starts the thread; `None` if the system refuses one.
    pub fn start() -> Option<Arc<Self>> {
        let shared = Arc::new(Shared {
            idle: BufferPool::new(WRITE_BYTES, WAITING_MAX + 2),
            state: Mutex::default(),
            done: Condvar::new(),
        });
        let (queue, requests) = sync_channel(WAITING_MAX);
        let thread = std::thread::Builder::new().name("alluvium-write".into());
        let thread = thread.spawn({
            let shared = Arc::clone(&shared);
            move || shared.serve(&requests)
        });
        Some(Arc::new(Self { shared, queue: Some(queue), thread: Some(thread.ok()?) }))
    }

    /// Hands the first bytes of a buffer over, to be written at an offset, and returns another buffer. Waits if too many
    /// requests wait.
    pub fn write(
        &self,
        file: Arc<dyn StorageFile>,
        buffer: AlignedBuffer,
        bytes: usize,
        offset: u64,
    ) -> Result<AlignedBuffer> {
        self.request(Request::Write(Buffer { file, buffer, bytes, offset }))?;
        Ok(self.shared.idle.take())
    }

    /// The file is complete.
    pub fn end(&self, file: Arc<dyn StorageFile>) -> Result<()> {
        self.request(Request::End(file))
    }

    /// Invariant 3.
    pub fn wait(&self) -> Result<()> {
        self.request(Request::Sync)?;
        let mut state = self.shared.state.lock();
        while state.left > 0 {
            self.shared.done.wait(&mut state);
        }
        state.failure.clone().map_or(Ok(()), Err)
    }

    fn request(&self, request: Request) -> Result<()> {
        {
            let mut state = self.shared.state.lock();
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state.left += 1;
        }
        let sent = self.queue.as_ref().map(|queue| queue.send(request));
        assert!(matches!(sent, Some(Ok(()))), "the thread receives until the queue is dropped");
        Ok(())
    }
}

impl Shared {
    fn serve(&self, requests: &Receiver<Request>) {
        let mut unsynced = Vec::new();
        for request in requests {
            let has_failed = self.state.lock().failure.is_some();
            let done = match request {
                Request::Write(buffer) => self.write(buffer, has_failed),
                Request::End(_) | Request::Sync if has_failed => Ok(()),
                Request::End(file) => {
                    unsynced.push(file);
                    if unsynced.len() < UNSYNCED_MAX { Ok(()) } else { sync(&mut unsynced) }
                }
                Request::Sync => sync(&mut unsynced),
            };
            let mut state = self.state.lock();
            state.left -= 1;
            state.failure = state.failure.take().or(done.err());
            self.done.notify_all();
        }
    }

    fn write(&self, Buffer { file, buffer, bytes, offset }: Buffer, has_failed: bool) -> Result<()> {
        let written = if has_failed { Ok(()) } else { file.write_all_at(&buffer[..bytes], offset) };
        self.idle.give(buffer);
        written
    }
}

fn sync(files: &mut Vec<Arc<dyn StorageFile>>) -> Result<()> {
    files.drain(..).try_for_each(|file| file.sync())
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A panic there is a bug that has printed its message.
            let _ = thread.join();
        }
    }
}

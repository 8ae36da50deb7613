//! An io_uring and its reads. One thread at a time, possibly different ones.
//!
//! The ring owns the memory that the kernel writes to. The starter of a read may abandon it (`abandon`): the read then
//! ends unnoticed, and its buffer is freed when its completion is seen.
//!
//! Invariants:
//! 1. A slot holds a request from the moment when its entry is put into the submission queue until its completion was
//!    taken from the completion queue. In between nothing accesses the request's buffer, and its file stays open.
//! 2. At most `RING_DEPTH` slots are taken, so neither queue overflows.
//! 3. An entry's user data is the number of its slot.

use crate::io::AlignedBuffer;
use crate::io::reads::{ReadDone, ReadRequest};
use crate::util::Error;
use crate::util::sync::Backoff;
use io_uring::{IoUring, opcode, types};
use std::io;
use std::os::fd::AsRawFd;

/// Most reads in flight in one ring. The device reaches its full speed from a depth of 32 on (`docs/performance.md`).
pub(super) const RING_DEPTH: usize = 64;
/// How often a refused submission is tried again. The kernel refuses for lack of memory, which others free.
const REFUSALS_MAX: u32 = 1000;

/// A read in flight.
struct Slot {
    /// The index of the read in its batch; `None` if no thread waits for it.
    tag: Option<usize>,
    request: ReadRequest,
}

/// See the module.
pub(super) struct Ring {
    ring: IoUring,
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
}

impl Ring {
    /// A new ring. An error if the kernel has none or forbids it.
    pub(super) fn new() -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(RING_DEPTH as u32)?;
        let slots = (0..RING_DEPTH).map(|_| None).collect();
        Ok(Self { ring, slots, free: (0..RING_DEPTH).rev().collect() })
    }

    /// Reads in flight, including abandoned ones.
    pub(super) fn in_flight(&self) -> usize {
        RING_DEPTH - self.free.len()
    }

    /// Puts a read into the submission queue; the next `submit` or `wait` submits it. Returns the request if the ring
    /// is full or the file has no descriptor.
    pub(super) fn push(&mut self, tag: usize, request: ReadRequest) -> Result<(), ReadRequest> {
        if self.free.is_empty() {
            return Err(request);
        }
        let Some(descriptor) =
            request.file.descriptor_for(request.offset, request.length).map(|descriptor| descriptor.as_raw_fd())
        else {
            return Err(request);
        };
        let Some(at) = self.free.pop() else { return Err(request) };
        let (pointer, length) = (request.buffer.pointer().as_ptr(), request.length as u32);
        let read = opcode::Read::new(types::Fd(descriptor), pointer, length).offset(request.offset).build();
        self.slots[at] = Some(Slot { tag: Some(tag), request });
        // SAFETY: the buffer has `length` bytes and, like the file, belongs to the slot until the read's completion was
        // seen (invariant 1; `Drop` waits for it). A buffer's bytes do not move with the value that owns them.
        let pushed = unsafe { self.ring.submission().push(&read.user_data(at as u64)) };
        debug_assert!(pushed.is_ok(), "invariant 2");
        match pushed {
            Ok(()) => Ok(()),
            Err(_) => Err(self.take(at).map_or_else(|| unreachable!("was just stored"), |slot| slot.request)),
        }
    }

    /// Submits what is queued. What the kernel does not accept now stays queued for the next call.
    pub(super) fn submit(&mut self) {
        let _ = self.enter(0);
    }

    /// Submits what is queued and waits for at least `wanted` completions. An error if the kernel refuses.
    pub(super) fn wait(&mut self, wanted: usize) -> io::Result<()> {
        self.enter(wanted.min(self.in_flight()))
    }

    fn enter(&mut self, wanted: usize) -> io::Result<()> {
        let mut refusals = 0;
        let mut backoff = Backoff::new();
        loop {
            match self.ring.submitter().submit_and_wait(wanted) {
                Ok(_) => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::EAGAIN | libc::EBUSY) if refusals < REFUSALS_MAX => {
                        refusals += 1;
                        backoff.wait();
                    }
                    _ => return Err(error),
                },
            }
        }
    }

    /// Takes the available completions, without a system call. `done` gets the tag and the result of each read that a
    /// thread waits for.
    pub(super) fn reap(&mut self, mut done: impl FnMut(usize, ReadDone)) {
        while let Some((at, result)) = self.completed() {
            if let Some(Slot { tag: Some(tag), request }) = self.take(at) {
                done(tag, finish(request, result));
            }
        }
    }

    /// The slot and the result of the next completion.
    fn completed(&mut self) -> Option<(usize, i32)> {
        let completion = self.ring.completion().next()?;
        Some((completion.user_data() as usize, completion.result()))
    }

    /// No thread waits for the reads in flight any more.
    pub(super) fn abandon(&mut self) {
        self.slots.iter_mut().flatten().for_each(|slot| slot.tag = None);
    }

    /// Gives up on a ring that does not respond: performs its reads by plain calls, into other buffers. The old ones
    /// may still be written to, so they are never freed.
    pub(super) fn forsake(&mut self, mut done: impl FnMut(usize, ReadDone)) {
        for at in 0..RING_DEPTH {
            let Some(Slot { tag, request }) = self.take(at) else { continue };
            let ReadRequest { file, offset, length, buffer } = request;
            let fresh = tag.map(|tag| (tag, AlignedBuffer::new(buffer.len())));
            std::mem::forget(buffer);
            if let Some((tag, buffer)) = fresh {
                done(tag, ReadRequest { file, offset, length, buffer }.perform());
            }
        }
    }

    fn take(&mut self, at: usize) -> Option<Slot> {
        let slot = self.slots.get_mut(at)?.take()?;
        self.free.push(at);
        Some(slot)
    }
}

/// What a completion means for a read.
fn finish(request: ReadRequest, result: i32) -> ReadDone {
    if usize::try_from(result) == Ok(request.length) {
        return ReadDone { buffer: request.buffer, result: Ok(()) };
    }
    match -result {
        libc::EIO => {
            let error = Error::io("read", request.file.path(), io::Error::from_raw_os_error(libc::EIO));
            ReadDone { buffer: request.buffer, result: Err(error) }
        }
        // Short, interrupted, cancelled because the thread that started it ended, or refused in this form: the plain
        // call continues it, or returns the proper error.
        _ => request.perform(),
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.abandon();
        while self.in_flight() > 0 {
            if self.wait(1).is_err() {
                self.forsake(|_, _| {});
            }
            self.reap(|_, _| {});
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

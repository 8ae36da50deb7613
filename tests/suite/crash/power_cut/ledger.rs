//! Records what the writers of a child process did and when, in memory that outlives the process. All writers use one
//! clock: a write that ended before another began has the smaller sequence number.

use crate::support::shared::Shared;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

pub const WRITERS: usize = 4;
/// The largest number of writes of one writer in one round.
pub const WRITES_MAX: u64 = 1 << 15;
const CLOCK: usize = 0;
const STAGE: usize = 1;
const WRITER_WORDS: usize = 8;
const WRITERS_AT: usize = 8;
const RECORDS_AT: usize = WRITERS_AT + WRITERS * WRITER_WORDS;
const RECORD_WORDS: usize = 3;

/// What the child is doing.
pub mod stage {
    pub const OPENING: u64 = 1;
    pub const OPEN: u64 = 2;
}

/// The record of the writers, in shared memory.
pub struct Ledger {
    shared: Shared,
}

impl Ledger {
    pub fn create(directory: &Path) -> Self {
        Self { shared: Shared::create(directory, RECORDS_AT + WRITERS * WRITES_MAX as usize * RECORD_WORDS) }
    }

    pub fn open(directory: &Path) -> Self {
        Self { shared: Shared::open(directory) }
    }

    /// A time later than all earlier ones; never 0.
    pub fn tick(&self) -> u64 {
        self.shared.word(CLOCK).fetch_add(1, Ordering::AcqRel) + 1
    }

    pub fn stage(&self) -> &AtomicU64 {
        self.shared.word(STAGE)
    }

    fn of_writer(&self, writer: usize, word: usize) -> &AtomicU64 {
        self.shared.word(WRITERS_AT + writer * WRITER_WORDS + word)
    }

    /// The number of writes in earlier rounds; this round's first write is the next one.
    pub fn before(&self, writer: usize) -> &AtomicU64 {
        self.of_writer(writer, 0)
    }

    /// The newest write that returned.
    pub fn acknowledged(&self, writer: usize) -> &AtomicU64 {
        self.of_writer(writer, 1)
    }

    /// The newest write that was reported as durable.
    pub fn synced(&self, writer: usize) -> &AtomicU64 {
        self.of_writer(writer, 2)
    }

    fn of_record(&self, writer: usize, count: u64, word: usize) -> &AtomicU64 {
        let at = count - self.before(writer).load(Ordering::Acquire) - 1;
        assert!(at < WRITES_MAX);
        self.shared.word(RECORDS_AT + (writer * WRITES_MAX as usize + at as usize) * RECORD_WORDS + word)
    }

    /// When the write began; 0 if it did not.
    pub fn started(&self, writer: usize, count: u64) -> &AtomicU64 {
        self.of_record(writer, count, 0)
    }

    /// When the write returned; 0 if it did not.
    pub fn ended(&self, writer: usize, count: u64) -> &AtomicU64 {
        self.of_record(writer, count, 1)
    }

    /// The write, packed, whose value the writer read from the common key just before.
    pub fn observed(&self, writer: usize, count: u64) -> &AtomicU64 {
        self.of_record(writer, count, 2)
    }

    /// A sum that grows with every acknowledged write.
    pub fn progress(&self) -> u64 {
        (0..WRITERS).map(|writer| self.acknowledged(writer).load(Ordering::Acquire)).sum()
    }

    /// Starts a round, in which each writer continues after its last write.
    pub fn begin_round(&self) {
        for writer in 0..WRITERS {
            let last = self.last(writer);
            for count in self.before(writer).load(Ordering::Acquire) + 1..=last {
                for word in 0..RECORD_WORDS {
                    self.of_record(writer, count, word).store(0, Ordering::Relaxed);
                }
            }
            for word in [self.before(writer), self.acknowledged(writer), self.synced(writer)] {
                word.store(last, Ordering::Release);
            }
        }
        self.stage().store(0, Ordering::Release);
    }

    /// The newest write that began.
    pub fn last(&self, writer: usize) -> u64 {
        let acknowledged = self.acknowledged(writer).load(Ordering::Acquire);
        let room = acknowledged - self.before(writer).load(Ordering::Acquire) < WRITES_MAX;
        if room && self.started(writer, acknowledged + 1).load(Ordering::Acquire) > 0 {
            acknowledged + 1
        } else {
            acknowledged
        }
    }
}

/// A write (writer and count) in one word. 0 stands for no write.
pub fn pack(writer: usize, count: u64) -> u64 {
    (writer as u64) << 48 | count
}

/// See `pack`.
pub fn unpack(word: u64) -> Option<(usize, u64)> {
    (word > 0).then_some(((word >> 48) as usize, word & ((1 << 48) - 1)))
}

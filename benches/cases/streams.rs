//! Cases of what runs through: the log, the merge.

use super::{BATCH, Case, Keys, LARGE, VALUE, key};
use alluvium::internals::{CursorPart, LogPart, entry};

const SEGMENT_BYTES: usize = 8 << 20;
const CHUNK_BYTES: usize = 16 << 10;
/// Records after which segments have their usual size: a log begins with small ones, each four times the one before.
const GROWING_RECORDS: u64 = 40_000;

/// Records of puts into the log of a store of the usual size, turnover of chunks included. The keeper's round between
/// batches makes segments ready, as its thread does in the store.
pub struct LogAppend {
    log: LogPart,
    keys: Keys,
    _directory: tempfile::TempDir,
}

impl LogAppend {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut log = LogPart::create(directory.path(), SEGMENT_BYTES, CHUNK_BYTES).expect("a log");
        (0..GROWING_RECORDS).for_each(|number| log.append(&key(number), &VALUE).expect("a record"));
        Self { log, keys: Keys::default(), _directory: directory }
    }
}

impl Case for LogAppend {
    fn ready(&mut self) {
        self.log.maintain().expect("a next segment");
        self.keys.draw(0, LARGE);
    }

    fn run(&mut self) {
        for key in &self.keys.batch {
            self.log.append(key, &VALUE).expect("a record");
        }
    }
}

/// Steps through the merge of so many sources in memory, their keys mixed at random.
pub struct Merge {
    cursor: CursorPart,
    left: u64,
}

impl Merge {
    const ENTRIES: u64 = 60_000;

    pub fn new(sources: u64) -> Self {
        let of = |source| (0..Self::ENTRIES).filter(move |number| number % sources == source);
        let entries = |source| of(source).map(|number| entry(&key(number), number + 1, &VALUE)).collect();
        Self { cursor: CursorPart::merge((0..sources).map(entries).collect()), left: 0 }
    }
}

impl Case for Merge {
    fn ready(&mut self) {
        if self.left <= BATCH {
            assert!(self.cursor.seek_first().expect("a seek in memory"));
            self.left = Self::ENTRIES;
        }
        self.left -= BATCH;
    }

    fn run(&mut self) {
        for _ in 0..BATCH {
            assert!(self.cursor.step().expect("a step in memory"));
        }
    }
}

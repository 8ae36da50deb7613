//! The protocols of `src/memory`, each on a few of loom's atomics and with the memory orders of the original. A flaw
//! leaves one of the orders out, to show that its model can fail.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// What a model leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing.
    None,
    /// `Version::write`: the fence between clearing the number and the first word.
    FillFence,
    /// `Version::holds`: the fence between the last word and the number.
    HoldsFence,
    /// `Memtable::search_chain`: the second look at the node's newest place.
    NewestAgain,
    /// `InsertQueue::push`: the release of the count.
    CountRelease,
    /// `Memtable::commit`: the commit comes before the batch is cleared.
    CommitFirst,
}

/// A block of two words (`memory/entry/version.rs`).
#[derive(Debug)]
pub struct Block {
    number: AtomicU64,
    words: [AtomicU64; 2],
}

impl Block {
    /// A block with a version whose words are all `value`.
    pub fn new(number: u64, value: u64) -> Self {
        Self { number: AtomicU64::new(number), words: [AtomicU64::new(value), AtomicU64::new(value)] }
    }

    /// `Version::free`.
    pub fn free(&self) {
        self.number.store(0, Ordering::Relaxed);
    }

    /// `Version::write`.
    pub fn write(&self, value: u64, flaw: Flaw) {
        self.number.store(0, Ordering::Relaxed);
        if flaw != Flaw::FillFence {
            fence(Ordering::Release);
        }
        self.words.iter().for_each(|word| word.store(value, Ordering::Relaxed));
    }

    /// `Version::set_number`.
    pub fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    fn look(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    fn holds(&self, look: u64, flaw: Flaw) -> bool {
        if flaw != Flaw::HoldsFence {
            fence(Ordering::Acquire);
        }
        self.number.load(Ordering::Relaxed) == look
    }
}

/// `Memtable::search_chain` at the newest version, once: number and words; `None` if it changed meanwhile.
pub fn read(newest: &AtomicU32, blocks: &[Block], flaw: Flaw) -> Option<(u64, [u64; 2])> {
    let place = newest.load(Ordering::Acquire);
    let block = &blocks[place as usize];
    let look = block.look();
    if look == 0 || (flaw != Flaw::NewestAgain && newest.load(Ordering::Acquire) != place) {
        return None;
    }
    if !block.holds(look, flaw) {
        return None;
    }
    let words = [block.words[0].load(Ordering::Relaxed), block.words[1].load(Ordering::Relaxed)];
    block.holds(look, flaw).then_some((look, words))
}

/// A chunk of an insert queue (`memory/buffer/insert_queue.rs`), and the node that it names.
#[derive(Debug)]
pub struct InsertQueue {
    node: AtomicU32,
    slot: AtomicU32,
    count: AtomicU32,
}

impl InsertQueue {
    /// Without a node.
    pub fn empty() -> Self {
        Self { node: AtomicU32::new(0), slot: AtomicU32::new(0), count: AtomicU32::new(0) }
    }

    /// Writes the node, then `InsertQueue::push`.
    pub fn push(&self, flaw: Flaw) {
        self.node.store(7, Ordering::Relaxed);
        self.slot.store(1, Ordering::Relaxed);
        self.count.store(1, if flaw == Flaw::CountRelease { Ordering::Relaxed } else { Ordering::Release });
    }

    /// `QueueReader::want`, then `take`: slot and node, if there is one.
    pub fn take(&self) -> Option<(u32, u32)> {
        (self.count.load(Ordering::Acquire) > 0)
            .then(|| (self.slot.load(Ordering::Relaxed), self.node.load(Ordering::Relaxed)))
    }
}

/// Two keys, and one thread's batches over both (`memory/entry/version.rs`, 3): the index of each key's newest version,
/// whether that version points at the batch's state (1) or not (0), and the state.
#[derive(Debug)]
pub struct Batches {
    state: AtomicU32,
    pointers: [[AtomicU32; 2]; 3],
    newest: [AtomicU32; 2],
}

impl Batches {
    /// Both keys have version 0, which is committed.
    pub fn new() -> Self {
        let words = || [AtomicU32::new(0), AtomicU32::new(0)];
        Self { state: AtomicU32::new(0), pointers: [words(), words(), words()], newest: words() }
    }

    /// `batch_state`, `place_pending` for both, `commit`.
    pub fn write(&self, version: u32, flaw: Flaw) {
        self.state.store(0, Ordering::Release);
        for (key, newest) in self.newest.iter().enumerate() {
            self.pointers[version as usize][key].store(1, Ordering::Relaxed);
            newest.store(version, Ordering::Release);
        }
        let forget = || self.pointers[version as usize].iter().for_each(|pointer| pointer.store(0, Ordering::Release));
        if flaw == Flaw::CommitFirst {
            forget();
        }
        self.state.store(1, Ordering::Release);
        if flaw != Flaw::CommitFirst {
            forget();
        }
    }

    /// The newest committed version of a key; `None` if it changed meanwhile.
    pub fn read(&self, key: usize) -> Option<u32> {
        let newest = self.newest[key].load(Ordering::Acquire);
        for version in (1..=newest).rev() {
            let pointer = &self.pointers[version as usize][key];
            if pointer.load(Ordering::Acquire) == 0 || self.state.load(Ordering::Acquire) == 1 {
                return Some(version);
            }
            // The next batch reuses the state word, but not before all entries of the previous batch are cleared.
            if pointer.load(Ordering::Acquire) == 0 {
                return None;
            }
        }
        Some(0)
    }
}

impl Default for Batches {
    fn default() -> Self {
        Self::new()
    }
}

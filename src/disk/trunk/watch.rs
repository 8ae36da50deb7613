//! What goes along with a pass over data, for whoever answers for it: it counts, it slows, it ends the pass. Called on the thread that
//! does the pass, which holds no lock.

use crate::util::sync::{AtomicBool, Ordering};

/// See the module.
pub trait Progress: Sync {
    /// Since the last call so many more entries were read, and so many more bytes written. May wait. False where the pass should end.
    fn advance(&self, entries: u64, written: u64) -> bool;
}

/// A flag that asks the pass to end. Relaxed: nothing is read on the strength of it.
impl Progress for AtomicBool {
    fn advance(&self, _: u64, _: u64) -> bool {
        !self.load(Ordering::Relaxed)
    }
}

/// How much of a pass goes by between two calls: so many entries, or bytes written.
const ENTRIES_PER_CALL: u64 = 256;
const BYTES_PER_CALL: u64 = 16 << 10;

/// Calls a watch now and then. One pass.
pub struct Steps<'a> {
    watch: &'a dyn Progress,
    entries: u64,
    written: u64,
}

impl<'a> Steps<'a> {
    /// Nothing was done yet.
    pub fn new(watch: &'a dyn Progress) -> Self {
        Self { watch, entries: 0, written: 0 }
    }

    /// One more entry was read; by now the pass has written `written` bytes. False where it should end.
    #[inline]
    pub fn step(&mut self, written: u64) -> bool {
        self.entries += 1;
        let is_due = self.entries >= ENTRIES_PER_CALL || written.saturating_sub(self.written) >= BYTES_PER_CALL;
        !is_due || self.tell(written)
    }

    /// Tells of what was done since the last call.
    pub fn tell(&mut self, written: u64) -> bool {
        let more = written.saturating_sub(self.written);
        self.written = written;
        self.watch.advance(std::mem::take(&mut self.entries), more)
    }
}

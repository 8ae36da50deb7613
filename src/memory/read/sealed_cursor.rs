//! Reads a sealed Memtable from front to back, for incorporation. Each partition is sorted when the cursor comes to it,
//! and is not linked. So nodes can be prefetched long before they are read; a scan of the skiplist would wait for each
//! node.
//!
//! One thread at a time.
//!
//! Invariant: nothing changes in a sealed Memtable except links, and this cursor follows links only while it sorts a
//! partition. Its boundaries do not change either (`buffer/membuffer.rs`, invariant 6). *Otherwise:* a partition that
//! begins before the end of the one before shows keys again, and a branch file is out of order.

use crate::memory::buffer::membuffer::DrainedRange;
use crate::memory::table::memtable::Memtable;
use crate::merge::{Cursor, EntryRef};
use crate::util::arena::{Offset, UNIT_BYTES};
use crate::util::sync::Arc;
use crate::util::{Error, Result, SequenceNumber};

/// How many nodes ahead are prefetched, and how many lines of each: key and number of a usual node, and most of its
/// value.
const AHEAD: usize = 8;
const LINES: u32 = 3;
const LINE_UNITS: u32 = 64 / UNIT_BYTES as u32;

/// See the module.
#[derive(Debug)]
struct SealedCursor {
    memtable: Arc<Memtable>,
    /// The nodes of one partition in order, and the partition's key range.
    nodes: Vec<Offset>,
    range: Option<DrainedRange>,
    at: usize,
    version: Offset,
}

impl Memtable {
    /// An unpositioned cursor over all versions of a sealed Memtable, forwards only.
    pub fn sealed_cursor(self: &Arc<Self>) -> Box<dyn Cursor> {
        if self.membuffer.is_finished() {
            // All nodes were linked as they came.
            return Box::new(self.cursor());
        }
        let memtable = Arc::clone(self);
        Box::new(SealedCursor { memtable, nodes: Vec::new(), range: None, at: 0, version: Offset::NULL })
    }
}

impl SealedCursor {
    fn load(&mut self, key: &[u8]) {
        let (nodes, range) = self.memtable.ordered_around(key);
        (self.nodes, self.range) = (nodes, Some(range));
        (0..AHEAD).for_each(|at| self.fetch(at));
    }

    fn fetch(&self, at: usize) {
        if let Some(node) = self.nodes.get(at) {
            (0..LINES).for_each(|line| self.memtable.prefetch(Offset(node.0.wrapping_add(line * LINE_UNITS))));
        }
    }

    /// Moves to the newest version of the node at `at`, or of the first node after it that has one.
    fn move_to_first_shown(&mut self, mut at: usize) {
        self.version = Offset::NULL;
        loop {
            while let Some(node) = self.nodes.get(at) {
                let newest = self.memtable.versions(self.memtable.node(*node)).next();
                if let Some(version) = newest {
                    (self.at, self.version) = (at, version.place());
                    return;
                }
                at += 1;
            }
            let upper = self.range.as_ref().and_then(DrainedRange::upper).map(<[u8]>::to_vec);
            let Some(upper) = upper else { return };
            self.load(&upper);
            at = 0;
        }
    }

    fn forwards_only<T>() -> Result<T> {
        Err(Error::InvalidArgument("a cursor over a sealed Memtable moves only forwards".into()))
    }
}

impl Cursor for SealedCursor {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        if !self.range.as_ref().is_some_and(|range| range.contains(key)) {
            self.load(key);
        }
        let before = |node: &Offset| self.memtable.node(*node).encoded_key() < key;
        let at = self.nodes.partition_point(before);
        self.move_to_first_shown(at);
        while self.valid() && self.entry().key == key && self.entry().number > number {
            self.next()?;
        }
        Ok(())
    }

    fn seek_for_prev(&mut self, _: &[u8], _: SequenceNumber) -> Result<()> {
        Self::forwards_only()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.load(&[]);
        self.move_to_first_shown(0);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        Self::forwards_only()
    }

    fn next(&mut self) -> Result<()> {
        let older = {
            let memtable = &self.memtable;
            let next = |version| memtable.older(version);
            std::iter::successors(next(memtable.version(self.version)), |version| next(*version))
                .find(|version| memtable.is_shown(*version))
                .map(|version| version.place())
        };
        match older {
            Some(version) => self.version = version,
            None => {
                self.fetch(self.at + AHEAD);
                self.move_to_first_shown(self.at + 1);
            }
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        Self::forwards_only()
    }

    fn valid(&self) -> bool {
        !self.version.is_null()
    }

    fn entry(&self) -> EntryRef<'_> {
        let (node, version) = (self.memtable.node(self.nodes[self.at]), self.memtable.version(self.version));
        EntryRef { key: node.encoded_key(), number: version.number(), kind: version.kind(), value: version.value() }
    }
}

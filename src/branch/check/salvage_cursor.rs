//! A cursor over the entries of the intact leaves of a branch file, whatever else of the file is damaged. For repair.
//! One thread.
//!
//! Leaves are stored in key order, so a scan of the pages from the start returns the entries in order without index or
//! footer.
//!
//! Invariants:
//! 1. Entries come in strictly ascending entry order. A leaf that would violate it is skipped as damaged.
//! 2. The cursor moves only forward. `prev`, `seek_last` and `seek_for_prev` are errors.
//! 3. Losses up to the current position are reported with the keys around them.

use super::page_scan::{PageScan, Scanned};
use crate::branch::branch::Branch;
use crate::branch::context::BranchContext;
use crate::format::page::{self, PageKind};
use crate::format::sorted_page::{self, SortedPage, tag_kind, tag_number};
use crate::merge::{Cursor, EntryRef};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result, SequenceNumber};
use std::ops::Range;

/// A range of the file without usable entries.
#[derive(Clone, Debug)]
pub struct LostRange {
    /// Its offsets.
    pub bytes: Range<u64>,
    /// The last key that was read before it; `None` if there was none.
    pub after: Option<Vec<u8>>,
    /// The first key that was read after it; `None` if there was none.
    pub before: Option<Vec<u8>>,
    /// The damage.
    pub error: Error,
}

/// See the module documentation.
pub struct SalvageCursor {
    scan: PageScan,
    /// The raw payload of the current leaf.
    leaf: Vec<u8>,
    count: usize,
    at: usize,
    key: Vec<u8>,
    number: SequenceNumber,
    value: Range<usize>,
    tag: u64,
    valid: bool,
    /// Whether an entry was read.
    started: bool,
    entries: u64,
    lost: Vec<LostRange>,
    /// The number of entries without one of their own.
    common_number: SequenceNumber,
}

impl SalvageCursor {
    /// An unpositioned cursor. `common_number`: that of an ingested file as the manifest has it; `ZERO` if no manifest
    /// names the file. The file's own footer comes first.
    pub fn open(context: &Arc<BranchContext>, file: FileNumber, common_number: SequenceNumber) -> Result<Self> {
        let own = match Branch::read_meta(context, file) {
            Ok(meta) if meta.number_min == meta.number_max => meta.number_max,
            Err(error) if !error.is_damage() => return Err(error),
            _ => SequenceNumber::ZERO,
        };
        Ok(Self {
            common_number: if own > SequenceNumber::ZERO { own } else { common_number },
            scan: PageScan::open(context, file)?,
            leaf: Vec::new(),
            count: 0,
            at: 0,
            key: Vec::new(),
            number: SequenceNumber::ZERO,
            value: 0..0,
            tag: 0,
            valid: false,
            started: false,
            entries: 0,
            lost: Vec::new(),
        })
    }

    /// Entries read so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The key of the last entry that was read.
    pub fn last_key(&self) -> Option<&[u8]> {
        self.started.then_some(&self.key)
    }

    /// The ranges skipped so far. They are all damaged ranges of the file once the cursor has passed the last entry.
    pub fn lost(&self) -> &[LostRange] {
        &self.lost
    }

    /// Moves to the next entry of this leaf or of the next intact one.
    fn step(&mut self) -> Result<()> {
        self.valid = false;
        loop {
            if self.at < self.count {
                self.read_entry();
                return Ok(());
            }
            if !self.next_leaf()? {
                return Ok(());
            }
        }
    }

    fn read_entry(&mut self) {
        let Some(leaf) = SortedPage::new(&self.leaf) else { return };
        let parts = leaf.parts(self.at);
        if !self.key.starts_with(leaf.prefix()) {
            self.key.clear();
            self.key.extend_from_slice(leaf.prefix());
        }
        leaf.complete_key(self.at, &parts, &mut self.key);
        (self.number, self.tag, self.value) = (tag_number(parts.tag), parts.tag, parts.value);
        (self.valid, self.started) = (true, true);
        self.entries += 1;
        for lost in self.lost.iter_mut().rev().take_while(|lost| lost.before.is_none()) {
            lost.before = Some(self.key.clone());
        }
    }

    /// Reads up to the next intact leaf. Returns false at the end of the file.
    fn next_leaf(&mut self) -> Result<bool> {
        loop {
            let path = self.scan.path().to_path_buf();
            let after = self.started.then_some(&self.key);
            let lost = |bytes, error| LostRange { bytes, after: after.cloned(), before: None, error };
            match self.scan.advance()? {
                None => return Ok(false),
                Some(Scanned::Bad(bytes, error)) => self.lost.push(lost(bytes, error)),
                Some(Scanned::Page(header, bytes)) if header.kind == PageKind::Leaf => {
                    self.leaf.resize(header.raw_len as usize, 0);
                    let checked = page::decompress(bytes, &header, &mut self.leaf, &path).and_then(|()| {
                        sorted_page::set_common_number(&mut self.leaf, self.common_number);
                        check_leaf(&self.leaf, after.map(|key| (&key[..], self.number))).map_err(|what| {
                            Error::corruption(&path, header.offset, "leaf", "entries in ascending order", what)
                        })
                    });
                    match checked {
                        Ok(count) => {
                            (self.count, self.at) = (count, 0);
                            return Ok(true);
                        }
                        Err(error) => {
                            self.lost.push(lost(header.offset..header.offset + bytes.len() as u64, error));
                        }
                    }
                }
                Some(Scanned::Page(..)) => {}
            }
        }
    }
}

/// The number of entries of the leaf, if all of them are in order and after `after`.
fn check_leaf(payload: &[u8], after: Option<(&[u8], SequenceNumber)>) -> Result<usize, &'static str> {
    let leaf = SortedPage::new(payload).ok_or("lengths that exceed the page")?;
    leaf.validate()?;
    if leaf.width() != 0 {
        return Err("packed values in a leaf");
    }
    let mut last = after.map(|(key, number)| (key.to_vec(), number));
    let mut key = leaf.prefix().to_vec();
    for at in 0..leaf.count() {
        let parts = leaf.parts(at);
        leaf.complete_key(at, &parts, &mut key);
        let (number, kind) = (tag_number(parts.tag), tag_kind(parts.tag));
        if number == SequenceNumber::ZERO {
            return Err("an entry without a number: of an ingest that never took effect, or whose footer is damaged");
        }
        let entry = EntryRef { key: &key, number, kind, value: &[] };
        if last.as_ref().is_some_and(|(key, number)| entry.order(key, *number).is_le()) {
            return Err("an entry that is not after the previous one");
        }
        let (last_key, last_number) = last.get_or_insert_default();
        last_key.clear();
        last_key.extend_from_slice(&key);
        *last_number = number;
    }
    Ok(leaf.count())
}

fn forward_only() -> Error {
    Error::InvalidArgument("the entries of a damaged file can be read only forward".into())
}

impl Cursor for SalvageCursor {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.seek_first()?;
        while self.valid && self.entry().order(key, number).is_lt() {
            self.next()?;
        }
        Ok(())
    }

    fn seek_for_prev(&mut self, _: &[u8], _: SequenceNumber) -> Result<()> {
        Err(forward_only())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.scan.rewind();
        (self.count, self.at, self.entries, self.started) = (0, 0, 0, false);
        self.lost.clear();
        self.step()
    }

    fn seek_last(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn next(&mut self) -> Result<()> {
        self.at += 1;
        self.step()
    }

    fn prev(&mut self) -> Result<()> {
        Err(forward_only())
    }

    fn valid(&self) -> bool {
        self.valid
    }

    fn entry(&self) -> EntryRef<'_> {
        let value = self.leaf.get(self.value.clone()).unwrap_or_default();
        EntryRef { key: &self.key, number: self.number, kind: tag_kind(self.tag), value }
    }
}

//! For the tests of disk components: random numbers, writes of all kinds, and reads that check a component whatever it
//! is.

use crate::branch::{BranchContext, BranchResources, Compression, ExtentMemory};
use crate::cache::{FileTable, PageCache};
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::merge::vec_cursor::VecEntry;
use crate::merge::{Cursor, EntryRef, Limit, MergeOperator, RangeTombstone, RangeTombstones, VisibleCursor};
use crate::util::key::encoded;
use crate::util::random::splitmix64;
use crate::util::sync::Arc;
use crate::util::{DatabaseId, FileNumber, FileNumbers, KeyspaceId, Kind, SequenceNumber};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

pub fn key(text: &str) -> Vec<u8> {
    encoded(KeyspaceId::DEFAULT, text.as_bytes())
}

/// A key from a number, in the number's order.
pub fn number_key(number: u64) -> Vec<u8> {
    key(&format!("{number:08}"))
}

/// A write of any kind.
#[derive(Clone, Debug)]
pub enum AnyWrite {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    Merge(Vec<u8>, Vec<u8>),
    /// Deletes the keys from the first to below the second.
    RangeDelete(Vec<u8>, Vec<u8>),
}

impl AnyWrite {
    /// Its key; of a range delete the first one.
    pub fn key(&self) -> &Vec<u8> {
        match self {
            Self::Put(key, _) | Self::Delete(key) | Self::Merge(key, _) | Self::RangeDelete(key, _) => key,
        }
    }

    /// Bytes of its key and of its value, operand, or end.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Put(key, other) | Self::Merge(key, other) | Self::RangeDelete(key, other) => key.len() + other.len(),
            Self::Delete(key) => key.len(),
        }
    }
}

/// What a Memtable would hold of writes with the numbers from `first` on.
pub fn from_memory(writes: &[AnyWrite], first: u64) -> (Vec<VecEntry>, RangeTombstones) {
    let (mut entries, mut deletions) = (Vec::new(), Vec::new());
    for (number, write) in (first..).zip(writes) {
        let (key, kind, value) = match write {
            AnyWrite::Put(key, value) => (key, Kind::Put, &value[..]),
            AnyWrite::Delete(key) => (key, Kind::Delete, &[][..]),
            AnyWrite::Merge(key, operand) => (key, Kind::Merge, &operand[..]),
            AnyWrite::RangeDelete(start, end) => {
                let number = SequenceNumber(number);
                deletions.push(RangeTombstone { start: start.clone(), end: end.clone(), number });
                continue;
            }
        };
        entries.push(VecEntry::new(key.clone(), number, kind, value));
    }
    (entries, RangeTombstones::new(deletions))
}

/// Appends operands to the value, or to a marker if there is no value.
pub struct Append;

pub const NO_BASE: &[u8] = b"^";

impl MergeOperator for Append {
    fn name(&self) -> &str {
        "append"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        out.extend_from_slice(base.unwrap_or(NO_BASE));
        operands.iter().for_each(|operand| out.extend_from_slice(operand));
        Ok(())
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(older);
        out.extend_from_slice(newer);
        // Not always, so that some chains of operands remain.
        !older.len().is_multiple_of(3)
    }
}

/// An empty simulated disk, and branch files on it.
pub fn disk() -> (SimulatedStorage, Arc<BranchContext>) {
    let disk = SimulatedStorage::new(1);
    disk.create_directory().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let context = BranchContext::new(BranchResources {
        storage: Arc::clone(&storage),
        database: DatabaseId(42),
        cache: Arc::new(PageCache::new(64 << 20)),
        files: Arc::new(FileTable::new(storage, 100)),
        numbers: Arc::new(FileNumbers::new(FileNumber(1))),
        form: Compression::None.into(),
        extents: ExtentMemory::new(64 << 20),
    });
    (disk, context)
}

/// The pairs that a scan shows at `pin`.
pub fn scan(cursor: impl Cursor, masked: bool, pin: u64, backward: bool) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut cursor = VisibleCursor::new(cursor, SequenceNumber(pin), Vec::new(), None).masked(masked);
    let mut seen = BTreeMap::new();
    if backward {
        cursor.seek_last().unwrap()
    } else {
        cursor.seek_first().unwrap()
    }
    while cursor.valid() {
        let entry = cursor.entry();
        let operands: Vec<&[u8]> = cursor.operands().iter().map(|operand| &operand[..]).collect();
        let value = folded(entry.kind, entry.value, &operands).unwrap();
        assert!(seen.insert(entry.key.to_vec(), value).is_none());
        if backward { cursor.prev().unwrap() } else { cursor.next().unwrap() }
    }
    seen
}

/// The value that a get finds at `pin`. `find` finds one version; operands are gathered one by one.
pub fn get(
    pin: u64,
    mut find: impl FnMut(SequenceNumber, &mut Vec<u8>) -> Option<(SequenceNumber, Kind)>,
) -> Option<Vec<u8>> {
    let (mut at, mut operands) = (SequenceNumber(pin), Vec::new());
    loop {
        let mut out = Vec::new();
        let kind = match find(at, &mut out) {
            Some((number, Kind::Merge)) => {
                operands.insert(0, out);
                at = SequenceNumber(number.0 - 1);
                continue;
            }
            Some((_, kind)) => kind,
            None => Kind::Delete,
        };
        let operands: Vec<&[u8]> = operands.iter().map(|operand: &Vec<u8>| &operand[..]).collect();
        return folded(kind, &out, &operands);
    }
}

/// All entries of a cursor, forward. Backward, and passed in blocks of random lengths, they are the same.
pub fn entries(cursor: &mut impl Cursor) -> Vec<VecEntry> {
    let mut forward = Vec::new();
    cursor.seek_first().unwrap();
    while cursor.valid() {
        forward.push(VecEntry::from(cursor.entry()));
        cursor.next().unwrap();
    }
    assert!(forward.is_sorted_by(|one, other| one.as_ref().order(&other.key, other.number).is_lt()));
    let mut backward = Vec::new();
    cursor.seek_last().unwrap();
    while cursor.valid() {
        backward.push(VecEntry::from(cursor.entry()));
        cursor.prev().unwrap();
    }
    backward.reverse();
    assert_eq!(forward, backward);
    let (mut passed, mut random) = (Vec::new(), Random(forward.len() as u64));
    cursor.seek_first().unwrap();
    while cursor.valid() {
        let mut left = 1 + random.below(100);
        let limit = random.below(forward.len());
        let limit = if random.below(2) == 0 { Limit::at(&forward[limit].key) } else { Limit::NONE };
        let flow = cursor
            .pass(limit, &mut |entry: EntryRef<'_>| {
                if left == 0 {
                    return ControlFlow::Break(());
                }
                left -= 1;
                passed.push(VecEntry::from(entry));
                ControlFlow::Continue(())
            })
            .unwrap();
        let next = cursor.valid().then(|| VecEntry::from(cursor.entry()));
        assert_eq!(next.as_ref(), forward.get(passed.len()));
        assert_eq!(flow.is_continue(), next.is_none_or(|next| left > 0 || limit.is_reached(&next.key)));
    }
    assert_eq!(forward, passed);
    forward
}

/// The result of applying operands, oldest first, to an entry of this kind.
fn folded(kind: Kind, value: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
    let base = match kind {
        Kind::Put => Some(value),
        Kind::Delete | Kind::RangeDelete => None,
        other => panic!("an entry of kind {other:?}"),
    };
    if operands.is_empty() {
        return base.map(<[u8]>::to_vec);
    }
    let mut out = Vec::new();
    Append.full_merge(b"", base, operands, &mut out).unwrap();
    Some(out)
}

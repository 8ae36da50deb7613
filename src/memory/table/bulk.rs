//! Fills an empty Memtable in bulk, with entries in any order of keys and numbers. A tenth of the cost of placing them
//! singly.
//!
//! One thread, the only one with the Memtable: `BulkFill` owns it, and `finish` returns it. Nodes are written as the
//! entries come. At the end they are sorted, and each node is linked after the one before and inserted into the index.
//! So nothing is searched, and what is needed next can be prefetched.
//!
//! Invariants:
//! 1. Until `finish` nothing is linked, and no other thread has the Memtable.
//! 2. After `finish` the Memtable equals what `prepare` and `place` would have made of the same entries, drained,
//!    except that a key that came several times wastes memory for a node each time, and that its operands are folded
//!    with each other. It takes no more writes.

use super::memtable::Memtable;
use super::order;
use crate::memory::buffer::boundaries::common_prefix;
use crate::memory::entry::node::{Node, Target};
use crate::memory::entry::version::Version;
use crate::merge::operator::join_operands;
use crate::merge::{MergeOperator, MergeOperators, RangeTombstone, RangeTombstones};
use crate::util::arena::Offset;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, SequenceNumber, hash, key, limits};

/// How far ahead lines of the index are prefetched; nodes twice as far.
const AHEAD: usize = 8;

/// What a version takes in addition to its value, more or less.
const FOLD_MEMORY_BYTES: usize = 64;

/// Memory that successive fills reuse, because fresh pages cost microseconds each.
#[derive(Debug, Default)]
pub struct FillSpace {
    /// A node with one version for every entry.
    nodes: Vec<Offset>,
    /// The sort keys.
    keys: Vec<u128>,
}

/// A Memtable being filled. See the module.
#[derive(Debug)]
pub struct BulkFill<'a> {
    memtable: Arc<Memtable>,
    space: &'a mut FillSpace,
    operators: &'a MergeOperators,
}

impl<'a> BulkFill<'a> {
    /// Requires an empty Memtable that no other thread has.
    pub fn new(memtable: Arc<Memtable>, space: &'a mut FillSpace, operators: &'a MergeOperators) -> Self {
        let alone = memtable.is_empty() && Arc::strong_count(&memtable) == 1;
        assert!(alone, "a bulk fill requires an empty Memtable that nothing else refers to");
        space.nodes.clear();
        Self { memtable, space, operators }
    }

    /// Adds a version. Of versions with equal keys and equal numbers, the one added last is the newer.
    pub fn add(&mut self, keyspace: KeyspaceId, user_key: &[u8], kind: Kind, value: &[u8], number: SequenceNumber) {
        assert!(user_key.len() <= limits::KEY_BYTES_MAX && value.len() <= limits::VALUE_BYTES_MAX);
        let hash = hash::key_hash(keyspace, user_key);
        self.space.nodes.push(self.memtable.write_entry(Target::new(keyspace, user_key), hash, kind, value, number));
    }

    /// Adds a range tombstone.
    pub fn add_range_tombstone(&mut self, tombstone: RangeTombstone) {
        self.memtable.add_range_tombstones(RangeTombstones::new([tombstone]));
        // No snapshot is older than the store's opening.
        self.memtable.tidy_range_tombstones(SequenceNumber::ZERO);
    }

    /// Sorts and links all entries, and returns the Memtable.
    pub fn finish(self) -> Arc<Memtable> {
        let Self { memtable, space, operators } = self;
        let versions = space.nodes.len();
        sort(&memtable, space);
        let folded: usize = space.nodes.iter().map(|node| fold_chain(&memtable, *node, operators)).sum();
        link(&memtable, &space.nodes);
        memtable.count_filled((versions - folded) as u64);
        memtable
    }
}

/// Sorts the nodes by key, and leaves one for each key.
fn sort(memtable: &Memtable, space: &mut FillSpace) {
    let FillSpace { nodes, keys } = space;
    let key = |node: &Offset| memtable.node(*node).encoded_key();
    let Some(first) = nodes.first().map(key) else { return };
    let common = nodes.iter().fold(first.len(), |common, node| common_prefix(&first[..common], key(node)));
    order::sort(memtable, nodes, common, keys, |same| sort_whole_keys(memtable, same));
}

/// Sorts nodes by their whole keys. Leaves one node for each key, in front, with all versions of the key; returns how
/// many.
fn sort_whole_keys(memtable: &Memtable, nodes: &mut [Offset]) -> usize {
    let key = |node: &Offset| memtable.node(*node).encoded_key();
    let version = |node: &Offset| memtable.node(*node).newest(memtable.arena());
    if nodes.iter().any(|node| key(node) != key(&nodes[0])) {
        nodes.sort_by_key(key);
    }
    let (mut from, mut remaining) = (0, 0);
    while from < nodes.len() {
        let count = nodes[from..].iter().take_while(|node| key(node) == key(&nodes[from])).count();
        let same = &mut nodes[from..][..count];
        same.sort_by_cached_key(|node| version(node).number());
        for pair in same.windows(2) {
            version(&pair[1]).set_number(version(&pair[1]).number(), version(&pair[0]).place(), Offset::NULL);
        }
        let newest = version(&same[count - 1]);
        memtable.node(same[0]).set_newest(newest);
        nodes[remaining] = nodes[from];
        (from, remaining) = (from + count, remaining + 1);
    }
    remaining
}

/// Folds the operands of a key as far as possible, so that a counter takes one version however often the log adds to it.
/// No snapshot is older than the Memtable. Returns how many versions are gone.
fn fold_chain(memtable: &Memtable, node: Offset, operators: &MergeOperators) -> usize {
    let node = memtable.node(node);
    let newest = node.newest(memtable.arena());
    if newest.kind() != Kind::Merge {
        return 0;
    }
    operators.with(key::keyspace(node.encoded_key()), |operator| {
        operator.map_or(0, |operator| fold_operands(memtable, node, newest, operator))
    })
}

fn fold_operands(memtable: &Memtable, node: Node<'_>, newest: Version<'_>, operator: &dyn MergeOperator) -> usize {
    let key = node.encoded_key();
    let hidden_below = memtable.covering(key, SequenceNumber::MAX);
    let chain: Vec<Version<'_>> = std::iter::successors(Some(newest), |version| memtable.older(*version)).collect();
    let count = chain.iter().take_while(|version| is_operand(**version, hidden_below)).count();
    let (operands, below) = chain.split_at(count);
    let bytes: usize = operands.iter().chain(below.first()).map(|version| version.value().len()).sum();
    // The arena must have space for a second copy of all values of the key.
    if operands.is_empty() || memtable.slack_bytes() / 2 < 2 * bytes + FOLD_MEMORY_BYTES * count {
        return 0;
    }
    let base = below.first().filter(|version| version.number() >= hidden_below);
    let is_hidden = base.is_none() && hidden_below > SequenceNumber::ZERO;
    let user_key = &key[KeyspaceId::BYTES..];
    let value = match base.map(|base| (base.kind(), base.value())) {
        Some((Kind::Put, value)) => Some(Some(value)),
        Some((Kind::Delete, _)) => Some(None),
        None if is_hidden => Some(None),
        _ => None,
    };
    // An operator may make much of little.
    let bytes_max = (bytes + 16).min(limits::VALUE_FILE_BYTES_MIN - 1);
    if let Some(value) = value {
        let oldest_first: Vec<&[u8]> = operands.iter().rev().map(|version| version.value()).collect();
        let mut folded = Vec::new();
        if operator.full_merge(user_key, value, &oldest_first, &mut folded).is_ok() && folded.len() <= bytes_max {
            node.set_newest(memtable.write_version(Kind::Put, &folded, newest.number(), Offset::NULL));
            return chain.len() - 1;
        }
    }
    let oldest_first = operands.iter().rev().map(|version| (version.number(), version.value().to_vec())).collect();
    let joined = join_operands(operator, user_key, oldest_first, bytes_max);
    let joined_bytes: usize = joined.iter().map(|(_, operand)| operand.len()).sum();
    if joined.len() == operands.len() || joined_bytes > 2 * bytes {
        return 0;
    }
    let mut previous = below.first().map_or(Offset::NULL, |version| version.place());
    for (number, operand) in &joined {
        let version = memtable.write_version(Kind::Merge, operand, *number, previous);
        previous = version.place();
        node.set_newest(version);
    }
    operands.len() - joined.len()
}

fn is_operand(version: Version<'_>, hidden_below: SequenceNumber) -> bool {
    version.kind() == Kind::Merge && version.number() >= hidden_below
}

/// Links all nodes and inserts them into the index.
fn link(memtable: &Memtable, nodes: &[Offset]) {
    let mut hashes = [0; AHEAD];
    let mut last = memtable.list.start();
    for step in 0..nodes.len() + AHEAD {
        if let Some(node) = nodes.get(step + AHEAD) {
            memtable.arena().prefetch(*node);
        }
        let hash = nodes.get(step).map_or(0, |node| memtable.hash_of(*node));
        let due = std::mem::replace(&mut hashes[step % AHEAD], hash);
        if let Some(node) = step.checked_sub(AHEAD).map(|at| nodes[at]) {
            memtable.list.append(memtable.arena(), memtable.node(node), &mut last);
            memtable.insert_into_index(due, node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryComponent, MemtablePool, MemtableWriter};
    use crate::merge::Cursor;
    use crate::util::random::splitmix64;

    type Entry = (KeyspaceId, Vec<u8>, Kind, Vec<u8>, u64);

    fn placed(entries: &[Entry], soft_bytes: usize) -> Arc<Memtable> {
        let memtable = MemtablePool::new(MemoryComponent::TwoLevel, soft_bytes).take();
        let mut ordered: Vec<_> = entries.iter().collect();
        ordered.sort_by_key(|entry| entry.4);
        let mut writer = MemtableWriter::default();
        for (keyspace, key, kind, value, number) in ordered {
            memtable.attach(&mut writer, 1);
            let key = (*keyspace, &key[..], hash::key_hash(*keyspace, key));
            let mut prepared = memtable.prepare(&mut writer, key, *kind, value);
            // As if there were a snapshot between any two numbers: all versions stay.
            memtable.place(&mut writer, &mut prepared, SequenceNumber(*number), SequenceNumber::MAX);
        }
        memtable
    }

    fn filled(entries: &[Entry], soft_bytes: usize) -> Arc<Memtable> {
        let mut space = FillSpace::default();
        let none = MergeOperators::default();
        // The content left by an earlier fill must not matter.
        let mut earlier =
            BulkFill::new(MemtablePool::new(MemoryComponent::TwoLevel, soft_bytes).take(), &mut space, &none);
        earlier.add(KeyspaceId(0), b"earlier", Kind::Put, b"value", SequenceNumber(1));
        drop(earlier);
        let mut fill =
            BulkFill::new(MemtablePool::new(MemoryComponent::TwoLevel, soft_bytes).take(), &mut space, &none);
        for (keyspace, key, kind, value, number) in entries {
            fill.add(*keyspace, key, *kind, value, SequenceNumber(*number));
        }
        fill.finish()
    }

    fn contents(memtable: &Arc<Memtable>) -> Vec<(Vec<u8>, u64, Kind, Vec<u8>)> {
        let mut cursor = memtable.cursor();
        cursor.seek_first().unwrap();
        let mut all = Vec::new();
        while cursor.valid() {
            let entry = cursor.entry();
            all.push((entry.key.to_vec(), entry.number.0, entry.kind, entry.value.to_vec()));
            cursor.next().unwrap();
        }
        all
    }

    /// Entries in an order other than that of their numbers, as recovery reads them from the chunks of several threads.
    fn entries(seed: u64, keys: u64, key: impl Fn(u64) -> Vec<u8>) -> Vec<Entry> {
        let mut seed = seed;
        let mut entries: Vec<Entry> = (1..=2000)
            .map(|number| {
                let keyspace = KeyspaceId((splitmix64(&mut seed) % 3) as u32 * 300);
                let kind = if splitmix64(&mut seed).is_multiple_of(5) { Kind::Delete } else { Kind::Put };
                let value = if kind == Kind::Put { vec![number as u8; number as usize % 40] } else { Vec::new() };
                (keyspace, key(splitmix64(&mut seed) % keys), kind, value, number)
            })
            .collect();
        for at in (1..entries.len()).rev() {
            entries.swap(at, (splitmix64(&mut seed) % (at as u64 + 1)) as usize);
        }
        entries
    }

    fn same(entries: &[Entry], soft_bytes: usize) {
        let (placed, filled) = (placed(entries, soft_bytes), filled(entries, soft_bytes));
        assert_eq!(contents(&filled), contents(&placed));
        assert_eq!(filled.entries(), placed.entries());
        for (at, (keyspace, key, ..)) in entries.iter().enumerate() {
            let at = SequenceNumber(if at % 2 == 0 { u64::MAX >> 8 } else { at as u64 });
            let get = |memtable: &Memtable| {
                let mut value = Vec::new();
                (memtable.get(*keyspace, key, hash::key_hash(*keyspace, key), at, &mut value), value)
            };
            assert_eq!(get(&filled), get(&placed));
        }
        let absent = [7; 9];
        let hash = hash::key_hash(KeyspaceId(0), &absent);
        assert_eq!(filled.get(KeyspaceId(0), &absent, hash, SequenceNumber::MAX, &mut Vec::new()), None);
    }

    #[test]
    fn a_bulk_fill_equals_single_writes() {
        for seed in 0..4 {
            // Eight-byte numbers; long common prefixes; keys that are prefixes of others; ends that look like padding.
            same(&entries(seed, 1 << 40, |key| key.to_be_bytes().to_vec()), 1 << 20);
            same(
                &entries(seed, 700, |key| format!("a/long/common/prefix/of/{:03}/{key}", key % 7).into_bytes()),
                1 << 20,
            );
            same(&entries(seed, 90, |key| vec![0; key as usize]), 1 << 20);
            same(
                &entries(seed, 90, |key| [vec![1; 3 + key as usize / 9], vec![0; key as usize % 9]].concat()),
                1 << 20,
            );
            same(&entries(seed, 1, |_| Vec::new()), 1 << 20);
        }
        same(&[], 1 << 20);
    }

    #[test]
    fn keys_beyond_the_capacity_of_the_index_are_found() {
        // The index has slots for a 64th of the keys.
        same(&entries(1, 1 << 40, |key| key.to_le_bytes().to_vec()), 4 << 10);
    }
}

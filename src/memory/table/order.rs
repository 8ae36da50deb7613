//! Sorts nodes by key, for bulk fills and drains. Any thread.

use super::memtable::Memtable;
use crate::util::arena::Offset;

/// Bytes of a key that are sorted as part of a number.
const SORTED_BYTES: usize = 12;
/// How far ahead nodes are prefetched.
const AHEAD: usize = 12;
const _: () = assert!(SORTED_BYTES + size_of::<Offset>() == size_of::<u128>());

/// Sorts nodes whose keys have their first `common` bytes in common. The next bytes of the keys are sorted as a number,
/// with the node's place in the low bits. `resolve_ties` is called for each group of nodes with equal bytes. It sorts
/// the group, and returns how many of its first nodes remain.
pub fn sort(
    memtable: &Memtable,
    nodes: &mut Vec<Offset>,
    common: usize,
    keys: &mut Vec<u128>,
    mut resolve_ties: impl FnMut(&mut [Offset]) -> usize,
) {
    keys.clear();
    keys.reserve(nodes.len());
    for (at, node) in nodes.iter().enumerate() {
        if let Some(ahead) = nodes.get(at + AHEAD) {
            memtable.prefetch(*ahead);
        }
        keys.push(sort_key(&memtable.node(*node).encoded_key()[common..], *node));
    }
    keys.sort_unstable();
    nodes.clear();
    for same in keys.chunk_by(|a, b| a >> u32::BITS == b >> u32::BITS) {
        let from = nodes.len();
        nodes.extend(same.iter().map(|key| Offset(*key as u32)));
        if same.len() > 1 {
            let remaining = resolve_ties(&mut nodes[from..]);
            nodes.truncate(from + remaining);
        }
    }
}

fn sort_key(key: &[u8], node: Offset) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    let taken = key.len().min(SORTED_BYTES);
    bytes[..taken].copy_from_slice(&key[..taken]);
    u128::from_be_bytes(bytes) | u128::from(node.0)
}

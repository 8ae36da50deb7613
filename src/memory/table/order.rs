//! Puts nodes into the order of their keys: what `bulk` and the Membuffer's drain do before they link.

use super::memtable::Memtable;
use crate::util::arena::Offset;

/// Bytes of a key that take part in the sort as a number.
const SORTED_BYTES: usize = 12;
/// How far ahead nodes are fetched.
const AHEAD: usize = 12;
const _: () = assert!(SORTED_BYTES + size_of::<Offset>() == size_of::<u128>());

/// Sorts nodes whose keys all begin with the same `common` bytes. The first bytes behind these are sorted as one number with the
/// node's place below; `resolve_ties` is given each run of nodes that agree in them, and says how many of them stay, in front.
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

//! Puts the keys of a write in order: each key once, and its latches in table order. One sort of hashes gives both. Pure.

use super::entry::Entry;
use crate::engine::state::latches::{LatchIndex, Latches};

/// Removes all entries but the last one of each key, and returns the latches of the keys and of those that the write reads, given
/// their hashes: in table order, each once.
pub(super) fn sort_out(entries: &mut Vec<Entry<'_>>, read: impl Iterator<Item = u64>) -> Vec<LatchIndex> {
    let mut order: Vec<(u64, usize)> =
        entries.iter().enumerate().map(|(at, entry)| (Latches::order_of(entry.hash), at)).collect();
    order.sort_unstable();
    let mut replaced: Vec<usize> = Vec::new();
    for same_hash in order.chunk_by(|one, next| one.0 == next.0).filter(|same_hash| same_hash.len() > 1) {
        for (step, (_, at)) in same_hash.iter().enumerate() {
            // The next one, except among keys that share a hash.
            if same_hash[step + 1..].iter().any(|(_, later)| entries[*later].key == entries[*at].key) {
                replaced.push(*at);
            }
        }
    }
    let written = order.iter().map(|(_, at)| Latches::index_of(entries[*at].hash));
    let mut latches: Vec<_> = written.chain(read.map(Latches::index_of)).collect();
    if !latches.is_sorted() {
        latches.sort_unstable();
    }
    latches.dedup();
    if !replaced.is_empty() {
        replaced.sort_unstable();
        let (mut at, mut replaced) = (0, replaced.into_iter().peekable());
        entries.retain(|_| {
            let is_replaced = replaced.next_if_eq(&at).is_some();
            at += 1;
            !is_replaced
        });
    }
    latches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::types::key_change::KeyChange;
    use crate::engine::types::user_key::UserKey;

    fn entry<'a>(key: &'a str, value: &'a str) -> Entry<'a> {
        Entry::new(UserKey::of_default(key), KeyChange::Put(value.as_bytes()))
    }

    fn view<'e>(entries: &'e [Entry<'_>]) -> Vec<(&'e [u8], &'e [u8])> {
        entries.iter().map(|entry| (entry.key.bytes, &*entry.value)).collect()
    }

    #[test]
    fn the_last_entry_of_each_key_stays_in_its_place() {
        let mut entries =
            vec![entry("b", "1"), entry("a", "1"), entry("b", "2"), entry("c", "1"), entry("b", "3"), entry("a", "2")];
        let latches = sort_out(&mut entries, std::iter::empty());
        assert_eq!(view(&entries), [(&b"c"[..], &b"1"[..]), (b"b", b"3"), (b"a", b"2")]);
        assert!(latches.len() == 3 && latches.is_sorted_by(|one, next| one < next));
    }

    /// Different keys with one hash, between which those of one key lie.
    #[test]
    fn keys_that_share_a_hash_stay() {
        let mut entries = vec![entry("a", "1"), entry("b", "1"), entry("a", "2"), entry("c", "1"), entry("b", "2")];
        entries.iter_mut().for_each(|entry| entry.hash = 7);
        let latches = sort_out(&mut entries, std::iter::empty());
        assert_eq!(view(&entries), [(&b"a"[..], &b"2"[..]), (b"c", b"1"), (b"b", b"2")]);
        assert_eq!(latches, [Latches::index_of(7)]);
    }

    #[test]
    fn latches_of_keys_that_are_read_are_among_them() {
        let keys: Vec<_> = (0..200).map(|number| format!("{number}")).collect();
        let mut entries: Vec<_> = keys.iter().map(|key| entry(key, "")).collect();
        let read: Vec<u64> = keys.iter().rev().map(|key| UserKey::of_default(&format!("read {key}")).hash()).collect();
        let mut all: Vec<_> =
            entries.iter().map(|entry| entry.hash).chain(read.iter().copied()).map(Latches::index_of).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(sort_out(&mut entries, read.into_iter()), all);
        assert_eq!(entries.len(), 200);
    }
}

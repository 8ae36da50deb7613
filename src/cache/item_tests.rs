//! Tests of the item cache.

use super::item_cache::ItemCache;
use super::item_shard::{Item, ItemShard};
use crate::util::SequenceNumber;
use crate::util::hash::bytes_hash;
use crate::util::random::splitmix64 as random;
use crate::util::sync::{Arc, Ordering};
use std::collections::HashMap;

const LEAF_BYTES: usize = 4096;

/// A seventh of the keys has values that fill leaves of two to seven pages.
fn pages(key: u64) -> usize {
    if key.is_multiple_of(7) { 2 + key as usize % 6 } else { 1 }
}

fn value(key: u64, number: u64) -> Vec<u8> {
    let more = random(&mut (key + number)) as usize % 90 + (pages(key) - 1) * 300;
    format!("{key} at {number}, {}", "x".repeat(more)).into_bytes()
}

/// Adds version `number` of a key.
fn add(shard: &mut ItemShard, key: u64, number: u64, limit: usize) {
    let (name, value) = (key.to_be_bytes(), value(key, number));
    let (hash, number, leaf_bytes) = (bytes_hash(&name), SequenceNumber(number), pages(key) * LEAF_BYTES);
    shard.add(Item { key: &name, hash, number, value: &value, leaf_bytes }, limit);
}

fn get(shard: &mut ItemShard, key: u64, at: u64) -> Option<(u64, Vec<u8>)> {
    let (name, mut out) = (key.to_be_bytes(), b"before".to_vec());
    let number = shard.get(&name, bytes_hash(&name), SequenceNumber(at), &mut out);
    assert_eq!(&out[..6], b"before", "the previous contents of `out` are lost");
    number.map(|number| (number.0, out.split_off(6)))
}

#[test]
fn a_shard_returns_what_was_added_last_and_keeps_its_limit() {
    const LIMIT: usize = 64 << 10;
    for seed in 0..8 {
        let (mut state, mut shard) = (seed, ItemShard::default());
        // The version added last of each key. The shard may have lost it but must not have another.
        let mut model: HashMap<u64, u64> = HashMap::new();
        let (mut hits, mut most) = (0, 0);
        for number in 1..20_000 {
            // A few keys are popular.
            let key = random(&mut state) % if random(&mut state).is_multiple_of(2) { 40 } else { 3_000 };
            match get(&mut shard, key, u64::MAX) {
                Some((found, bytes)) => {
                    assert_eq!((Some(&found), bytes), (model.get(&key), value(key, found)));
                    assert_eq!(get(&mut shard, key, found - 1), None, "the item is newer than the requested number");
                    hits += 1;
                }
                None => {
                    add(&mut shard, key, number, LIMIT);
                    model.insert(key, number);
                }
            }
            if random(&mut state).is_multiple_of(16) {
                let key = random(&mut state) % 40;
                shard.invalidate(bytes_hash(&key.to_be_bytes()));
                assert_eq!(get(&mut shard, key, u64::MAX), None);
            }
            assert!(shard.bytes() <= LIMIT, "{} bytes", shard.bytes());
            most = most.max(shard.len());
        }
        // Half of the lookups are for 40 keys, which stay unless they are invalidated.
        assert!(hits > 8_000 && most > 200, "{hits} hits, {most} items");
        shard.invalidate_where(&mut |key| key < &20u64.to_be_bytes()[..]);
        assert!((0..20).all(|key| get(&mut shard, key, u64::MAX).is_none()));
        assert!((20..3_000).any(|key| get(&mut shard, key, u64::MAX).is_some()));
        shard.shrink_to(0);
        assert_eq!((shard.len(), shard.bytes()), (0, 0));
    }
}

#[test]
fn items_with_hits_outlive_those_without() {
    let mut shard = ItemShard::default();
    add(&mut shard, 1, 7, 32 << 10);
    for key in 100..10_000 {
        assert!(get(&mut shard, 1, u64::MAX).is_some(), "evicted before key {key}");
        add(&mut shard, key, 7, 32 << 10);
    }
    assert!(get(&mut shard, 100, u64::MAX).is_none());
}

#[test]
fn items_that_fill_their_leaf_and_leaves_larger_than_the_limit_are_not_kept() {
    let mut shard = ItemShard::default();
    let mut offer = |key: &[u8], value: usize, leaf_bytes, limit| {
        let value = vec![7; value];
        let item = Item { key, hash: bytes_hash(key), number: SequenceNumber(1), value: &value, leaf_bytes };
        shard.add(item, limit);
        (shard.len(), shard.bytes() <= limit)
    };
    assert_eq!(offer(b"large", 2100, LEAF_BYTES, 64 << 10), (0, true));
    assert_eq!(offer(b"half", 2100, 2 * LEAF_BYTES, 64 << 10), (1, true));
    assert_eq!(offer(b"page of a huge leaf", 2100, 64 * LEAF_BYTES, 1 << 20), (1, true));
    // This one still fits in the chunk of two pages. The next two need a chunk of eight pages.
    assert_eq!(offer(b"beside it", 5000, 8 * LEAF_BYTES, 48 << 10), (2, true));
    assert_eq!(offer(b"no room for its chunk", 9000, 8 * LEAF_BYTES, 30 << 10), (2, true));
    assert_eq!(offer(b"instead of all others", 9000, 8 * LEAF_BYTES, 36 << 10), (1, true));
}

#[test]
fn keys_with_equal_hashes_are_distinguished_and_invalidated_together() {
    let mut shard = ItemShard::default();
    for (key, value) in [("a", "1"), ("b", "2")] {
        let (number, value, leaf_bytes) = (SequenceNumber(1), value.as_bytes(), LEAF_BYTES);
        let item = Item { key: key.as_bytes(), hash: 5, number, value, leaf_bytes };
        shard.add(item, 64 << 10);
        shard.add(Item { value: b"again", ..item }, 64 << 10);
    }
    let mut out = Vec::new();
    assert!(shard.get(b"a", 5, SequenceNumber::MAX, &mut out).is_some());
    assert!(shard.get(b"b", 5, SequenceNumber::MAX, &mut out).is_some());
    assert!(shard.get(b"c", 5, SequenceNumber::MAX, &mut out).is_none());
    assert_eq!(out, b"12");
    shard.invalidate(5);
    assert_eq!(shard.len(), 0);
}

fn cached(cache: &ItemCache, key: u64) -> bool {
    let name = key.to_be_bytes();
    cache.get(&name, bytes_hash(&name), SequenceNumber::MAX, &mut Vec::new()).is_some()
}

fn offer(cache: &ItemCache, stamp: u64, key: u64) {
    let name = key.to_be_bytes();
    let (number, value, leaf_bytes) = (SequenceNumber(1), &[7; 100], LEAF_BYTES);
    cache.add(stamp, Item { key: &name, hash: bytes_hash(&name), number, value, leaf_bytes });
}

#[test]
fn a_value_read_before_a_change_began_is_not_added() {
    let cache = ItemCache::new(1 << 20, Arc::default());
    let stamp = cache.stamp();
    offer(&cache, stamp, 1);
    cache.begin_change();
    offer(&cache, stamp, 2);
    assert!(cached(&cache, 1) && !cached(&cache, 2));
    cache.invalidate(bytes_hash(&1u64.to_be_bytes()));
    offer(&cache, cache.stamp(), 2);
    assert!(!cached(&cache, 1) && cached(&cache, 2));
}

#[test]
fn memory_follows_the_hits_of_items() {
    const BYTES: usize = 8 << 20;
    let cache = ItemCache::new(BYTES, Arc::default());
    let fill = || (0..200_000).for_each(|key| offer(&cache, cache.stamp(), key));
    fill();
    let full = cache.bytes();
    assert!(full > BYTES * 3 / 4 && full <= BYTES, "{full} bytes");
    (0..20).for_each(|_| cache.adjust_limit(1024));
    assert!(cache.bytes() <= BYTES / 8, "{} bytes are cached that are never looked up", cache.bytes());
    let items = cache.statistics().items;
    assert!(items > 0 && items < 20_000, "{items}");
    // One hit for sixteen misses is enough.
    for _ in 0..20 {
        assert_eq!((0..200_000).rev().filter(|key| cached(&cache, *key)).take(64).count(), 64);
        cache.adjust_limit(1024);
        fill();
    }
    assert!(cache.bytes() > BYTES * 3 / 4, "{} bytes", cache.bytes());
}

/// The shards are made with the first item. A change that begins just before must not be forgotten by them.
#[test]
fn an_empty_cache_has_no_shards_and_knows_of_every_change() {
    let total = Arc::default();
    let cache = ItemCache::new(1 << 20, Arc::clone(&total));
    let add = |stamp: u64, key: &[u8]| {
        let (number, leaf_bytes) = (SequenceNumber(1), LEAF_BYTES);
        let item = Item { key, hash: bytes_hash(key), number, value: b"value", leaf_bytes };
        cache.add(stamp, item);
    };
    let early = cache.stamp();
    cache.begin_change();
    add(early, b"old");
    assert!(cache.is_empty(), "an item of a reader from before the change was added");
    add(cache.stamp(), b"new");
    assert_eq!(cache.statistics().items, 1);
    assert_eq!(total.load(Ordering::Relaxed), cache.bytes());
    cache.clear();
    assert_eq!((cache.bytes(), total.load(Ordering::Relaxed)), (0, 0));
}

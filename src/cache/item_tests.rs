//! Tests of the item cache.

use super::item_cache::ItemCache;
use super::item_shard::{Item, ItemShard};
use crate::util::SequenceNumber;
use crate::util::hash::bytes_hash;
use crate::util::random::splitmix64 as random;
use crate::util::sync::{Arc, Ordering};
use std::collections::HashMap;

fn value(key: u64, number: u64) -> Vec<u8> {
    format!("{key} at {number}, {}", "x".repeat(random(&mut (key + number)) as usize % 90)).into_bytes()
}

/// Adds version `number` of a key.
fn add(shard: &mut ItemShard, key: u64, number: u64, limit: usize) {
    let (name, value) = (key.to_be_bytes(), value(key, number));
    let item = Item { key: &name, hash: bytes_hash(&name), number: SequenceNumber(number), value: &value };
    shard.add(item, limit);
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
        assert!(hits > 8_000 && most > 300, "{hits} hits, {most} items");
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
fn keys_with_equal_hashes_are_distinguished_and_invalidated_together() {
    let mut shard = ItemShard::default();
    for (key, value) in [("a", "1"), ("b", "2")] {
        let item = Item { key: key.as_bytes(), hash: 5, number: SequenceNumber(1), value: value.as_bytes() };
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
    cache.add(stamp, Item { key: &name, hash: bytes_hash(&name), number: SequenceNumber(1), value: &[7; 100] });
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
        let item = Item { key, hash: bytes_hash(key), number: SequenceNumber(1), value: b"value" };
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

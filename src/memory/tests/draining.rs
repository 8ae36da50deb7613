//! The partitions of the Membuffer: how even they are, and that a drain leaves nothing behind.

use super::*;

/// As many nodes as may wait in a partition before boundaries are learned anew, and one slice more.
const WAITING_MAX: usize = 4 * 128 + 512;

fn put_new(memtable: &Memtable, user_key: &[u8], number: u64) {
    let prepared = prepare(memtable, (KEYSPACE, user_key, key_hash(KEYSPACE, user_key)), Kind::Put, b"value");
    place(memtable, prepared, number, EVERYWHERE);
}

fn put_all(memtable: &Memtable, keys: impl Iterator<Item = Vec<u8>>) {
    for (key, number) in keys.zip(1..) {
        put_new(memtable, &key, number);
        if number % 1_000 == 0 {
            memtable.drain_waiting();
        }
    }
}

fn random_keys(seed: u64, count: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random(seed);
    (0..count).map(move |_| random.next().to_be_bytes().to_vec())
}

/// The number of partitions, and the most nodes that wait in one.
fn partitions(memtable: &Memtable) -> (usize, usize) {
    let state = memtable.membuffer.state.lock();
    (state.boundaries.partitions(), state.waiting.iter().map(Vec::len).max().unwrap_or(0))
}

#[test]
fn a_memtable_begins_with_the_boundaries_of_the_one_before() {
    let pool = pool(64 << 20);
    let first = pool.take();
    put_all(&first, random_keys(1, 60_000));
    let (learned, longest) = partitions(&first);
    assert!(learned >= 60_000 / WAITING_MAX && longest <= WAITING_MAX, "{learned} partitions, {longest} nodes in one");
    let second = pool.take();
    assert_eq!(partitions(&second), (learned, 0));
    let before = Arc::as_ptr(&second.membuffer.state.lock().boundaries);
    put_all(&second, random_keys(2, learned * 128));
    assert_eq!(Arc::as_ptr(&second.membuffer.state.lock().boundaries), before, "keys that are spread alike");
    drop((first, second));
    assert_eq!(partitions(&pool.take()), (1, 0), "boundaries end with the last Memtable that has them");
}

/// Keys of a new kind all belong to one of the partitions that were learned from the old kind.
#[test]
fn partitions_become_even_again_when_other_keys_come() {
    let pool = pool(64 << 20);
    let first = pool.take();
    put_all(&first, random_keys(1, 20_000));
    let second = pool.take();
    let prefixed = |key: Vec<u8>| [b"user", &key[..]].concat();
    put_all(&second, random_keys(2, 20_000).map(prefixed));
    let (_, longest) = partitions(&second);
    // Since boundaries were learned, at most four times as many nodes have come.
    assert!(longest <= 4 * WAITING_MAX, "{longest} of 20,000 nodes wait in one partition");
    let keys: Vec<Vec<u8>> = forward(&mut second.cursor()).into_iter().map(|row| row.0).collect();
    assert!(keys.len() == 20_000 && keys.is_sorted());
}

/// Scans that drain all the time leave no partition with many waiting nodes. Boundaries are learned all the same, because
/// the next Memtable begins with them and its incorporation sorts partition by partition.
#[test]
fn boundaries_are_learned_although_no_node_waits_for_long() {
    let memtable = pool(64 << 20).take();
    for (key, number) in random_keys(1, 10_000).zip(1..) {
        put_new(&memtable, &key, number);
        if number % 100 == 0 {
            memtable.drain_all();
        }
    }
    assert!(partitions(&memtable).0 >= 10_000 / 1024, "{:?}", partitions(&memtable));
}

/// The cursor of an incorporation remembers where a partition ends. Boundaries once changed after the seal, in a drain
/// that found the partitions uneven, and keys came twice.
#[test]
fn a_sealed_memtable_keeps_its_boundaries() {
    let memtable = pool(64 << 20).take();
    // The last slice has the nodes that make the only partition uneven.
    for (key, number) in random_keys(1, 600).zip(1..) {
        put_new(&memtable, &key, number);
    }
    memtable.seal();
    let sealed = partitions(&memtable);
    assert_eq!(sealed, (1, 600));
    // As a background task does that began before the seal.
    memtable.drain_waiting();
    assert_eq!(partitions(&memtable), sealed);
    memtable.drain_all();
    assert_eq!(partitions(&memtable), (1, 0));
}

/// A new Memtable has thousands of partitions and few keys. A scan passes those without nodes at once.
#[test]
fn partitions_without_nodes_are_passed_together() {
    let pool = pool(64 << 20);
    let first = pool.take();
    put_all(&first, random_keys(1, 20_000));
    let second = pool.take();
    let (learned, _) = partitions(&second);
    assert!(learned > 20);
    let mut forwards = second.drain_around(&[]);
    second.drain_after(&mut forwards, None);
    assert_eq!((forwards.from, forwards.upper()), (0, None));
    let mut backwards = second.drain_around(&[0xff; 20]);
    second.drain_before(&mut backwards, None);
    assert_eq!((backwards.lower(), backwards.to), (None, learned));
    // Up to a key, or to a partition with nodes, and no further.
    let boundaries = Arc::clone(&second.membuffer.state.lock().boundaries);
    let (seventh, fifteenth) = (boundaries.upper(6).unwrap(), boundaries.upper(14).unwrap());
    put_new(&second, key::split(seventh).unwrap().1, 1);
    let mut range = second.drain_around(&[]);
    second.drain_after(&mut range, Some(fifteenth));
    assert_eq!((range.from, range.to), (0, 8));
    second.drain_after(&mut range, Some(fifteenth));
    assert_eq!((range.from, range.to), (0, 16));
    let mut range = second.drain_around(&[0xff; 20]);
    second.drain_before(&mut range, Some(seventh));
    assert_eq!((range.from, range.to), (7, learned));
    assert_eq!(forward(&mut second.cursor()).len(), 1);
    assert_eq!(backward(&mut second.cursor()).len(), 1);
}

/// Threads hand nodes over in slices, and others get the lock in between. Each finds its own nodes linked once its drain
/// has returned, among them those of slices that another thread handed over.
#[test]
fn a_drain_links_what_was_queued_whoever_handed_it_over() {
    const THREADS: u64 = 4;
    let memtable = pool(64 << 20).take();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let memtable = &memtable;
            scope.spawn(move || {
                let mut random = Random(thread);
                for round in 0..40 {
                    let keys: Vec<Vec<u8>> = (0..1_500).map(|_| random.bytes(8)).collect();
                    for (key, at) in keys.iter().zip(1..) {
                        put_new(memtable, key, (thread * 40 + round) * 1_500 + at);
                    }
                    let sought = key::encoded(KEYSPACE, &keys[random.below(keys.len())]);
                    let drained = memtable.drain_around(&sought);
                    let linked = memtable.linked_between(drained.lower(), drained.upper());
                    let mut linked: Vec<&[u8]> = linked.iter().map(|node| memtable.node(*node).encoded_key()).collect();
                    assert!(linked.is_sorted());
                    let mut own: Vec<Vec<u8>> = keys.iter().map(|key| key::encoded(KEYSPACE, key)).collect();
                    own.retain(|key| drained.contains(key));
                    linked.dedup();
                    assert!(own.contains(&sought));
                    for key in &own {
                        assert!(linked.binary_search(&&key[..]).is_ok(), "a key of round {round} is not linked");
                    }
                }
            });
        }
    });
}

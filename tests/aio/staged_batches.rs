//! `AsyncStagedBatch`: the first poll does what memory can, the answers are those of a `StagedBatch`, and dropped futures leave
//! the batch in order.

use super::{Gate, Hooked, expect_pending, key, on_disk, polled, send, small, value};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{AsyncDb, Db, Error, KeyspaceOptions, Result, StagedScan, merge_operators};
use futures_lite::StreamExt;
use futures_lite::future::block_on;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

async fn pairs(scan: StagedScan<'_>) -> Pairs {
    send(scan).map(Result::unwrap).collect().await
}

/// Reads are blocked, so what needs the disk stays pending.
#[test]
fn the_first_poll_does_what_memory_can() {
    let (db, gate, _storage) = on_disk();
    let words = block_on(db.keyspace("words", KeyspaceOptions::new().merge_operator(merge_operators::Append))).unwrap();
    block_on(words.put("word", "a")).unwrap();
    assert_eq!(block_on(db.get(key(17))).unwrap(), Some(value(17)), "its page is cached from here on");
    let mut batch = db.staged_batch().unwrap();
    block_on(db.put("memory", "later")).unwrap();
    block_on(batch.within(&words).unwrap().merge("word", "b")).unwrap();

    gate.set_closed(true);
    polled(send(batch.put("own", "1"))).expect("pending").unwrap();
    polled(send(batch.put(key(3000), "2"))).expect("pending").unwrap();
    polled(send(batch.delete(key(3001)))).expect("pending").unwrap();
    polled(send(batch.delete_range(key(4000)..key(4010)))).expect("pending").unwrap();
    polled(send(batch.delete_prefix("key041"))).expect("pending").unwrap();
    polled(batch.put(key(4005), "3")).expect("pending").unwrap();
    let bytes = |value: &str| Some(value.as_bytes().to_vec());
    let expected = [
        (b"own".to_vec(), bytes("1")),
        (b"memory".to_vec(), bytes("here")),
        (key(17), Some(value(17))),
        (key(3000), bytes("2")),
        (key(3001), None),
        (key(4004), None),
        (key(4100), None),
        (key(4005), bytes("3")),
    ];
    for (key, value) in &expected {
        let name = key.escape_ascii();
        let found = polled(send(batch.get(key)));
        assert_eq!(found.unwrap_or_else(|| panic!("the get of {name} is pending")).unwrap(), *value, "{name}");
        let found = polled(send(batch.contains_key(key)));
        assert_eq!(found.unwrap_or_else(|| panic!("contains_key of {name} is pending")).unwrap(), value.is_some());
    }
    let mut part = batch.within(&words).unwrap();
    assert!(polled(part.contains_key("word")).expect("pending").unwrap());
    // Operators run on other threads.
    assert_eq!(block_on(part.get("word")).unwrap(), bytes("ab"));
    block_on(part.merge("word", "c")).unwrap();
    assert_eq!(block_on(part.get("word")).unwrap(), bytes("abc"));
    {
        let mut blocked = pin!(batch.get(key(2000)));
        expect_pending(blocked.as_mut());
        gate.set_closed(false);
        assert_eq!(block_on(blocked).unwrap(), Some(value(2000)));
    }
    block_on(batch.commit()).unwrap();
    for (key, value) in expected.into_iter().filter(|(key, _)| key != b"memory") {
        assert_eq!(block_on(db.get(&key)).unwrap(), value, "{}", key.escape_ascii());
    }
}

/// The same writes to both kinds of batches, which spill.
#[test]
fn the_answers_are_those_of_a_staged_batch() {
    let open = |seed| Db::open_with(Arc::new(SimulatedStorage::new(seed)), small()).unwrap();
    let (blocking_db, db) = (open(1), AsyncDb::new(open(1)));
    let options = || KeyspaceOptions::new().merge_operator(merge_operators::Append);
    let blocking_words = blocking_db.keyspace("words", options()).unwrap();
    let words = block_on(db.keyspace("words", options())).unwrap();
    for number in (0..2000).step_by(2) {
        blocking_db.put(key(number), "below").unwrap();
        block_on(db.put(key(number), "below")).unwrap();
        blocking_words.put(key(number), "below").unwrap();
        block_on(words.put(key(number), "below")).unwrap();
    }
    let mut blocking = blocking_db.staged_batch().unwrap().with_memory(16 << 10);
    let mut batch = db.staged_batch().unwrap().with_memory(16 << 10);
    assert!(batch.is_empty());
    block_on(async {
        for step in 0..3000_u32 {
            let number = step * 7919 % 2000;
            match step % 10 {
                0..6 => {
                    blocking.put(key(number), step.to_string()).unwrap();
                    batch.put(key(number), step.to_string()).await.unwrap();
                }
                6 => {
                    blocking.delete(key(number)).unwrap();
                    batch.delete(key(number)).await.unwrap();
                }
                7 => {
                    let (from, to) = (key(number), key(number + 5));
                    blocking.delete_range(&from[..]..&to[..]).unwrap();
                    batch.delete_range(&from[..]..&to[..]).await.unwrap();
                }
                _ => {
                    blocking.within(&blocking_words).unwrap().merge(key(number), step.to_string()).unwrap();
                    let mut part = batch.within(&words).unwrap();
                    send(part.merge(key(number), step.to_string())).await.unwrap();
                }
            }
            if step % 50 == 0 {
                let number = step % 2000;
                assert_eq!(batch.get(key(number)).await.unwrap(), blocking.get(key(number)).unwrap());
                let found = batch.contains_key(key(number + 1)).await.unwrap();
                assert_eq!(found, blocking.contains_key(key(number + 1)).unwrap());
            }
        }
        assert!(batch.spilled_bytes() > 0 && batch.spilled_bytes() == blocking.spilled_bytes());
        assert_eq!(batch.memory_bytes(), blocking.memory_bytes());
        let all: Pairs = blocking.iter().unwrap().map(Result::unwrap).collect();
        assert!(all.len() > 500, "{}", all.len());
        assert_eq!(pairs(batch.iter()).await, all);
        let reversed: Pairs = all.iter().rev().cloned().collect();
        assert_eq!(pairs(batch.iter().backward()).await, reversed);
        let range: Pairs = blocking.range(key(100)..key(900)).unwrap().map(Result::unwrap).collect();
        assert_eq!(pairs(batch.range(key(100)..key(900))).await, range);
        let prefix: Pairs = blocking.prefix("key000").unwrap().map(Result::unwrap).collect();
        assert_eq!(pairs(batch.prefix("key000")).await, prefix);
        let part: Pairs = blocking.within(&blocking_words).unwrap().iter().unwrap().map(Result::unwrap).collect();
        assert_eq!(pairs(batch.within(&words).unwrap().iter()).await, part);

        db.put("later", "1").await.unwrap();
        assert!(!batch.contains_key("later").await.unwrap());
        batch.refresh();
        assert!(batch.contains_key("later").await.unwrap());
        send(batch.commit()).await.unwrap();
        blocking_db.put("later", "1").unwrap();
        blocking.commit().unwrap();
        let committed: Pairs = blocking_db.iter().unwrap().map(Result::unwrap).collect();
        let found: Pairs = db.iter().unwrap().map(Result::unwrap).collect().await;
        assert_eq!(found, committed);
        let committed: Pairs = blocking_words.iter().unwrap().map(Result::unwrap).collect();
        let found: Pairs = words.iter().unwrap().map(Result::unwrap).collect().await;
        assert_eq!(found, committed);
    });
}

/// A put spills, on another thread; its future is dropped while that waits for the disk. The next one comes after it.
#[test]
fn a_write_waits_for_a_dropped_one_that_has_begun() {
    let gate = Arc::new(Gate::default());
    let passing = Arc::clone(&gate);
    let poller = std::thread::current().id();
    let before = move |_| {
        if std::thread::current().id() != poller {
            passing.pass();
        }
    };
    let storage = Hooked::new(Arc::new(SimulatedStorage::new(1)), before, |_| ());
    let db = AsyncDb::new(Db::open_with(Arc::new(storage), small()).unwrap());
    let mut batch = db.staged_batch().unwrap().with_memory(1);
    block_on(batch.put("full", "")).unwrap();
    gate.set_closed(true);
    {
        let mut dropped = pin!(batch.put("key", "dropped"));
        expect_pending(dropped.as_mut());
        gate.wait_for_reader();
    }
    {
        let mut last = pin!(batch.put("key", "last"));
        expect_pending(last.as_mut());
        gate.set_closed(false);
        block_on(last).unwrap();
    }
    assert_eq!(block_on(batch.get("key")).unwrap().as_deref(), Some(&b"last"[..]));
    block_on(batch.commit()).unwrap();
    assert_eq!(block_on(db.get("key")).unwrap().as_deref(), Some(&b"last"[..]));
}

/// A merge runs on another thread. Its future is dropped, and a put follows at once: the merge must not take effect after it.
#[test]
fn a_dropped_write_does_not_come_after_later_ones() {
    let options = small().merge_operator(merge_operators::Append);
    let db = AsyncDb::new(Db::open_with(Arc::new(SimulatedStorage::new(1)), options).unwrap());
    let mut batch = db.staged_batch().unwrap();
    for round in 0..5000 {
        {
            let mut merge = pin!(batch.merge("key", "dropped"));
            let _ = merge.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            // The thread begins meanwhile, in some rounds.
            (0..round % 100 * 20).for_each(|_| std::hint::spin_loop());
        }
        block_on(batch.put("key", "last")).unwrap();
        std::thread::yield_now();
        assert_eq!(block_on(batch.get("key")).unwrap().as_deref(), Some(&b"last"[..]));
    }
}

#[test]
fn a_batch_is_gone_with_its_handle_and_fails_after_the_store_was_closed() {
    let (db, gate, _storage) = on_disk();
    let mut dropped = db.staged_batch().unwrap();
    block_on(dropped.put("dropped", "1")).unwrap();
    let unpolled = dropped.commit();
    drop(unpolled);
    assert!(!block_on(db.contains_key("dropped")).unwrap());

    let mut batch = db.staged_batch().unwrap();
    block_on(batch.put("closed", "1")).unwrap();
    gate.set_closed(false);
    block_on(db.close()).unwrap();
    assert!(matches!(block_on(batch.put("closed", "2")), Err(Error::Closed)));
    assert!(matches!(block_on(batch.get("closed")), Err(Error::Closed)));
    assert!(matches!(block_on(batch.iter().next()), Some(Err(Error::Closed))));
    assert!(matches!(block_on(batch.commit()), Err(Error::Closed)));
    assert!(matches!(db.staged_batch().map(|_| ()), Err(Error::Closed)));
}

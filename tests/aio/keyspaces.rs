//! Keyspaces: `AsyncKeyspace`, and `within` of batches and snapshots.

use super::{counting_the_poller, expect_pending, keys_of, polled, send, small, wait_for_log_segment};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{
    AsyncDb, AsyncKeyspace, Change, Db, Durability, Error, KeyspaceOptions, Swap, WriteBatch, WriteOptions,
    merge_operators,
};
use futures_lite::future::block_on;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn methods_of_a_keyspace_agree_with_the_blocking_ones() {
    let directory = tempfile::tempdir().unwrap();
    let synced = WriteOptions::sync();
    block_on(async {
        let db = AsyncDb::open(directory.path(), small()).await.unwrap();
        let options = KeyspaceOptions::new().merge_operator(merge_operators::Append);
        let users = send(db.keyspace("users", options.clone())).await.unwrap();
        assert_eq!((users.name(), db.name()), ("users", "default"));
        assert_eq!(send(db.keyspace_names()).await.unwrap(), ["users"]);
        assert_eq!(db.keyspace("default", KeyspaceOptions::new()).await.unwrap().name(), "default");
        let other = KeyspaceOptions::new().merge_operator(merge_operators::Add);
        assert!(matches!(db.keyspace("users", other).await, Err(Error::KeyspaceMismatch { .. })));

        db.put("a", "default").await.unwrap();
        users.put("a", "1").await.unwrap();
        users.put_with("b", "2", synced).await.unwrap();
        users.merge("a", "+").await.unwrap();
        users.merge_with("a", "+", synced).await.unwrap();
        assert!(matches!(db.merge("a", "+").await, Err(Error::InvalidArgument(_))));
        assert_eq!(users.get("a").await.unwrap().as_deref(), Some(&b"1++"[..]));
        assert_eq!(db.get("a").await.unwrap().as_deref(), Some(&b"default"[..]));
        let found = users.multi_get(&["b", "c"]).await.unwrap();
        assert_eq!(found, [Some(b"2".to_vec()), None]);
        assert!(users.contains_key("b").await.unwrap() && !db.contains_key("b").await.unwrap());

        users.update("b", |_| Some(b"3".to_vec())).await.unwrap();
        users.update_with("b", synced, |_| Change::Put(b"4".to_vec())).await.unwrap();
        assert_eq!(users.compare_and_swap("b", Some(b"4"), Some(b"5")).await.unwrap(), Swap::Done);
        assert!(users.compare_and_swap_with("b", Some(b"4"), None, synced).await.is_ok_and(|swap| !swap.is_done()));
        assert!(users.put_if_absent("c", "6").await.unwrap());
        assert!(!users.put_if_absent_with("c", "7", synced).await.unwrap());
        assert_eq!(keys_of(users.iter().unwrap()).await, ["a", "b", "c"]);
        assert_eq!(keys_of(users.range("b"..).unwrap()).await, ["b", "c"]);
        assert_eq!(keys_of(users.prefix("c").unwrap()).await, ["c"]);
        assert_eq!(users.first().await.unwrap().unwrap().0, b"a");
        assert_eq!(users.last().await.unwrap(), Some((b"c".to_vec(), b"6".to_vec())));

        let before = users.snapshot();
        assert_eq!(users.take("c").await.unwrap().as_deref(), Some(&b"6"[..]));
        assert_eq!(users.take_with("c", synced).await.unwrap(), None);
        assert_eq!(users.pop_first().await.unwrap().unwrap().0, b"a");
        assert_eq!(users.pop_last().await.unwrap().unwrap().0, b"b");
        assert!(users.is_empty().await.unwrap() && !db.is_empty().await.unwrap());
        assert_eq!(keys_of(before.iter().unwrap()).await, ["a", "b", "c"]);
        for key in ["a", "b", "c", "d", "e"] {
            users.put(key, "").await.unwrap();
        }
        users.delete("a").await.unwrap();
        users.delete_with("b", synced).await.unwrap();
        users.delete_prefix("c").await.unwrap();
        send(users.delete_range("d".."e")).await.unwrap();
        assert_eq!(keys_of(users.iter().unwrap()).await, ["e"]);
        users.delete_range_with("e".., synced).await.unwrap();
        assert!(users.is_empty().await.unwrap());
        users.put("a", "").await.unwrap();
        send(users.clear()).await.unwrap();
        assert!(users.is_empty().await.unwrap());
        assert_eq!(keys_of(db.iter().unwrap()).await, ["a"]);
        assert_eq!(db.relaxed_snapshot(Duration::ZERO).get("a").await.unwrap().as_deref(), Some(&b"default"[..]));
        db.close().await.unwrap();
    });
    let db = Db::open(directory.path(), small()).unwrap();
    assert_eq!(db.keyspace_names().unwrap(), ["users"]);
}

#[test]
fn snapshots_and_batches_enter_keyspaces() {
    block_on(async {
        let db = AsyncDb::new(Db::open_with(Arc::new(SimulatedStorage::new(1)), small()).unwrap());
        let empty = db.snapshot();
        let one = db.keyspace("one", KeyspaceOptions::new()).await.unwrap();
        let two = db.keyspace("two", KeyspaceOptions::new()).await.unwrap();
        let mut batch = WriteBatch::new();
        batch.put("a", "0").within(one.keyspace()).put("a", "1");
        batch.within(two.keyspace()).put("a", "2");
        db.write(batch).await.unwrap();
        let snapshot = db.snapshot();
        two.clear().await.unwrap();
        assert!(db.drop_keyspace("one").await.unwrap() && !send(db.drop_keyspace("one")).await.unwrap());

        let value = |value: &str| Some(value.as_bytes().to_vec());
        assert_eq!(snapshot.get("a").await.unwrap(), value("0"));
        assert_eq!(snapshot.within(&one).unwrap().get("a").await.unwrap(), value("1"));
        let within = snapshot.within(&two).unwrap();
        assert_eq!((within.first().await.unwrap(), within.number()), (within.last().await.unwrap(), snapshot.number()));
        assert!(within.contains_key("a").await.unwrap() && !within.is_empty().await.unwrap());
        assert_eq!(send(snapshot.keyspace("one")).await.unwrap().unwrap().get("a").await.unwrap(), value("1"));
        assert!(snapshot.keyspace("three").await.unwrap().is_none());
        assert_eq!(send(snapshot.keyspace_names()).await.unwrap(), ["one", "two"]);
        assert_eq!(empty.keyspace_names().await.unwrap(), [""; 0]);
        assert_eq!(db.keyspace_names().await.unwrap(), ["two"]);
        let stranger = AsyncDb::new(Db::open_with(Arc::new(SimulatedStorage::new(2)), small()).unwrap());
        assert!(matches!(stranger.snapshot().within(&two), Err(Error::InvalidArgument(_))));
        assert!(matches!(stranger.transaction().await.unwrap().within(&two), Err(Error::InvalidArgument(_))));
    });
}

/// Also reads that memory answers at the first poll.
#[test]
fn every_use_of_a_dropped_keyspace_is_an_error() {
    block_on(async {
        let db = AsyncDb::new(Db::open_with(Arc::new(SimulatedStorage::new(1)), small()).unwrap());
        let old = db.keyspace("old", KeyspaceOptions::new()).await.unwrap();
        old.put("a", "1").await.unwrap();
        db.drop_keyspace("old").await.unwrap();
        let dropped = |error: Error| assert!(matches!(error, Error::KeyspaceDropped { .. }), "{error}");
        dropped(old.get("a").await.unwrap_err());
        dropped(old.multi_get(&["a"]).await.unwrap_err());
        dropped(old.put("a", "2").await.unwrap_err());
        dropped(old.delete_range("a"..).await.unwrap_err());
        dropped(old.clear().await.unwrap_err());
        dropped(old.iter().unwrap_err());
        dropped(old.prefix("a").unwrap_err());
        dropped(db.transaction().await.unwrap().within(&old).unwrap_err());
        let mut batch = WriteBatch::new();
        batch.within(old.keyspace()).put("a", "2");
        dropped(db.write(batch).await.unwrap_err());
    });
}

/// Regression test: of a batch only the durability of the store was looked at, so that the polling thread synced for a
/// keyspace that asks for it.
#[test]
fn a_batch_for_a_keyspace_with_syncs_is_written_by_another_thread() {
    let (db, _, poller_operations) = counting_the_poller();
    wait_for_log_segment(&db);
    let fast = block_on(db.keyspace("fast", KeyspaceOptions::new())).unwrap();
    let safe = block_on(db.keyspace("safe", KeyspaceOptions::new().durability(Durability::Sync))).unwrap();
    let batch = |keyspace: &AsyncKeyspace| {
        let mut batch = WriteBatch::new();
        batch.within(keyspace.keyspace()).put("a", "1");
        batch
    };
    let before = poller_operations.load(Ordering::Relaxed);
    assert!(polled(db.write(batch(&fast))).is_some(), "a small write waits for nothing");
    block_on(db.write(batch(&safe))).unwrap();
    block_on(safe.put("b", "2")).unwrap();
    assert_eq!(poller_operations.load(Ordering::Relaxed), before, "the polling thread used the disk");
    assert_eq!(block_on(safe.get("a")).unwrap().as_deref(), Some(&b"1"[..]));
    assert!(db.db().stats().synced_number >= db.snapshot().number());
}

/// Reads of a keyspace wait for the disk on other threads, as those of the store do.
#[test]
fn reads_of_a_keyspace_wait_on_other_threads() {
    let (db, gate, _) = counting_the_poller();
    let users = block_on(db.keyspace("users", KeyspaceOptions::new())).unwrap();
    block_on(users.put("large", vec![7; 300 << 10])).unwrap();
    gate.set_closed(true);
    let mut get = pin!(send(users.get("large")));
    expect_pending(get.as_mut());
    let mut first = pin!(send(users.first()));
    expect_pending(first.as_mut());
    let snapshot = db.snapshot().within(&users).unwrap();
    let mut of_snapshot = pin!(send(snapshot.get("large")));
    expect_pending(of_snapshot.as_mut());
    gate.set_closed(false);
    assert_eq!(block_on(get).unwrap(), Some(vec![7; 300 << 10]));
    assert_eq!(block_on(first).unwrap().unwrap().0, b"large");
    assert_eq!(block_on(of_snapshot).unwrap().unwrap().len(), 300 << 10);
}

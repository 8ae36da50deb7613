//! `AsyncTransaction`: its methods agree with those of `Transaction`, its reads wait on other threads, and its futures may be
//! dropped.

use super::{Gate, expect_pending, key, keys_of, on_disk, polled, send, small, value};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{AsyncDb, AsyncTransaction, Db, Error, KeyspaceOptions, Options, WriteOptions, merge_operators};
use futures_lite::StreamExt;
use futures_lite::future::block_on;
use std::pin::pin;
use std::sync::Arc;

fn store(options: Options) -> AsyncDb {
    AsyncDb::new(Db::open_with(Arc::new(SimulatedStorage::new(1)), options).unwrap())
}

#[test]
fn methods_of_a_transaction_agree_with_the_blocking_ones() {
    block_on(async {
        let db = store(small().merge_operator(merge_operators::Append));
        for key in ["a", "b", "c"] {
            db.put(key, "1").await.unwrap();
        }
        let transaction = send(db.transaction()).await.unwrap();
        assert_eq!(send(transaction.get("a")).await.unwrap().as_deref(), Some(&b"1"[..]));
        transaction.put("d", "2").unwrap();
        transaction.delete("a").unwrap();
        send(transaction.merge("b", "+")).await.unwrap();
        let found = transaction.multi_get(&["a", "b", "d"]).await.unwrap();
        assert_eq!(found, [None, Some(b"1+".to_vec()), Some(b"2".to_vec())]);
        assert!(transaction.contains_key("d").await.unwrap() && !transaction.contains_key("a").await.unwrap());
        assert_eq!(keys_of(transaction.iter()).await, ["b", "c", "d"]);
        assert_eq!(keys_of(transaction.range("c"..)).await, ["c", "d"]);
        assert_eq!(keys_of(transaction.range(.."d").backward()).await, ["c", "b"]);
        assert_eq!(keys_of(transaction.prefix("c")).await, ["c"]);
        assert_eq!(transaction.first().await.unwrap(), Some((b"b".to_vec(), b"1+".to_vec())));
        assert_eq!(transaction.last().await.unwrap(), Some((b"d".to_vec(), b"2".to_vec())));

        let savepoint = transaction.savepoint();
        assert_eq!(transaction.take("c").await.unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(transaction.take("c").await.unwrap(), None);
        assert_eq!(transaction.pop_first().await.unwrap().unwrap().0, b"b");
        assert_eq!(transaction.pop_last().await.unwrap().unwrap().0, b"d");
        assert_eq!(transaction.pop_last().await.unwrap(), None);
        assert!(send(transaction.is_empty()).await.unwrap());
        transaction.rollback_to(&savepoint).unwrap();
        assert_eq!(keys_of(transaction.iter()).await, ["b", "c", "d"]);
        transaction.delete_range("d"..).unwrap();
        transaction.delete_prefix("c").unwrap();
        transaction.release(savepoint).unwrap();
        assert!(db.contains_key("a").await.unwrap(), "a write shows before the commit");
        send(transaction.commit_with(WriteOptions::sync())).await.unwrap();
        assert_eq!(keys_of(db.iter().unwrap()).await, ["b"]);

        let rolled_back = db.transaction().await.unwrap();
        rolled_back.put("e", "").unwrap();
        rolled_back.rollback();
        let unpolled = db.transaction().await.unwrap();
        unpolled.put("e", "").unwrap();
        drop(unpolled.commit());
        assert!(!db.contains_key("e").await.unwrap());
    });
}

#[test]
fn a_transaction_spans_keyspaces_and_conflicts() {
    block_on(async {
        let db = store(small());
        let jobs = db.keyspace("jobs", KeyspaceOptions::new()).await.unwrap();
        let done = db.keyspace("done", KeyspaceOptions::new()).await.unwrap();
        for number in 0..40 {
            jobs.put(key(number), value(number)).await.unwrap();
        }
        let take_one = async |transaction: &AsyncTransaction| {
            let (job, what) = transaction.within(&jobs)?.pop_first().await?.unwrap();
            transaction.within(&done)?.put(job, what)
        };
        let (one, other) = (db.transaction().await.unwrap(), db.transaction().await.unwrap());
        take_one(&one).await.unwrap();
        take_one(&other).await.unwrap();
        one.commit().await.unwrap();
        assert!(matches!(other.commit().await, Err(Error::Conflict { key: lost, .. }) if lost == key(0)));
        assert_eq!(done.get(key(0)).await.unwrap(), Some(value(0)));
        assert_eq!(keys_of(jobs.iter().unwrap()).await.len(), 39);

        // A scan reads its range in rounds, and all of it counts as read.
        for backward in [false, true] {
            let transaction = db.transaction().await.unwrap();
            let within = transaction.within(&jobs).unwrap();
            within.put("kex", "").unwrap();
            let scan = if backward { within.iter().backward() } else { within.iter() };
            let keys = keys_of(scan).await;
            assert_eq!(keys.len(), 40);
            assert!(keys.is_sorted_by(|one, next| (one < next) != backward), "{keys:?}");
            within.delete("kex").unwrap();
            transaction.put("count", keys.len().to_string()).unwrap();
            drop(within);
            jobs.put(key(20), "new").await.unwrap();
            assert!(matches!(transaction.commit().await, Err(Error::Conflict { .. })));
        }

        let transaction = db.transaction().await.unwrap();
        let within = transaction.within(&done).unwrap();
        assert_eq!(within.multi_get(&[key(0), key(1)]).await.unwrap(), [Some(value(0)), None]);
        assert_eq!(keys_of(within.prefix("key")).await.len(), 1);
        assert!(within.contains_key(key(0)).await.unwrap() && !within.is_empty().await.unwrap());
        assert_eq!(within.take(key(0)).await.unwrap(), Some(value(0)));
        within.delete_range(..).unwrap();
        within.delete_prefix("").unwrap();
        assert_eq!((within.first().await.unwrap(), within.last().await.unwrap()), (None, None));
        assert_eq!(within.pop_last().await.unwrap(), None);
        assert!(matches!(within.merge("a", "").await, Err(Error::InvalidArgument(_))));
        // A dropped keyspace makes its later uses fail, and the commit.
        let transaction = db.transaction().await.unwrap();
        let within = transaction.within(&done).unwrap();
        within.put("a", "").unwrap();
        db.drop_keyspace("done").await.unwrap();
        assert!(matches!(within.get("a").await, Err(Error::KeyspaceDropped { .. })));
        assert!(matches!(within.iter().next().await, Some(Err(Error::KeyspaceDropped { .. }))));
        assert!(matches!(transaction.commit().await, Err(Error::KeyspaceDropped { .. })));
    });
}

fn is_waiting<T>(gate: &Gate, future: std::pin::Pin<&mut impl Future<Output = T>>) {
    expect_pending(future);
    gate.wait_for_reader();
}

/// The polling thread neither reads nor commits, and a commit waits for reads whose futures were dropped.
#[test]
fn reads_and_commits_wait_on_other_threads_and_may_be_dropped() {
    let (db, gate, _storage) = on_disk();
    let transaction = block_on(db.transaction()).unwrap();
    gate.set_closed(true);
    let mut get = Box::pin(send(transaction.get(key(17))));
    is_waiting(&gate, get.as_mut());
    // The transaction's own writes go on.
    transaction.put("memory", "mine").unwrap();
    drop(get);
    let mut take = Box::pin(send(transaction.take(key(4000))));
    expect_pending(take.as_mut());
    drop(take);
    transaction.put(key(4000), "later").unwrap();
    let mut scan = transaction.range(key(5000)..);
    assert!(polled(scan.next()).is_none());
    drop(scan);
    let mut commit = pin!(send(transaction.commit()));
    expect_pending(commit.as_mut());
    gate.set_closed(false);
    block_on(commit).unwrap();
    let value = |value: &str| Some(value.as_bytes().to_vec());
    assert_eq!(block_on(db.get("memory")).unwrap(), value("mine"));
    assert_eq!(block_on(db.get(key(4000))).unwrap(), value("later"));
    // A commit that was dropped has happened completely or not at all.
    let transaction = block_on(db.transaction()).unwrap();
    transaction.put("one", "1").unwrap();
    transaction.put("two", "2").unwrap();
    drop(polled(transaction.commit()));
    let found = block_on(db.multi_get(&["one", "two"])).unwrap();
    assert_eq!(found[0].is_some(), found[1].is_some());
}

/// A transaction is a handle of the store; a closed store ends it.
#[test]
fn a_transaction_keeps_the_store_open_and_ends_with_it() {
    block_on(async {
        let db = store(small());
        let transaction = db.transaction().await.unwrap();
        let closed = db.transaction().await.unwrap();
        transaction.put("a", "1").unwrap();
        let other = db.clone();
        drop(db);
        transaction.commit().await.unwrap();
        closed.put("b", "2").unwrap();
        assert_eq!(other.get("a").await.unwrap().as_deref(), Some(&b"1"[..]));
        other.close().await.unwrap();
        assert!(matches!(closed.get("a").await, Err(Error::Closed)));
        assert!(matches!(closed.iter().next().await, Some(Err(Error::Closed))));
        assert!(matches!(closed.commit().await, Err(Error::Closed)));
        assert!(matches!(other.transaction().await, Err(Error::Closed)));
    });
}

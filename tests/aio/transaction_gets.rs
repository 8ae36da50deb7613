//! Gets of an `AsyncTransaction`: the first poll answers what the transaction's own writes, memory and cached pages can
//! answer, the answers are those of a `Transaction`, and every key counts as read as it does there.

use super::{expect_pending, key, on_disk, on_disk_after, polled, send, small, value};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{
    AsyncDb, AsyncTransaction, AsyncTransactionKeyspace, Db, Error, Keyspace, KeyspaceOptions, Result, Transaction,
    merge_operators,
};
use futures_lite::future::block_on;
use std::pin::pin;
use std::sync::Arc;

fn appending() -> KeyspaceOptions {
    KeyspaceOptions::new().merge_operator(merge_operators::Append)
}

/// Reads are blocked, so what needs the disk stays pending.
#[test]
fn the_first_poll_answers_what_memory_can() {
    let (db, gate, _storage) = on_disk();
    let words = block_on(db.keyspace("words", appending())).unwrap();
    block_on(words.put("memory", "word")).unwrap();
    block_on(words.merge("memory", "s")).unwrap();
    block_on(words.put("plain", "word")).unwrap();
    assert_eq!(block_on(db.get(key(17))).unwrap(), Some(value(17)), "its page is cached from here on");

    let transaction = block_on(db.transaction()).unwrap();
    block_on(db.put("memory", "later")).unwrap();
    transaction.put("own", "1").unwrap();
    transaction.put(key(3000), "2").unwrap();
    transaction.delete(key(3001)).unwrap();
    transaction.delete_range(key(4000)..key(4010)).unwrap();
    transaction.put(key(4005), "3").unwrap();
    let within = transaction.within(&words).unwrap();
    block_on(within.merge("sum", "4")).unwrap();
    within.put("own", "5").unwrap();

    gate.set_closed(true);
    let bytes = |value: &str| Some(value.as_bytes().to_vec());
    let expected = [
        (b"own".to_vec(), bytes("1")),
        (b"memory".to_vec(), bytes("here")),
        (key(17), Some(value(17))),
        (key(3000), bytes("2")),
        (key(3001), None),
        (key(4004), None),
        (key(4005), bytes("3")),
    ];
    for (key, value) in &expected {
        let name = key.escape_ascii();
        let found = polled(send(transaction.get(key)));
        assert_eq!(found.unwrap_or_else(|| panic!("the get of {name} is pending")).unwrap(), *value, "{name}");
        let found = polled(send(transaction.contains_key(key)));
        assert_eq!(found.unwrap_or_else(|| panic!("contains_key of {name} is pending")).unwrap(), value.is_some());
    }
    let (keys, values): (Vec<_>, Vec<_>) = expected.into_iter().unzip();
    assert_eq!(polled(send(transaction.multi_get(&keys))).expect("pending").unwrap(), values);
    assert_eq!(polled(transaction.take("own")).expect("pending").unwrap(), bytes("1"));
    assert_eq!(polled(transaction.get("own")).expect("pending").unwrap(), None);
    // In another keyspace, with the same keys. What is made of operands needs the operator, but it is there.
    assert_eq!(polled(within.get("own")).expect("pending").unwrap(), bytes("5"));
    assert_eq!(polled(within.get("plain")).expect("pending").unwrap(), bytes("word"));
    assert!(polled(within.contains_key("plain")).expect("pending").unwrap());
    assert!(polled(within.contains_key("sum")).expect("pending").unwrap());

    // Other threads read the disk: here all of a key, and one key among others.
    let mut get = pin!(send(transaction.get(key(2000))));
    let mut contains = pin!(send(transaction.contains_key(key(2500))));
    let many = [b"memory".to_vec(), key(5000), key(3000), key(5500)];
    let mut values = pin!(send(transaction.multi_get(&many)));
    expect_pending(get.as_mut());
    expect_pending(contains.as_mut());
    expect_pending(values.as_mut());
    gate.set_closed(false);
    assert_eq!(block_on(get).unwrap(), Some(value(2000)));
    assert!(block_on(contains).unwrap());
    assert_eq!(block_on(values).unwrap(), [bytes("here"), Some(value(5000)), bytes("2"), Some(value(5500))]);

    // The value of a value file is not needed to see that it is there.
    assert!(block_on(transaction.contains_key("large")).unwrap());
    gate.set_closed(true);
    assert!(polled(transaction.contains_key("large")).expect("pending").unwrap());
    assert!(polled(db.contains_key("large")).expect("pending").unwrap());
    assert!(polled(db.snapshot().contains_key("large")).expect("pending").unwrap());
    assert!(polled(transaction.get("large")).is_none());
    gate.set_closed(false);
}

/// The range tombstones of a file are outside of the page cache. The polling thread does not read them either.
#[test]
fn the_polling_thread_loads_no_range_tombstones() {
    let delete = |db: &Db| {
        db.delete_range(key(100)..key(200)).unwrap();
        db.flush().unwrap();
    };
    let (db, gate, _storage) = on_disk_after(delete);
    let transaction = block_on(db.transaction()).unwrap();
    gate.set_closed(true);
    let mut deleted = pin!(send(transaction.contains_key(key(150))));
    let mut present = pin!(send(transaction.contains_key(key(2500))));
    expect_pending(deleted.as_mut());
    expect_pending(present.as_mut());
    gate.set_closed(false);
    assert!(!block_on(deleted).unwrap() && block_on(present).unwrap());
    gate.set_closed(true);
    assert!(!polled(transaction.contains_key(key(150))).expect("pending").unwrap());
    gate.set_closed(false);
}

/// The same writes in both transactions, of one keyspace.
macro_rules! write_own {
    ($part:expr, $merge:expr) => {{
        for name in ["put", "flushed put", "memory put", "gone put"] {
            $part.put(name, "own")?;
        }
        for name in ["merge", "flushed merge", "memory merge", "gone merge", "operands merge"] {
            $merge(name)?;
        }
        $part.delete("flushed delete")?;
        $part.delete("memory delete")?;
        $part.delete_range("range".."rangf")?;
        $part.put("range put", "own")?;
        $merge("range merge")?;
        $part.put("put and delete", "own")?;
        $part.delete_prefix("put and")?;
        Ok::<_, Error>(())
    }};
}

/// Pairs in files and in memory, of values and of operands.
fn fill(keyspace: &Keyspace) -> Result<()> {
    for name in ["flushed", "flushed put", "flushed merge", "flushed delete", "range flushed", "gone put", "gone merge"]
    {
        keyspace.put(name, name)?;
    }
    keyspace.merge("operands merge", "stored")?;
    keyspace.merge("operands", "stored")?;
    keyspace.put("large", vec![7; 300 << 10])?;
    Ok(())
}

fn fill_memory(keyspace: &Keyspace) -> Result<()> {
    for name in ["memory", "memory put", "memory merge", "memory delete", "range memory"] {
        keyspace.put(name, name)?;
    }
    keyspace.delete("gone put")?;
    keyspace.delete_prefix("gone")?;
    keyspace.merge("operands", " later")?;
    keyspace.merge("memory operands", "stored")?;
    Ok(())
}

const NAMES: [&str; 27] = [
    "put",
    "flushed put",
    "memory put",
    "gone put",
    "merge",
    "flushed merge",
    "memory merge",
    "gone merge",
    "operands merge",
    "flushed delete",
    "memory delete",
    "range flushed",
    "range memory",
    "range put",
    "range merge",
    "put and delete",
    "flushed",
    "memory",
    "operands",
    "memory operands",
    "gone",
    "absent",
    "large",
    "r",
    "rangf",
    "",
    "~",
];

async fn compare(one: &AsyncTransactionKeyspace<'_>, other: &alluvium::TransactionKeyspace<'_>) -> Result<()> {
    for name in NAMES {
        assert_eq!(one.get(name).await?, other.get(name)?, "{name}");
        assert_eq!(one.contains_key(name).await?, other.contains_key(name)?, "{name}");
    }
    assert_eq!(one.multi_get(&NAMES).await?, other.multi_get(&NAMES)?);
    for name in NAMES {
        assert_eq!(one.take(name).await?, other.take(name)?, "{name}");
    }
    assert_eq!(one.multi_get(&NAMES).await?, [const { None }; NAMES.len()]);
    Ok(())
}

#[test]
fn gets_return_what_those_of_the_blocking_transaction_return() -> Result<()> {
    let storage = Arc::new(SimulatedStorage::new(3));
    let db = Db::open_with(storage, small().merge_operator(merge_operators::Append))?;
    let parts = [Keyspace::clone(&db), db.keyspace("words", appending())?];
    parts.iter().try_for_each(fill)?;
    db.flush()?;
    parts.iter().try_for_each(fill_memory)?;
    let asynchronous = AsyncDb::new(db.clone());
    let (one, other): (AsyncTransaction, Transaction) = (block_on(asynchronous.transaction())?, db.transaction()?);
    // What is written later shows in neither.
    parts.iter().try_for_each(|part| part.delete_range(..))?;
    for part in parts {
        let within = other.within(&part)?;
        write_own!(within, |name| within.merge(name, "+"))?;
        let part = alluvium::AsyncKeyspace::new(part);
        let asynchronous = one.within(&part)?;
        write_own!(asynchronous, |name| block_on(asynchronous.merge(name, "+")))?;
        block_on(compare(&asynchronous, &within))?;
    }
    Ok(())
}

/// Each way to read a key without waiting makes the commit find a later write of it.
#[test]
fn keys_that_are_read_at_once_conflict() -> Result<()> {
    let db = Db::open_with(Arc::new(SimulatedStorage::new(4)), small().merge_operator(merge_operators::Append))?;
    let words = alluvium::AsyncKeyspace::new(db.keyspace("words", appending())?);
    let db = AsyncDb::new(db);
    for name in ["present", "deleted"] {
        block_on(db.put(name, "1"))?;
        block_on(words.put(name, "1"))?;
    }
    block_on(db.delete("deleted"))?;
    block_on(words.delete("deleted"))?;
    type Read = fn(&AsyncTransactionKeyspace<'_>, &str) -> bool;
    let reads: [(&str, Read); 4] = [
        ("get", |part, name| polled(part.get(name)).is_some()),
        ("contains_key", |part, name| polled(part.contains_key(name)).is_some()),
        ("multi_get", |part, name| polled(part.multi_get(&["other", name])).is_some()),
        ("take", |part, name| polled(part.take(name)).is_some()),
    ];
    for (read, act) in reads {
        for name in ["present", "deleted", "absent"] {
            for keyspace in [&words, &*db] {
                let transaction = block_on(db.transaction())?;
                let within = transaction.within(keyspace)?;
                assert!(act(&within, name), "{read} of {name} is pending");
                transaction.put("count", "1")?;
                drop(within);
                block_on(keyspace.put(name, "2"))?;
                if name != "present" {
                    block_on(keyspace.delete(name))?;
                }
                let found = block_on(transaction.commit());
                let is_of_it = |key: &[u8], of: &str| key == name.as_bytes() && of == keyspace.name();
                let is_found = matches!(&found, Err(Error::Conflict { key, keyspace }) if is_of_it(key, keyspace));
                assert!(is_found, "{read} of {name}: {found:?}");
            }
        }
    }
    // A key whose value is the transaction's own is not read, except for that below its operands.
    for (own, is_read) in [("put", false), ("delete", false), ("merge", true)] {
        for (read, act) in &reads[..2] {
            let transaction = block_on(db.transaction())?;
            let within = transaction.within(&words)?;
            match own {
                "put" => within.put("key", "own")?,
                "delete" => within.delete("key")?,
                _ => block_on(within.merge("key", "own"))?,
            }
            let ready = act(&within, "key");
            assert!(ready || own == "merge", "{read} after the {own} is pending");
            drop(within);
            block_on(words.put("key", "2"))?;
            let found = block_on(transaction.commit());
            assert_eq!(matches!(found, Err(Error::Conflict { .. })), is_read, "{read} after the {own}: {found:?}");
        }
    }
    Ok(())
}

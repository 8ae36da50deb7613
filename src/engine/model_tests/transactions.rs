//! Transactions concurrent with each other and with writes to what they have read (`docs/concurrency.md`, P1 and P2).

use super::stores::Store;
use super::{Thread, check, together, value};
use crate::db::transaction::Transaction;
use crate::util::Error;

impl Store {
    /// Runs a transaction. Returns false if it conflicts.
    fn attempt(&self, work: impl FnOnce(&Transaction)) -> bool {
        let transaction = self.0.transaction().unwrap();
        work(&transaction);
        match transaction.commit() {
            Ok(()) => true,
            Err(Error::Conflict { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn is_there(&self, key: &str) -> bool {
        self.get(key) > 0
    }
}

fn put(transaction: &Transaction, key: &str, count: u64) {
    transaction.put(key, value(key, count)).unwrap();
}

fn is_first(transaction: &Transaction, key: &str) -> bool {
    transaction.get(key).unwrap().is_some_and(|found| super::count(key, &found) == 1)
}

/// The keys that start with an r.
fn scan(transaction: &Transaction) -> Vec<Vec<u8>> {
    transaction.prefix("r").unwrap().map(|pair| pair.unwrap().0).collect()
}

#[test]
fn two_transactions_with_write_skew() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        let mut done = [false; 2];
        let [one, other] = &mut done;
        let leave = |own: &str| {
            store.attempt(|transaction| {
                if is_first(transaction, "a") && is_first(transaction, "b") {
                    put(transaction, own, 2);
                }
            })
        };
        let threads: Vec<Thread<'_>> = vec![Box::new(|| *one = leave("a")), Box::new(|| *other = leave("b"))];
        together(threads);
        assert!(store.get("a") == 1 || store.get("b") == 1, "write skew: {done:?}");
        assert!(done[0] || done[1], "both conflicted");
    });
}

#[test]
fn two_transactions_that_scan_and_insert() {
    check(|| {
        let store = Store::with(&["r1"]);
        let add = |own: &str| {
            store.attempt(|transaction| {
                if scan(transaction).len() == 1 {
                    put(transaction, own, 1);
                }
            })
        };
        together(vec![Box::new(|| _ = add("r2")), Box::new(|| _ = add("r3"))]);
        assert!(
            !(store.is_there("r2") && store.is_there("r3")),
            "a phantom: both transactions inserted the second key"
        );
    });
}

/// A thread that sees its put but not the transaction's write knows that the transaction commits after the put. The
/// scan must then have seen the new key.
#[test]
fn a_scan_beside_a_put_into_its_range() {
    check(|| {
        let store = Store::with(&["r1"]);
        let (mut met, mut is_done, mut seen) = (0, false, 0);
        together(vec![
            Box::new(|| {
                is_done = store.attempt(|transaction| {
                    met = scan(transaction).len();
                    put(transaction, "n", met as u64);
                });
            }),
            Box::new(|| {
                store.put("r2", 1);
                seen = store.get("n");
            }),
        ]);
        assert!(store.is_there("r2"), "the put vanished");
        assert_eq!(store.get("n"), if is_done { met as u64 } else { 0 });
        if is_done && met == 1 {
            assert_eq!(seen, 1, "a phantom: the scan missed a key that was put before the commit");
        }
    });
}

/// Like the test above, but the put is incorporated meanwhile, and the scan began before it.
#[test]
fn a_scan_beside_an_incorporation() {
    check(|| {
        let store = Store::with(&["r1"]);
        let (mut is_done, mut seen) = (false, 0);
        let transaction = store.0.transaction().unwrap();
        assert_eq!(scan(&transaction).len(), 1);
        put(&transaction, "n", 1);
        together(vec![
            Box::new(|| is_done = transaction.commit().is_ok()),
            Box::new(|| {
                store.put("r2", 1);
                seen = store.get("n");
                store.incorporate();
            }),
        ]);
        assert!(!is_done || seen == 1, "a phantom: the scan missed a key that was put before the commit");
        assert_eq!(store.get("n"), u64::from(is_done));
    });
}

/// A key that was read is overwritten, and the new version is incorporated.
#[test]
fn a_get_beside_a_put_and_an_incorporation() {
    check(|| {
        let store = Store::with(&["a"]);
        let (mut is_done, mut was_first, mut seen) = (false, false, 0);
        together(vec![
            Box::new(|| {
                is_done = store.attempt(|transaction| {
                    was_first = is_first(transaction, "a");
                    put(transaction, "n", 1);
                });
            }),
            Box::new(|| {
                store.put("a", 2);
                seen = store.get("n");
                store.incorporate();
            }),
        ]);
        assert!(!(is_done && was_first) || seen == 1, "an overwritten read: the commit came after the put");
        assert_eq!((store.get("a"), store.get("n")), (2, u64::from(is_done)));
    });
}

/// Two transactions on one counter, one with a get and one with a scan, so that both kinds of commit meet.
#[test]
fn transactions_beside_an_update() {
    check(|| {
        let store = Store::with(&["r1"]);
        let mut done = [false; 2];
        let [got, scanned] = &mut done;
        let add = |transaction: &Transaction, old: Option<Vec<u8>>| {
            put(transaction, "r1", super::count("r1", &old.unwrap()) + 1);
        };
        together(vec![
            Box::new(|| *got = store.attempt(|transaction| add(transaction, transaction.get("r1").unwrap()))),
            Box::new(|| {
                *scanned = store.attempt(|transaction| {
                    let first = transaction.prefix("r").unwrap().next();
                    add(transaction, first.map(|pair| pair.unwrap().1));
                });
            }),
            Box::new(|| {
                let one_more = |old: Option<&[u8]>| value("r1", super::count("r1", old.unwrap()) + 1);
                store.0.update("r1", |old| Some(one_more(old))).unwrap();
            }),
        ]);
        let expected = 2 + u64::from(done[0]) + u64::from(done[1]);
        assert_eq!(store.get("r1"), expected, "an update was lost: {done:?}");
    });
}

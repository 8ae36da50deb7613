//! Merges beside everything that moves what they are folded onto.

use super::stores::Store;
use super::{check, together};
use crate::engine::memory::version_cleanup;
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::options::{MemoryComponent, Options};
use crate::io::simulated::SimulatedStorage;
use crate::merge::MergeOperator;
use crate::merge::operator::Add;
use crate::util::sync::{Arc, Mutex};

/// Adds, and cannot join two operands.
struct AddApart;

impl MergeOperator for AddApart {
    fn name(&self) -> &str {
        "add apart"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        Add.full_merge(key, base, operands, out)
    }
}

/// A store whose counters have the value 1. With `base` this is a value, otherwise an operand.
fn counters(keys: &[&str], operator: Arc<dyn MergeOperator>, base: bool) -> Store {
    let options = Options { merge_operator: Some(operator), ..Store::options(MemoryComponent::TwoLevel) };
    let store = Store(crate::db::DeterministicDb::open_small(Arc::new(SimulatedStorage::new(1)), options).unwrap());
    for key in keys {
        // Blocks that were used before.
        store.0.put(key, number(7)).unwrap();
        store.0.put(key, number(1)).unwrap();
        if !base {
            store.incorporate();
            store.0.put(key, number(3)).unwrap();
            store.0.delete(key).unwrap();
            store.incorporate();
            store.0.merge(key, number(1)).unwrap();
        }
    }
    store
}

fn number(n: i64) -> [u8; 8] {
    n.to_le_bytes()
}

fn sum(value: Option<Vec<u8>>) -> i64 {
    value.map_or(0, |value| i64::from_le_bytes(value.try_into().unwrap()))
}

fn add(store: &Store, key: &str, n: i64) {
    store.0.merge(key, number(n)).unwrap();
}

fn get(store: &Store, key: &str) -> i64 {
    sum(store.0.get(key).unwrap())
}

/// Two merges of a key: no reader sees an operand twice, or a sum that lacks what it saw before.
fn two_merges(operator: Arc<dyn MergeOperator>, base: bool) {
    let store = counters(&["k"], operator, base);
    together(vec![
        Box::new(|| add(&store, "k", 10)),
        Box::new(|| add(&store, "k", 100)),
        Box::new(|| {
            let first = get(&store, "k");
            let snapshot = store.snapshot();
            let at_snapshot = sum(snapshot.get("k").unwrap());
            let scanned = sum(snapshot.iter().unwrap().next().map(|pair| pair.unwrap().1));
            let last = get(&store, "k");
            let order = [first, at_snapshot, last];
            let all = [1, 11, 101, 111];
            assert!(order.iter().all(|sum| all.contains(sum)), "a sum that never was: {order:?}");
            assert!(
                order.is_sorted() && order.windows(2).all(|pair| pair != [11, 101]),
                "an operand is gone: {order:?}"
            );
            assert_eq!(scanned, at_snapshot, "a scan and a get of a snapshot differ");
        }),
    ]);
    assert_eq!(get(&store, "k"), 111, "an operand was lost");
    store.0.flush().unwrap();
    assert_eq!(get(&store, "k"), 111, "an operand was lost on the way to the disk");
}

#[test]
fn two_merges_of_a_value() {
    check(|| two_merges(Arc::new(Add), true));
}

#[test]
fn two_merges_of_an_operand() {
    check(|| two_merges(Arc::new(Add), false));
}

#[test]
fn two_merges_that_cannot_be_joined() {
    check(|| two_merges(Arc::new(AddApart), false));
}

/// A batch of merges beside a single one, a put that replaces all of them, and readers.
#[test]
fn a_batch_of_merges_beside_a_merge_and_a_put() {
    check(|| {
        let store = counters(&["a", "b"], Arc::new(Add), false);
        together(vec![
            Box::new(|| {
                let mut batch = WriteBatch::new();
                batch.merge("a", number(10)).merge("b", number(10));
                store.0.write(batch).unwrap();
            }),
            Box::new(|| {
                add(&store, "a", 100);
                store.0.put("b", number(1000)).unwrap();
            }),
            Box::new(|| {
                let snapshot = store.snapshot();
                let (a, b) = (sum(snapshot.get("a").unwrap()), sum(snapshot.get("b").unwrap()));
                assert!([1, 11, 101, 111].contains(&a) && [1, 11, 1000, 1010].contains(&b), "a {a}, b {b}");
                // All of the batch, or none. After the put nothing tells whether the batch came before it.
                assert!(b == 1000 || (a % 100 == 11) == (b % 100 > 1), "half a batch: a {a}, b {b}");
                let newest = get(&store, "a");
                assert!(newest >= a, "{newest} after {a}");
            }),
        ]);
        let (a, b) = (get(&store, "a"), get(&store, "b"));
        assert!(a == 111 && (b == 1000 || b == 1010), "a {a}, b {b}");
    });
}

/// Regression test: a fold that was made with the operand of a batch took the place of the batch's own fold, which has the
/// same number.
#[test]
fn a_batch_that_folds_its_operands_beside_a_merge() {
    check(|| {
        let store = counters(&["a", "b", "k"], Arc::new(Add), true);
        together(vec![
            Box::new(|| {
                let mut batch = WriteBatch::new();
                batch.merge("a", number(10)).merge("b", number(10)).merge("k", number(10));
                store.0.write(batch).unwrap();
            }),
            Box::new(|| add(&store, "k", 100)),
        ]);
        assert_eq!(get(&store, "k"), 111, "an operand was lost");
    });
}

/// Version cleanup beside merges: what an operand is folded onto stays.
#[test]
fn version_cleanup_beside_merges() {
    check(|| {
        let store = counters(&["k"], Arc::new(Add), true);
        let snapshot = Mutex::new(Some(store.snapshot()));
        add(&store, "k", 10);
        together(vec![
            Box::new(|| {
                let seen = sum(snapshot.lock().as_ref().unwrap().get("k").unwrap());
                assert_eq!(seen, 1, "the snapshot changed");
                *snapshot.lock() = None;
                version_cleanup::run(&store.0.engine.read);
            }),
            Box::new(|| add(&store, "k", 100)),
            Box::new(|| {
                let seen = get(&store, "k");
                assert!(seen == 11 || seen == 111, "a sum that never was: {seen}");
            }),
        ]);
        assert_eq!(get(&store, "k"), 111, "an operand was lost");
    });
}

#[test]
fn a_merge_beside_a_range_delete() {
    check(|| {
        let store = counters(&["k"], Arc::new(Add), true);
        together(vec![
            Box::new(|| store.delete_range("a", "z")),
            Box::new(|| add(&store, "k", 10)),
            Box::new(|| {
                let seen = get(&store, "k");
                assert!([0, 1, 10, 11].contains(&seen), "a sum that never was: {seen}");
            }),
        ]);
        let last = get(&store, "k");
        assert!(last == 0 || last == 10, "{last}");
    });
}

/// Regression test: a get read the range tombstones, then a range delete and a merge came, and the get folded the new operand
/// onto what was deleted.
#[test]
fn a_get_beside_a_range_delete_and_a_merge() {
    check(|| {
        let store = counters(&["k"], Arc::new(Add), false);
        together(vec![
            Box::new(|| {
                store.delete_range("a", "z");
                add(&store, "k", 100);
            }),
            Box::new(|| {
                let seen = get(&store, "k");
                assert!([0, 1, 100].contains(&seen), "a sum that never was: {seen}");
            }),
        ]);
        assert_eq!(get(&store, "k"), 100);
    });
}

#[test]
fn a_merge_beside_an_update() {
    check(|| {
        let store = counters(&["k"], Arc::new(Add), false);
        together(vec![
            Box::new(|| {
                store.0.update("k", |old| Some(number(sum(old.map(<[u8]>::to_vec)) * 2).to_vec())).unwrap();
            }),
            Box::new(|| add(&store, "k", 10)),
        ]);
        let last = get(&store, "k");
        assert!(last == 12 || last == 22, "a write was lost: {last}");
    });
}

#[test]
fn merges_beside_a_switch_and_an_incorporation() {
    check(|| {
        let store = counters(&["k"], Arc::new(Add), true);
        together(vec![
            Box::new(|| store.incorporate()),
            Box::new(|| {
                add(&store, "k", 10);
                add(&store, "k", 100);
            }),
            Box::new(|| {
                let (first, last) = (get(&store, "k"), get(&store, "k"));
                assert!(
                    [1, 11, 111].contains(&first) && last >= first && [1, 11, 111].contains(&last),
                    "{first}, {last}"
                );
            }),
        ]);
        assert_eq!(get(&store, "k"), 111, "an operand was lost");
    });
}

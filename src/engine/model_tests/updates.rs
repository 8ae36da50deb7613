//! Read-modify-writes with everything that can happen between the read and the write (`docs/concurrency.md`, P1).

use super::stores::{Store, at};
use super::{Thread, check, count, together, value};

impl Store {
    /// Adds to a key's count and returns the new count.
    fn add(&self, key: &str, more: u64) -> u64 {
        let added = |old: Option<&[u8]>| value(key, old.map_or(0, |old| count(key, old)) + more);
        count(key, &self.0.update(key, |old| Some(added(old))).unwrap().unwrap())
    }

    fn put_if_absent(&self, key: &str, count: u64) -> bool {
        self.0.put_if_absent(key, value(key, count)).unwrap()
    }

    fn swap(&self, key: &str, from: u64, to: u64) -> bool {
        self.0.compare_and_swap(key, Some(&value(key, from)), Some(&value(key, to))).unwrap().is_done()
    }

    /// Checks a count, and again after an incorporation: in the tree only the sequence numbers decide which version is
    /// newer.
    fn expect(&self, key: &str, expected: u64, what: &str) {
        assert_eq!(self.get(key), expected, "{what}");
        self.incorporate();
        assert_eq!(self.get(key), expected, "{what}, after the incorporation");
    }
}

#[test]
fn two_updates_of_one_key() {
    check(|| {
        let store = Store::with(&["a"]);
        let (mut first, mut second) = (0, 0);
        together(vec![Box::new(|| first = store.add("a", 1)), Box::new(|| second = store.add("a", 1))]);
        store.expect("a", 3, "an update was lost");
        assert_eq!(first + second, 2 + 3, "two updates gave {first} and {second}");
    });
}

/// The first updates of a key.
#[test]
fn two_updates_of_a_new_key() {
    check(|| {
        let store = Store::open();
        together(vec![Box::new(|| _ = store.add("a", 1)), Box::new(|| _ = store.add("a", 1))]);
        store.expect("a", 2, "an update was lost");
    });
}

#[test]
fn an_update_beside_a_put_and_a_batch() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        let mut given = 0;
        together(vec![
            Box::new(|| given = store.add("a", 1)),
            Box::new(|| store.put("a", 100)),
            Box::new(|| store.write(&["a", "b"], 200)),
        ]);
        let last = store.get("a");
        assert!([2, 101, 201].contains(&given), "{given}");
        // A write after the update is the last one.
        let expected: &[u64] = if given == 2 { &[100, 200] } else { &[given, if given == 101 { 200 } else { 100 }] };
        assert!(expected.contains(&last), "a write was lost: the update gave {given}, the last is {last}");
        store.expect("a", last, "the newest value changed");
    });
}

#[test]
fn an_update_beside_snapshots() {
    check(|| {
        let store = Store::with(&["a"]);
        let old = store.snapshot();
        together(vec![
            Box::new(|| _ = store.add("a", 1)),
            Box::new(|| _ = store.add("a", 1)),
            Box::new(|| {
                let snapshot = store.snapshot();
                let first = at(&snapshot, "a");
                assert!((1..4).contains(&first), "the snapshot has {first}");
                assert!(store.get("a") >= first, "a get of a went back to an older version");
                assert_eq!(at(&snapshot, "a"), first, "the snapshot changed");
            }),
        ]);
        assert_eq!(at(&old, "a"), 1, "the snapshot changed");
        store.expect("a", 3, "an update was lost");
    });
}

/// The version that an update has read is incorporated while its function runs, with and without a newer version of the
/// key.
#[test]
fn updates_beside_a_switch_and_an_incorporation() {
    check(|| {
        let store = Store::with(&["a"]);
        store.incorporate();
        let mut given = [0; 2];
        let [first, second] = &mut given;
        let threads: Vec<Thread<'_>> = vec![
            Box::new(|| *first = store.add("a", 1)),
            Box::new(|| {
                *second = store.add("a", 1);
                store.incorporate();
            }),
        ];
        together(threads);
        store.expect("a", 3, "an update was lost");
        assert_eq!(given[0] + given[1], 2 + 3, "two updates gave {given:?}");
    });
}

/// A put that has its number but is not placed yet is seen, or is ordered later (rules W).
#[test]
fn a_put_stalled_beside_put_if_absent() {
    check(|| {
        let store = Store::open();
        let mut is_done = false;
        together(vec![Box::new(|| store.put("a", 1)), Box::new(|| is_done = store.put_if_absent("a", 2))]);
        store.expect("a", 1, "the put vanished");
        let mut second = [false; 2];
        let [one, other] = &mut second;
        together(vec![
            Box::new(|| *one = store.put_if_absent("b", 1)),
            Box::new(|| *other = store.put_if_absent("b", 2)),
        ]);
        assert!(second[0] != second[1], "an absent key was put by {second:?}");
        store.expect("b", if second[0] { 1 } else { 2 }, "the value is not that of the put that succeeded");
    });
}

#[test]
fn swaps_beside_each_other_and_a_delete() {
    check(|| {
        let store = Store::with(&["a"]);
        let mut done = [false; 2];
        let [one, other] = &mut done;
        together(vec![
            Box::new(|| *one = store.swap("a", 1, 2)),
            Box::new(|| *other = store.swap("a", 1, 3)),
            Box::new(|| store.incorporate()),
        ]);
        assert!(done[0] != done[1], "not exactly one of two swaps was done: {done:?}");
        let last = if done[0] { 2 } else { 3 };
        store.expect("a", last, "a swap was lost");
        let mut is_done = false;
        together(vec![Box::new(|| is_done = store.swap("a", last, 5)), Box::new(|| store.0.delete("a").unwrap())]);
        store.expect("a", 0, "the delete was lost");
    });
}

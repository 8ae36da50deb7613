//! Compares a store that has a comparator with a model, a sorted list.

use super::*;
use crate::store::{Cursor, Moment, Store};
use proptest::collection::vec;
use proptest::prelude::*;
use std::cmp::Ordering as Order;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

fn sign(order: Order) -> c_int {
    order as c_int
}

unsafe fn slice<'a>(bytes: *const c_char, length: usize) -> &'a [u8] {
    // SAFETY: from `Comparator::compare`.
    unsafe { std::slice::from_raw_parts(bytes.cast(), length) }
}

/// Descending and ignoring case: an order that differs from that of bytes and of hashes.
unsafe extern "C" fn backwards(
    _: *mut c_void,
    a: *const c_char,
    a_len: usize,
    b: *const c_char,
    b_len: usize,
) -> c_int {
    // SAFETY: from `Comparator::compare`.
    sign(spell(unsafe { slice(b, b_len) }, unsafe { slice(a, a_len) }))
}

fn spell(a: &[u8], b: &[u8]) -> Order {
    a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
}

unsafe extern "C" fn backwards_name(_: *mut c_void) -> *const c_char {
    c"test.Backwards".as_ptr()
}

unsafe extern "C" fn other_name(_: *mut c_void) -> *const c_char {
    c"test.Other".as_ptr()
}

type NameOf = unsafe extern "C" fn(*mut c_void) -> *const c_char;

fn comparator(name: NameOf) -> Option<Arc<Comparator>> {
    Some(Arc::new(Comparator::of_functions(backwards, name)))
}

fn open(path: &Path) -> Store {
    Store::open(path, options(), comparator(backwards_name)).unwrap()
}

fn options() -> alluvium::Options {
    alluvium::Options::new().memory_budget(1 << 20)
}

/// Keys and values in the comparator's order.
#[derive(Clone, Default)]
struct Model(Vec<(Vec<u8>, Vec<u8>)>);

impl Model {
    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        self.0.binary_search_by(|(here, _)| spell(key, here))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.place(key) {
            Ok(at) => self.0[at] = (key.to_vec(), value.to_vec()),
            Err(at) => self.0.insert(at, (key.to_vec(), value.to_vec())),
        }
    }

    fn delete(&mut self, key: &[u8]) {
        if let Ok(at) = self.place(key) {
            self.0.remove(at);
        }
    }
}

/// Compares all pairs, forward and backward, and a seek and a get of each of `keys`.
fn expect(store: &Store, moment: &Moment, model: &Model, keys: &[Vec<u8>]) {
    let mut cursor = store.cursor(moment).unwrap();
    let here = |cursor: &Cursor| cursor.pair().map(|(key, value)| (key.to_vec(), value.to_vec()));
    cursor.seek_first().unwrap();
    for pair in &model.0 {
        assert_eq!(here(&cursor).as_ref(), Some(pair));
        cursor.step().unwrap();
    }
    assert_eq!(here(&cursor), None);
    cursor.seek_last().unwrap();
    for pair in model.0.iter().rev() {
        assert_eq!(here(&cursor).as_ref(), Some(pair));
        cursor.step_back().unwrap();
    }
    assert_eq!(here(&cursor), None);
    for key in keys {
        let place = model.place(key);
        let found = store.get(key, Some(moment), <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_ref(), place.ok().map(|at| &model.0[at].1), "{}", key.escape_ascii());
        let at = place.unwrap_or_else(|at| at);
        cursor.seek(key).unwrap();
        assert_eq!(here(&cursor).as_ref(), model.0.get(at));
        if cursor.pair().is_some() {
            cursor.step_back().unwrap();
            assert_eq!(here(&cursor).as_ref(), at.checked_sub(1).map(|at| &model.0[at]));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, usize),
    Delete(Vec<u8>),
    /// Deletes neighbouring keys.
    DeleteMany(usize, usize),
    /// Puts many neighbouring keys.
    Fill(u8, u16),
    Batch(Vec<(Vec<u8>, Option<usize>)>),
    Snapshot,
    Reopen,
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(prop_oneof![Just(b'a'), Just(b'A'), Just(b'b'), Just(0xff), Just(0)], 0..5),
        (0..40_u8, 0..300_u16).prop_map(|(group, number)| fill_key(group, number)),
    ]
}

fn fill_key(group: u8, number: u16) -> Vec<u8> {
    format!("{}{group:02}/{number:03}", if number.is_multiple_of(3) { "K" } else { "k" }).into_bytes()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (key(), prop_oneof![9 => 0..20_usize, 1 => 90_000..120_000_usize]).prop_map(|(key, value)| Step::Put(key, value)),
        2 => key().prop_map(Step::Delete),
        1 => (0..4000_usize, 0..600_usize).prop_map(|(from, count)| Step::DeleteMany(from, count)),
        2 => (0..40_u8, 0..300_u16).prop_map(|(group, count)| Step::Fill(group, count)),
        2 => vec((key(), proptest::option::weighted(0.7, 0..200_usize)), 0..30).prop_map(Step::Batch),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Reopen),
    ]
}

fn run(steps: Vec<Step>) {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    let (mut model, mut snapshots, mut used) = (Model::default(), Vec::new(), Vec::new());
    let default = WriteOptions::default();
    for (number, step) in steps.into_iter().enumerate() {
        let value = |length: usize| vec![number as u8; length];
        match step {
            Step::Put(key, length) => {
                store.write_one(&key, Some(&value(length)), default).unwrap();
                model.put(&key, &value(length));
                used.push(key);
            }
            Step::Delete(key) => {
                store.write_one(&key, None, default).unwrap();
                model.delete(&key);
                used.push(key);
            }
            Step::DeleteMany(from, count) => {
                let from = from.min(model.0.len());
                let to = (from + count).min(model.0.len());
                let mut batch = WriteBatch::new();
                for (key, _) in model.0.drain(from..to) {
                    batch.delete(key.to_ascii_uppercase());
                }
                store.write(&batch, default).unwrap();
            }
            Step::Fill(group, count) => {
                for at in 0..count {
                    store.write_one(&fill_key(group, at), Some(&value(9)), default).unwrap();
                    model.put(&fill_key(group, at), &value(9));
                }
            }
            Step::Batch(writes) => {
                let mut batch = WriteBatch::new();
                for (key, length) in writes {
                    match length {
                        Some(length) => {
                            batch.put(&key[..], value(length));
                            model.put(&key, &value(length));
                        }
                        None => {
                            batch.delete(&key[..]);
                            model.delete(&key);
                        }
                    }
                }
                store.write(&batch, default).unwrap();
            }
            Step::Snapshot => snapshots.push((store.snapshot(), model.clone())),
            Step::Reopen => {
                snapshots.clear();
                store.close().unwrap();
                store = open(directory.path());
            }
        }
    }
    for (moment, then) in &snapshots {
        expect(&store, moment, then, &used);
    }
    expect(&store, &store.snapshot(), &model, &used);
    for key in &used {
        let found = store.get(key, None, <[u8]>::to_vec).unwrap();
        assert_eq!(found.as_ref(), model.place(key).ok().map(|at| &model.0[at].1));
    }
    store.close().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn equals_a_sorted_list(steps in vec(step(), 1..60)) {
        run(steps);
    }
}

/// A writer splits and empties buckets while gets look up keys that always exist. A get that used the fences of another
/// state would miss them.
#[test]
fn gets_during_splits_miss_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let default = WriteOptions::default();
    let lasting: Vec<Vec<u8>> = (0..64).map(|number| format!("key{number:04}").into_bytes()).collect();
    for key in &lasting {
        store.write_one(key, Some(b"here"), default).unwrap();
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (store, lasting, done) = (&store, &lasting, &done);
        scope.spawn(move || {
            for round in 0..6 {
                for between in 0..600_u32 {
                    let key = format!("key{:04}/{between}", between % 64);
                    let value = (round % 2 == 0).then_some(&b"passing"[..]);
                    store.write_one(key.as_bytes(), value, default).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        for _ in 0..2 {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    for key in lasting {
                        let found = store.get(key, None, <[u8]>::len).unwrap();
                        assert_eq!(found, Some(4), "{}", key.escape_ascii());
                    }
                }
            });
        }
    });
    store.close().unwrap();
}

#[test]
fn another_comparator_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    open(path).close().unwrap();
    let message = |opened: Result<Store, Status>| opened.err().map(|status| status.message("leveldb_open"));
    let refused = message(Store::open(path, options(), comparator(other_name))).unwrap();
    assert!(refused.contains("test.Other does not match existing comparator test.Backwards"), "{refused}");
    let refused = message(Store::open(path, options(), None)).unwrap();
    assert!(
        refused.contains("leveldb.BytewiseComparator does not match existing comparator test.Backwards"),
        "{refused}"
    );
    open(path).close().unwrap();

    let plain = tempfile::tempdir().unwrap();
    let store = Store::open(plain.path(), options(), None).unwrap();
    store.write_one(b"key", Some(b"value"), WriteOptions::default()).unwrap();
    store.close().unwrap();
    let refused = message(Store::open(plain.path(), options(), comparator(other_name))).unwrap();
    assert!(refused.contains("test.Other does not match existing comparator leveldb.BytewiseComparator"), "{refused}");
}

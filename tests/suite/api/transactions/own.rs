//! A transaction's view of its own writes over its snapshot, by gets and by iterators from both ends, compared with a
//! model.

use super::{get, incorporate, seen, store};
use crate::support::Random;
use alluvium::{Transaction, TransactionIter};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[test]
fn read_your_writes() {
    let db = store();
    db.put("old", "1").unwrap();
    db.put("gone", "1").unwrap();
    incorporate(&db);
    let transaction = db.transaction().unwrap();
    transaction.put("old", "2").unwrap();
    transaction.put("new", "1").unwrap();
    transaction.delete("gone").unwrap();
    transaction.delete("never was").unwrap();
    assert_eq!(["old", "new", "gone", "never was"].map(|key| seen(&transaction, key)), ["2", "1", "absent", "absent"]);
    let all = [("new", "1"), ("old", "2")].map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    assert_eq!(transaction.iter().unwrap().map(Result::unwrap).collect::<Vec<_>>(), all);
    assert_eq!(
        transaction.iter().unwrap().rev().map(Result::unwrap).collect::<Vec<_>>(),
        [all[1].clone(), all[0].clone()]
    );
    assert_eq!(transaction.range("nf"..).unwrap().map(Result::unwrap).collect::<Vec<_>>(), all[1..]);
    // An iterator shows the writes before its creation.
    let mut scan = transaction.iter().unwrap();
    transaction.put("a", "late").unwrap();
    transaction.put("old", "late").unwrap();
    transaction.delete("new").unwrap();
    assert_eq!(scan.by_ref().map(Result::unwrap).collect::<Vec<_>>(), all);
    drop(scan);
    assert_eq!(transaction.iter().unwrap().count(), 2);
    transaction.commit().unwrap();
    assert_eq!(["a", "old", "new", "gone"].map(|key| get(&db, key)), ["late", "late", "absent", "absent"]);
}

/// An iterator and its expected position.
struct Scan<'t> {
    iter: TransactionIter<'t>,
    pairs: Vec<(Vec<u8>, Vec<u8>)>,
    at: Option<usize>,
}

fn key(random: &mut Random) -> Vec<u8> {
    match random.below(60) {
        0 => Vec::new(),
        number if number % 5 == 0 => vec![b'k'; number as usize],
        number => format!("key{number:02}").into_bytes(),
    }
}

/// Whether a key is in the scanned range.
type InRange = Box<dyn Fn(&[u8]) -> bool>;

impl<'t> Scan<'t> {
    fn new(transaction: &'t Transaction, model: &Model, random: &mut Random) -> Self {
        let (one, other) = (key(random), key(random));
        let (lower, upper) = (one.clone().min(other.clone()), one.max(other));
        let (iter, in_range): (_, InRange) = match random.below(4) {
            0 => {
                (transaction.range(lower.clone()..upper.clone()), Box::new(move |key| *key >= *lower && *key < *upper))
            }
            1 => (
                transaction.range(lower.clone()..=upper.clone()),
                Box::new(move |key| *key >= *lower && *key <= *upper),
            ),
            2 => (transaction.prefix("key1"), Box::new(|key| key.starts_with(b"key1"))),
            _ => (transaction.iter(), Box::new(|_| true)),
        };
        let pairs = model.iter().filter(|(key, _)| in_range(key));
        Self { iter: iter.unwrap(), pairs: pairs.map(|(key, value)| (key.clone(), value.clone())).collect(), at: None }
    }

    fn step(&mut self, random: &mut Random) {
        let nowhere = self.at.is_none_or(|at| at >= self.pairs.len());
        match random.below(10) {
            0 => {
                self.iter.seek_first().unwrap();
                self.at = Some(0);
            }
            1 => {
                self.iter.seek_last().unwrap();
                self.at = self.pairs.len().checked_sub(1);
            }
            2 | 3 => {
                let key = key(random);
                self.iter.seek(&key).unwrap();
                self.at = Some(self.pairs.partition_point(|(found, _)| *found < key));
            }
            4 | 5 => {
                let key = key(random);
                self.iter.seek_for_prev(&key).unwrap();
                self.at = self.pairs.partition_point(|(found, _)| *found <= key).checked_sub(1);
            }
            _ if nowhere => {}
            6 | 7 => {
                self.iter.step().unwrap();
                self.at = self.at.map(|at| at + 1);
            }
            _ => {
                self.iter.step_back().unwrap();
                self.at = self.at.and_then(|at| at.checked_sub(1));
            }
        }
        let expected = self.at.and_then(|at| self.pairs.get(at));
        let found = self.iter.pair().map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(found.as_ref(), expected, "position in {:?}", self.pairs);
    }

    /// Compares everything once more, from both ends.
    fn end(self, random: &mut Random, transaction: &Transaction, model: &Model) {
        let mut fresh = Scan::new(transaction, model, random);
        let (mut front, mut back) = (Vec::new(), Vec::new());
        for _ in 0..=fresh.pairs.len() {
            if random.one_in(2) {
                front.extend(fresh.iter.next().map(Result::unwrap));
            } else {
                back.extend(fresh.iter.next_back().map(Result::unwrap));
            }
        }
        assert!(fresh.iter.next().is_none() && fresh.iter.next_back().is_none());
        front.extend(back.into_iter().rev());
        assert_eq!(front, fresh.pairs);
        // The keys alone, after some pairs from both ends.
        let mut iter = Scan::new(transaction, model, random);
        let (pairs, cut) = (std::mem::take(&mut iter.pairs), random.below(3));
        let mut front: Vec<_> = iter.iter.by_ref().take(cut as usize).map(|pair| pair.unwrap().0).collect();
        let last = iter.iter.next_back().map(|pair| pair.unwrap().0);
        let mut keys = iter.iter.keys();
        let before_last = keys.next_back().map(Result::unwrap);
        front.extend(keys.map(Result::unwrap).chain(before_last).chain(last));
        assert_eq!(front, pairs.into_iter().map(|(key, _)| key).collect::<Vec<_>>());
    }
}

#[test]
fn iterators_agree_with_a_model() {
    let mut random = Random(1);
    for round in 0..150 {
        let db = store();
        let mut model = Model::new();
        for _ in 0..random.below(60) {
            let (key, value) = (key(&mut random), random.next().to_le_bytes().to_vec());
            if random.one_in(4) {
                db.delete(&key).unwrap();
                model.remove(&key);
            } else {
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            if random.one_in(20) {
                incorporate(&db);
            }
        }
        let transaction = db.transaction().unwrap();
        let (mut scans, mut saved) = (Vec::new(), Vec::new());
        for _ in 0..120 {
            match random.below(12) {
                0..3 => {
                    let (key, value) = (key(&mut random), random.next().to_le_bytes().to_vec());
                    transaction.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
                3 => {
                    let key = key(&mut random);
                    transaction.delete(&key).unwrap();
                    model.remove(&key);
                }
                4 => {
                    let key = key(&mut random);
                    assert_eq!(transaction.get(&key).unwrap().as_ref(), model.get(&key), "round {round}");
                }
                5 => scans.push(Scan::new(&transaction, &model, &mut random)),
                6 if random.one_in(2) => saved.push((transaction.savepoint(), model.clone())),
                // It is unspecified what an iterator shows of writes that are rolled back meanwhile.
                7 if random.one_in(3) && !saved.is_empty() => {
                    scans.clear();
                    saved.truncate(random.below(saved.len() as u64) as usize + 1);
                    let (savepoint, then) = saved.last().unwrap();
                    transaction.rollback_to(savepoint).unwrap();
                    model = then.clone();
                }
                8 => {
                    // A write of another writer, which the transaction does not see.
                    db.put(key(&mut random), "of another writer").unwrap();
                }
                _ if scans.is_empty() => {}
                _ => {
                    let at = random.below(scans.len() as u64) as usize;
                    scans[at].step(&mut random);
                    if random.one_in(12) {
                        scans.swap_remove(at).end(&mut random, &transaction, &model);
                    }
                }
            }
        }
        drop(scans);
        let keys: Vec<_> = (0..20).map(|_| key(&mut random)).collect();
        let values: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
        assert_eq!(transaction.multi_get(&keys).unwrap(), values, "round {round}");
    }
}

/// An iterator shows the writes before its creation, except those that were rolled back since; it does not show later
/// writes.
#[test]
fn iterators_while_the_transaction_goes_on() {
    let db = store();
    (0..9).for_each(|at| db.put(format!("a{at}"), "old").unwrap());
    let transaction = db.transaction().unwrap();
    transaction.delete("a3").unwrap();
    let savepoint = transaction.savepoint();
    transaction.put("a4a", "new").unwrap();
    transaction.delete("a5").unwrap();
    let mut iter = transaction.iter().unwrap();
    let mut seen = Vec::new();
    for pair in iter.by_ref() {
        let key = String::from_utf8(pair.unwrap().0).unwrap();
        transaction.put(format!("b{key}"), "ahead").unwrap();
        if key == "a4" {
            transaction.rollback_to(&savepoint).unwrap();
        }
        seen.push(key);
    }
    assert_eq!(seen, ["a0", "a1", "a2", "a4", "a5", "a6", "a7", "a8"]);
    drop(iter);
    let ahead = transaction.prefix("b").unwrap().count();
    assert_eq!(ahead, 4, "only the writes after the rollback remain");
}

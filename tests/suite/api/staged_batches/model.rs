//! Random staged batches beside random writes, against a model.

use super::{Contents, components, contents, key, of};
use crate::support::{Random, expect_sound, setting};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{KeyspaceOptions, Options, StagedIter, StagedKeyspace};
use std::sync::Arc;

/// What a batch does, to be done again to what the store has at its commit.
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Append(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(u64, u64),
}

fn apply(step: &Step, contents: &mut Contents) {
    match step {
        Step::Put(key, value) => drop(contents.insert(key.clone(), value.clone())),
        Step::Append(key, operand) => contents.entry(key.clone()).or_default().extend(operand),
        Step::Delete(key) => drop(contents.remove(key)),
        Step::DeleteRange(from, until) => contents.retain(|found, _| *found < key(*from) || *found >= key(*until)),
    }
}

/// Moves a cursor at random, and beside it one over the model.
fn expect_same_moves(iter: &mut StagedIter<'_>, model: &Contents, random: &mut Random, what: &str) {
    let pairs: Vec<_> = model.iter().collect();
    let mut at: Option<usize> = None;
    for _ in 0..12 {
        let target = key(random.below(260));
        let behind = pairs.partition_point(|(key, _)| **key < target);
        match random.below(6) {
            0 => {
                iter.seek(&target).unwrap();
                at = Some(behind);
            }
            1 => {
                iter.seek_for_prev(&target).unwrap();
                at = pairs.partition_point(|(key, _)| **key <= target).checked_sub(1);
            }
            2 if random.one_in(3) => {
                iter.seek_last().unwrap();
                at = pairs.len().checked_sub(1);
            }
            3 if random.one_in(3) => {
                iter.seek_first().unwrap();
                at = Some(0);
            }
            2..=4 => {
                iter.step().unwrap();
                at = at.map(|at| at + 1);
            }
            _ => {
                iter.step_back().unwrap();
                at = at.and_then(|at| at.checked_sub(1));
            }
        }
        at = at.filter(|at| *at < pairs.len());
        let expected = at.map(|at| (&pairs[at].0[..], &pairs[at].1[..]));
        assert_eq!(iter.pair(), expected, "{what}");
    }
}

fn expect_same(part: &StagedKeyspace<'_>, model: &Contents, random: &mut Random, what: &str) {
    assert!(part.iter().unwrap().map(Result::unwrap).eq(model.clone()), "{what}");
    assert!(part.iter().unwrap().rev().map(Result::unwrap).eq(model.clone().into_iter().rev()), "{what}");
    assert!(part.iter().unwrap().keys().unwrap().map(Result::unwrap).eq(model.keys().cloned()), "{what}");
    let (from, length) = (random.below(260), random.below(100));
    let bounds = key(from)..key(from + length);
    let mut iter = part.range(bounds.clone()).unwrap();
    let inside: Contents = model.range(bounds).map(|(key, value)| (key.clone(), value.clone())).collect();
    expect_same_moves(&mut iter, &inside, random, what);
    expect_same_moves(&mut part.iter().unwrap(), model, random, what);
    // Both ends meet in the middle.
    let (mut iter, mut from_front, mut from_back) = (part.iter().unwrap(), Vec::new(), Vec::new());
    loop {
        let is_front = random.one_in(2);
        let Some(pair) = (if is_front { iter.next() } else { iter.next_back() }) else { break };
        if is_front { &mut from_front } else { &mut from_back }.push(pair.unwrap());
    }
    assert!(from_front.into_iter().chain(from_back.into_iter().rev()).eq(model.clone()), "{what}");
}

#[test]
fn random_batches_agree_with_a_model() {
    let (mut spilled, mut whole) = (0, 0);
    for seed in 0..setting("ALLUVIUM_SEEDS", 16) {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let disk = SimulatedStorage::new(seed);
        let options = Options::new().memory_budget(1 << 20).disk_component(components()[seed as usize % 4].clone());
        let options = options.merge_operator(Append);
        let db = DeterministicDb::open_small(Arc::new(disk), options).unwrap();
        let other = KeyspaceOptions::new().merge_operator(Append);
        let other = db.keyspace("other", other).unwrap();
        let keyspaces = [(**db).clone(), other];
        let mut store = [Contents::new(), Contents::new()];
        for round in 0..30 {
            let what = format!("seed {seed}, round {round}");
            let memory = [1, 500, 2_000, 1 << 20][random.below(4) as usize];
            let mut batch = db.staged_batch().unwrap().with_memory(memory);
            let mut seen = store.clone();
            let mut steps: Vec<(usize, Step)> = Vec::new();
            for _ in 0..random.below(250) {
                let which = random.below(2) as usize;
                let (number, length) = (random.below(250), random.below(60) as usize);
                let value = random.bytes(length);
                let mut part = batch.within(&keyspaces[which]).unwrap();
                let step = match random.below(40) {
                    0 => {
                        let until = number + random.below(80);
                        part.delete_range(key(number)..key(until)).unwrap();
                        Step::DeleteRange(number, until.max(number))
                    }
                    1..=8 => {
                        part.delete(key(number)).unwrap();
                        Step::Delete(key(number))
                    }
                    9..=15 => {
                        part.merge(key(number), &value).unwrap();
                        Step::Append(key(number), value)
                    }
                    16 => {
                        expect_same(&part, &seen[which], random, &what);
                        continue;
                    }
                    17 => {
                        // Others go on, and the batch does not notice.
                        keyspaces[which].put(key(number), "beside").unwrap();
                        apply(&Step::Put(key(number), b"beside".to_vec()), &mut store[which]);
                        continue;
                    }
                    18 => {
                        let until = number + random.below(20);
                        keyspaces[which].delete_range(key(number)..key(until)).unwrap();
                        apply(&Step::DeleteRange(number, until), &mut store[which]);
                        continue;
                    }
                    19 => {
                        while db.step() && !random.one_in(20) {}
                        continue;
                    }
                    20..=24 => {
                        let found = part.get(key(number)).unwrap();
                        assert_eq!(found.as_ref(), seen[which].get(&key(number)), "{what}");
                        assert_eq!(part.contains_key(key(number)).unwrap(), found.is_some(), "{what}");
                        continue;
                    }
                    _ => {
                        part.put(key(number), &value).unwrap();
                        Step::Put(key(number), value)
                    }
                };
                apply(&step, &mut seen[which]);
                steps.push((which, step));
            }
            let is_spilled = batch.spilled_bytes() > 0;
            let before = db.snapshot();
            if random.one_in(6) {
                drop(batch);
            } else {
                batch.commit().unwrap();
                *(if is_spilled { &mut spilled } else { &mut whole }) += 1;
                let old = [contents(&before), contents(&before.within(&keyspaces[1]).unwrap())];
                assert_eq!(old, store, "{what}: a snapshot has changed");
                steps.iter().for_each(|(which, step)| apply(step, &mut store[*which]));
            }
            assert_eq!([of(&keyspaces[0]), of(&keyspaces[1])], store, "{what}");
            if random.one_in(8) {
                db.compact().unwrap();
                assert_eq!([of(&keyspaces[0]), of(&keyspaces[1])], store, "{what}: compacted");
            }
        }
        while db.step() {}
        assert_eq!([of(&keyspaces[0]), of(&keyspaces[1])], store, "seed {seed}");
        expect_sound(&db);
    }
    assert!(spilled > 50 && whole > 50, "{spilled} spilled, {whole} whole");
}

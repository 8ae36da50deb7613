//! The staged batches of a run: the actions of transactions, but for savepoints.

use super::range_of;
use crate::concurrency::metamorphic::model::prefix;
use crate::concurrency::metamorphic::operation::{Action, Answer, Bounds, Move, key};
use alluvium::{Db, Error, Keyspace, StagedIter, StagedKeyspace};

pub fn run(db: &Db, home: &Keyspace, actions: &[Action], commits: bool, memory: usize) -> Answer {
    let mut batch = db.staged_batch().unwrap().with_memory(memory);
    let mut within = batch.within(home).unwrap();
    let mut answers = Vec::new();
    for action in actions {
        match action {
            Action::Put(number, value) => within.put(key(*number), value.bytes()).unwrap(),
            Action::Merge(number, operand) => match within.merge(key(*number), operand.bytes()) {
                // One of the operators joins nothing; all of them append.
                Err(Error::MergeOperands { .. }) => {
                    let old = within.get(key(*number)).unwrap().unwrap_or_default();
                    within.put(key(*number), [old, operand.bytes()].concat()).unwrap();
                }
                merged => merged.unwrap(),
            },
            Action::Delete(number) => within.delete(key(*number)).unwrap(),
            Action::DeleteRange(Bounds::Prefix(number)) => within.delete_prefix(prefix(*number)).unwrap(),
            Action::DeleteRange(bounds) => within.delete_range(range_of(*bounds)).unwrap(),
            Action::Get(number) => answers.push(Answer::Values(vec![within.get(key(*number)).unwrap()])),
            Action::MultiGet(numbers) => {
                let values = numbers.iter().map(|number| within.get(key(*number)).unwrap());
                answers.push(Answer::Values(values.collect()));
            }
            Action::Scan(bounds, backwards, most) => {
                let iter = iterate(&within, *bounds);
                let pairs: Result<_, _> =
                    if *backwards { iter.rev().take(*most).collect() } else { iter.take(*most).collect() };
                answers.push(Answer::Pairs(pairs.unwrap()));
            }
            Action::Iterate(bounds, moves) => {
                answers.push(Answer::Positions(moved(&mut iterate(&within, *bounds), moves)));
            }
            Action::Save | Action::RollBack(_) => unreachable!("a staged batch has no savepoints"),
        }
    }
    if commits {
        batch.commit().unwrap();
    }
    Answer::Transaction(answers, commits)
}

fn iterate<'b>(within: &'b StagedKeyspace<'_>, bounds: Bounds) -> StagedIter<'b> {
    let iter = match bounds {
        Bounds::All => within.iter(),
        Bounds::Prefix(number) => within.prefix(prefix(number)),
        Bounds::Range(lower, upper) => within.range((lower.map(key), upper.map(key))),
    };
    iter.unwrap()
}

fn moved(iter: &mut StagedIter<'_>, moves: &[Move]) -> Vec<Option<(Vec<u8>, Vec<u8>)>> {
    let pair = |iter: &StagedIter<'_>| iter.pair().map(|(key, value)| (key.to_vec(), value.to_vec()));
    let mut stood = vec![pair(iter)];
    for going in moves {
        match going {
            Move::First => iter.seek_first(),
            Move::Last => iter.seek_last(),
            Move::Seek(number) => iter.seek(key(*number)),
            Move::SeekForPrev(number) => iter.seek_for_prev(key(*number)),
            Move::Step | Move::StepBack if !iter.valid() => continue,
            Move::Step => iter.step(),
            Move::StepBack => iter.step_back(),
        }
        .unwrap();
        stood.push(pair(iter));
    }
    stood
}

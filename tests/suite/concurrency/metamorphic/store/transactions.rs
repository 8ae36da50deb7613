//! The transactions of a run.

use super::{keys, range_of};
use crate::concurrency::metamorphic::model::{chosen, prefix};
use crate::concurrency::metamorphic::operation::{Action, Answer, Bounds, Ending, Move, key};
use alluvium::{Db, Error, Keyspace, TransactionIter, TransactionKeyspace};

pub fn run(db: &Db, home: &Keyspace, actions: &[Action], ending: Ending) -> Answer {
    let transaction = db.transaction().unwrap();
    let within = transaction.within(home).unwrap();
    let (mut saved, mut answers) = (Vec::new(), Vec::new());
    let is_disturbed = matches!(ending, Ending::Disturbed(..));
    for action in actions {
        match action {
            Action::Put(number, value) => within.put(key(*number), value.bytes()).unwrap(),
            // Whether a second merge of a key counts as a read depends on the operator.
            Action::Merge(..) if is_disturbed => {}
            Action::Merge(number, operand) => within.merge(key(*number), operand.bytes()).unwrap(),
            Action::Delete(number) => within.delete(key(*number)).unwrap(),
            Action::DeleteRange(Bounds::Prefix(number)) => within.delete_prefix(prefix(*number)).unwrap(),
            Action::DeleteRange(bounds) => within.delete_range(range_of(*bounds)).unwrap(),
            Action::Get(number) => answers.push(Answer::Values(vec![within.get(key(*number)).unwrap()])),
            Action::MultiGet(numbers) => answers.push(Answer::Values(within.multi_get(&keys(numbers)).unwrap())),
            Action::Scan(bounds, backwards, most) => {
                let (iter, most) = (iterate(within, *bounds), if is_disturbed { usize::MAX } else { *most });
                let pairs: Result<_, _> =
                    if *backwards { iter.rev().take(most).collect() } else { iter.take(most).collect() };
                answers.push(Answer::Pairs(pairs.unwrap()));
            }
            Action::Iterate(..) if is_disturbed => {}
            Action::Iterate(bounds, moves) => {
                answers.push(Answer::Positions(moved(&mut iterate(within, *bounds), moves)));
            }
            Action::Save => saved.push(transaction.savepoint()),
            Action::RollBack(which) => {
                if let Some(at) = chosen(*which, saved.len()) {
                    saved.truncate(at + 1);
                    transaction.rollback_to(&saved[at]).unwrap();
                }
            }
        }
    }
    match ending {
        Ending::Commit => {}
        Ending::RollBack => {
            transaction.rollback();
            return Answer::Transaction(answers, false);
        }
        Ending::Disturbed(number, value) => home.put(key(number), value.bytes()).unwrap(),
    }
    let is_done = match transaction.commit() {
        Ok(()) => true,
        Err(Error::Conflict { .. }) => false,
        Err(error) => panic!("a commit failed: {error}"),
    };
    Answer::Transaction(answers, is_done)
}

fn iterate(within: TransactionKeyspace<'_>, bounds: Bounds) -> TransactionIter<'_> {
    let iter = match bounds {
        Bounds::All => within.iter(),
        Bounds::Prefix(number) => within.prefix(prefix(number)),
        Bounds::Range(lower, upper) => within.range((lower.map(key), upper.map(key))),
    };
    iter.unwrap()
}

fn moved(iter: &mut TransactionIter<'_>, moves: &[Move]) -> Vec<Option<(Vec<u8>, Vec<u8>)>> {
    let pair = |iter: &TransactionIter<'_>| iter.pair().map(|(key, value)| (key.to_vec(), value.to_vec()));
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

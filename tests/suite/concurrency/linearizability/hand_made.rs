//! Tests of the checker: histories made by hand with known answers, and small random ones whose answers brute force
//! finds.

use super::checker::check;
use super::history::{Effect, History, Key, Operation, Seen, Value};
use super::report::report;
use super::shrink::shrink;
use crate::support::Random;

const X: Key = 0;
const Y: Key = 1;

fn write(call: u64, ret: u64, pairs: &[(Key, u32)]) -> Operation {
    let pairs = pairs.iter().map(|(key, value)| (*key, Value(*value))).collect();
    Operation { name: "write", effect: Effect::write(pairs), call, ret }
}

/// An operation that saw a value of a key and wrote another one.
fn update(call: u64, ret: u64, key: Key, saw: u32, wrote: u32) -> Operation {
    let saw = Seen { key, value: Value(saw), by: "update" };
    Operation { name: "update", effect: Effect { saw: vec![saw], wrote: vec![(key, Value(wrote))] }, call, ret }
}

fn read(call: u64, ret: u64, pairs: &[(Key, u32)]) -> Operation {
    let seen = pairs.iter().map(|(key, value)| Seen { key: *key, value: Value(*value), by: "read" }).collect();
    Operation { name: "read", effect: Effect::read(seen), call, ret }
}

/// Two keys, which are absent at first.
fn history(threads: &[&[Operation]]) -> History {
    History { initial: vec![Value::ABSENT; 2], threads: threads.iter().map(|thread| thread.to_vec()).collect() }
}

#[track_caller]
fn linearizable(threads: &[&[Operation]]) {
    assert_eq!(check(&history(threads)), Ok(()));
}

#[track_caller]
fn not_linearizable(threads: &[&[Operation]], because: &str) {
    let violation = check(&history(threads)).expect_err(because);
    assert!(violation.why.contains(because), "{}", violation.why);
}

const NO_ORDER: &str = "in no order";

#[test]
fn linearizable_histories_pass() {
    linearizable(&[]);
    linearizable(&[&[write(1, 2, &[(X, 10)]), read(3, 4, &[(X, 10)])]]);
    // A get during a put sees the old or the new value.
    for seen in [0, 10] {
        linearizable(&[&[write(1, 4, &[(X, 10)])], &[read(2, 3, &[(X, seen)])]]);
    }
    // Of two concurrent puts either may be the last; all readers must agree.
    for last in [10, 11] {
        linearizable(&[
            &[write(1, 4, &[(X, 10)]), read(5, 6, &[(X, last)])],
            &[write(2, 3, &[(X, 11)]), read(7, 8, &[(X, last)])],
        ]);
    }
    // A write that returned late may have taken place early, between operations of another thread.
    linearizable(&[
        &[write(1, 20, &[(X, 10)])],
        &[read(2, 3, &[(X, 0)]), read(4, 5, &[(X, 10)]), write(6, 7, &[(X, 11)]), read(8, 9, &[(X, 11)])],
    ]);
    // A snapshot that is taken during a put of x, and that has the old y.
    linearizable(&[&[write(1, 4, &[(X, 10)]), write(5, 6, &[(Y, 20)])], &[read(2, 3, &[(X, 10), (Y, 0)])]]);
    // A delete, and the empty value.
    linearizable(&[&[write(1, 2, &[(X, 1)]), read(3, 4, &[(X, 1)]), write(5, 6, &[(X, 0)]), read(7, 8, &[(X, 0)])]]);
}

#[test]
fn a_stale_read_is_rejected() {
    let writer = [write(1, 2, &[(X, 10)]), write(3, 4, &[(X, 11)])];
    not_linearizable(&[&writer, &[read(5, 6, &[(X, 10)])]], NO_ORDER);
    not_linearizable(&[&writer, &[read(5, 6, &[(X, 0)])]], NO_ORDER);
    // New, then old: during the put each alone is possible, but not in this order.
    not_linearizable(&[&[write(1, 9, &[(X, 10)])], &[read(2, 3, &[(X, 10)]), read(4, 5, &[(X, 0)])]], NO_ORDER);
    // The same by two readers, one after the other.
    not_linearizable(&[&[write(1, 9, &[(X, 10)])], &[read(2, 3, &[(X, 10)])], &[read(4, 5, &[(X, 0)])]], NO_ORDER);
    // Operations that share ticks still keep the order of their thread.
    not_linearizable(&[&[write(1, 9, &[(X, 10)]), read(1, 9, &[(X, 0)])]], NO_ORDER);
}

#[test]
fn a_lost_update_is_rejected() {
    not_linearizable(&[&[write(1, 2, &[(X, 10)]), read(3, 4, &[(X, 0)])]], NO_ORDER);
    // The first of three values comes back, although each was overwritten before the next write began.
    let writer = [write(1, 2, &[(X, 10)]), write(3, 4, &[(X, 11)]), write(5, 6, &[(X, 12)])];
    not_linearizable(&[&writer, &[read(7, 8, &[(X, 11)])]], NO_ORDER);
    // Two concurrent puts: each thread sees its own as the last.
    not_linearizable(
        &[
            &[write(1, 4, &[(X, 10)]), read(5, 6, &[(X, 10)]), read(9, 10, &[(X, 11)])],
            &[write(2, 3, &[(X, 11)]), read(7, 8, &[(X, 11)])],
        ],
        NO_ORDER,
    );
    // A delete that is undone.
    not_linearizable(&[&[write(1, 2, &[(X, 10)]), write(3, 4, &[(X, 0)])], &[read(5, 6, &[(X, 10)])]], NO_ORDER);
}

/// Two updates of the same value: the second one overwrites the result of the first.
#[test]
fn an_update_of_an_outdated_value_is_rejected() {
    let put = write(1, 2, &[(X, 10)]);
    linearizable(&[&[put.clone(), update(3, 6, X, 10, 11)], &[update(4, 5, X, 11, 12), read(7, 8, &[(X, 12)])]]);
    linearizable(&[&[put.clone(), update(3, 6, X, 12, 11)], &[update(4, 5, X, 10, 12), read(7, 8, &[(X, 11)])]]);
    not_linearizable(&[&[put.clone(), update(3, 6, X, 10, 11)], &[update(4, 5, X, 10, 12)]], NO_ORDER);
    // Of an update and a put, the put is either the last write or the value that the update saw.
    for (saw, last) in [(10, 11), (10, 12), (11, 12)] {
        let threads =
            [&[put.clone(), update(3, 6, X, saw, 12)][..], &[write(4, 5, &[(X, 11)]), read(7, 8, &[(X, last)])]];
        let lost = (saw, last) == (10, 12);
        if lost { not_linearizable(&threads, NO_ORDER) } else { linearizable(&threads) }
    }
    // The old value was overwritten before the update was called, or deleted, or never written.
    not_linearizable(&[&[put.clone(), write(3, 4, &[(X, 11)])], &[update(5, 6, X, 10, 12)]], NO_ORDER);
    not_linearizable(&[&[put.clone(), write(3, 4, &[(X, 0)])], &[update(5, 6, X, 10, 12)]], NO_ORDER);
    not_linearizable(&[&[put.clone(), update(3, 4, X, 99, 11)]], "which nobody wrote");
    // An update during a batch comes before or after the batch, for both keys.
    let batch = [put, write(3, 8, &[(X, 11), (Y, 20)])];
    linearizable(&[&batch, &[update(4, 5, X, 11, 12), read(6, 7, &[(Y, 20)])]]);
    not_linearizable(&[&batch, &[update(4, 5, X, 11, 12), read(6, 7, &[(Y, 0)])]], NO_ORDER);
}

#[test]
fn swaps_and_puts_of_absent_keys_are_checked() {
    // Of two swaps that expect the same value, one succeeds.
    let put = write(1, 2, &[(X, 10)]);
    linearizable(&[&[put.clone(), update(3, 6, X, 10, 11)], &[read(4, 5, &[(X, 11)])]]);
    not_linearizable(&[&[put.clone(), update(3, 4, X, 10, 11)], &[update(5, 6, X, 10, 12)]], NO_ORDER);
    // A swap that failed saw the value of that moment, not a later one.
    not_linearizable(&[&[put.clone(), read(3, 4, &[(X, 11)]), update(5, 6, X, 10, 11)]], "before it was written");
    // Of two puts of an absent key one succeeds, and the other one sees its value.
    let present = |call, ret| read(call, ret, &[(X, Value::PRESENT.0)]);
    for second in [3, 7] {
        linearizable(&[&[update(1, 6, X, 0, 10)], &[present(second, 8), read(9, 10, &[(X, 10)])]]);
        not_linearizable(&[&[update(1, 6, X, 0, 10)], &[update(second, 8, X, 0, 11)]], NO_ORDER);
        linearizable(&[&[update(1, 6, X, 0, 10)], &[write(2, 5, &[(X, 0)]), update(second, 8, X, 0, 11)]]);
    }
    // A put that fails although the key was never written, or had been deleted.
    not_linearizable(&[&[present(1, 2)]], NO_ORDER);
    not_linearizable(&[&[put.clone(), write(3, 4, &[(X, 0)]), present(5, 6)]], NO_ORDER);
    linearizable(&[&[put, write(3, 6, &[(X, 0)])], &[present(4, 5)]]);
}

#[test]
fn a_torn_batch_is_rejected() {
    let batch = [write(1, 9, &[(X, 10), (Y, 20)])];
    linearizable(&[&batch, &[read(2, 3, &[(X, 0)]), read(4, 5, &[(Y, 20)])]]);
    not_linearizable(&[&batch, &[read(2, 3, &[(X, 10)]), read(4, 5, &[(Y, 0)])]], NO_ORDER);
    not_linearizable(&[&batch, &[read(2, 3, &[(X, 10), (Y, 0)])]], NO_ORDER);
    // The two gets in two threads.
    not_linearizable(&[&batch, &[read(2, 3, &[(Y, 20)])], &[read(4, 5, &[(X, 0)])]], NO_ORDER);
}

#[test]
fn a_snapshot_with_new_y_and_old_x_is_rejected() {
    let writer = [write(1, 2, &[(X, 10)]), write(3, 4, &[(Y, 20)])];
    not_linearizable(&[&writer, &[read(1, 6, &[(Y, 20), (X, 0)])]], NO_ORDER);
    // Rule S3: gets see the new y and then the old x, and the snapshot has the reverse.
    let (put_x, put_y) = ([write(1, 20, &[(X, 10)])], [write(2, 21, &[(Y, 20)])]);
    let gets = [read(5, 6, &[(Y, 20)]), read(7, 8, &[(X, 0)])];
    linearizable(&[&put_x, &put_y, &gets]);
    not_linearizable(&[&put_x, &put_y, &gets, &[read(4, 9, &[(X, 10), (Y, 0)])]], NO_ORDER);
}

#[test]
fn a_snapshot_that_misses_a_returned_write_is_rejected() {
    not_linearizable(&[&[write(1, 2, &[(X, 10)])], &[read(3, 4, &[(X, 0)])]], NO_ORDER);
    let writer = [write(1, 2, &[(X, 10)]), write(3, 9, &[(Y, 20)])];
    linearizable(&[&writer, &[read(4, 5, &[(X, 10), (Y, 0)])]]);
    not_linearizable(&[&writer, &[read(4, 5, &[(X, 0), (Y, 20)])]], NO_ORDER);
}

#[test]
fn a_snapshot_of_two_instants_is_rejected() {
    // Its gets and its scan differ.
    let concurrent = [write(1, 9, &[(X, 10)])];
    not_linearizable(&[&concurrent, &[read(2, 3, &[(X, 0), (X, 10)])]], "two values of a key");
    // x from before the second round and y from after it: each alone is possible, and so is each pair.
    let rounds = [write(1, 2, &[(X, 10)]), write(3, 4, &[(Y, 20)]), write(5, 6, &[(X, 11)]), write(7, 8, &[(Y, 21)])];
    for (x, y) in [(10, 20), (11, 20), (11, 21)] {
        linearizable(&[&rounds, &[read(3, 9, &[(X, x), (Y, y)])]]);
    }
    not_linearizable(&[&rounds, &[read(3, 9, &[(X, 10), (Y, 21)])]], NO_ORDER);
}

#[test]
fn values_that_nobody_wrote_are_rejected() {
    not_linearizable(&[&[read(1, 2, &[(X, 10)])]], "which nobody wrote");
    not_linearizable(&[&[write(3, 4, &[(X, 10)])], &[read(1, 2, &[(X, 10)])]], "before it was written");
    not_linearizable(&[&[write(1, 2, &[(Y, 10)])], &[read(3, 4, &[(X, 10)])]], "which nobody wrote");
}

/// The report has only the operations that are needed to see the fault.
#[test]
fn the_smallest_failing_part_is_shown() {
    let mut random = Random(7);
    let mut wrong = random_history(&mut random, 4, 10, true);
    let after = wrong.operations().map(|operation| operation.ret).max().unwrap();
    wrong.threads.push(vec![
        write(after + 1, after + 2, &[(X, 900), (Y, 901)]),
        read(after + 3, after + 4, &[(X, 900), (Y, 901)]),
        write(after + 5, after + 6, &[(X, 902)]),
        read(after + 7, after + 8, &[(Y, 901), (X, 900)]),
        write(after + 9, after + 10, &[(X, 900)]),
    ]);
    let smallest = shrink(&wrong);
    let left: Vec<&Operation> = smallest.operations().collect();
    // The first write is the initial state; the last one came too late to matter.
    let expected = [write(after + 5, after + 6, &[(X, 902)]), read(after + 7, after + 8, &[(X, 900)])];
    assert_eq!(left, expected.iter().collect::<Vec<_>>());
    let text = report(&smallest);
    for line in ["before: k0 = v900", "├─┤   thread 4: write k0 := v902", "  ├─┤ thread 4: read sees k0 = v900"]
    {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

/// The report of a lost update has only the two operations that saw the same value.
#[test]
fn a_lost_update_is_shown_without_other_operations() {
    let wrong = history(&[
        &[write(1, 2, &[(X, 10), (Y, 20)]), update(3, 6, X, 10, 11), read(7, 8, &[(Y, 20)])],
        &[update(4, 5, X, 10, 12), read(9, 10, &[(X, 12)])],
    ]);
    let text = report(&shrink(&wrong));
    assert_eq!(text.lines().count(), 3, "{text}");
    for line in ["before: k0 = v10", "thread 0: update sees k0 = v10 k0 := v11", "thread 1: update sees k0 = v10"] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}

/// For small random histories, right and wrong ones, the checker agrees with a search of every order. Large right ones
/// pass.
#[test]
fn the_checker_agrees_with_brute_force() {
    let mut random = Random(1);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..6000 {
        let threads = 1 + random.below(3) as usize;
        let history = random_history(&mut random, threads, 7, round % 4 == 0);
        let expected = some_order_fits(&history, &mut vec![0; history.threads.len()], &mut history.initial.clone());
        assert_eq!(check(&history).is_ok(), expected, "round {round}:\n{}", report(&history));
        *if expected { &mut right } else { &mut wrong } += 1;
    }
    assert!(right > 1000 && wrong > 1000, "{right} right, {wrong} wrong");
    for _ in 0..300 {
        let history = random_history(&mut random, 6, 200, true);
        assert_eq!(check(&history), Ok(()), "{}", report(&history));
    }
}

/// Operations of some threads that take place one after the other, each at a random time within its call. With `right`
/// reads see the state; otherwise they sometimes see any value.
fn random_history(random: &mut Random, threads: usize, operations: usize, right: bool) -> History {
    let initial: Vec<Value> = (0..2).map(|key| if random.one_in(2) { Value(2 + key) } else { Value::ABSENT }).collect();
    let (mut state, mut next) = (initial.clone(), 10);
    let mut all: Vec<Vec<Operation>> = vec![Vec::new(); threads];
    let (mut values, mut instants) = (vec![vec![state[0]], vec![state[1]]], vec![0; threads]);
    let first = random.below(3);
    for at in first..first + 1 + random.below(operations as u64) {
        let chosen = random.below(threads as u64) as usize;
        let thread = &mut all[chosen];
        // Ten ticks from one instant to the next. The operation is called after the thread's previous one has returned.
        let instant = at * 10 + 100;
        let call = (instant - random.below(40)).max(instants[chosen] + 1);
        if let Some(last) = thread.last_mut() {
            last.ret = last.ret.min(call - 1);
        }
        let ret = instant + random.below(40);
        instants[chosen] = instant;
        let keys: &[Key] = [&[X][..], &[Y], &[X, Y]][random.below(3) as usize];
        let lie = !right && !random.one_in(3);
        let mut see = |key: &Key| {
            let any = values[*key][random.below(values[*key].len() as u64) as usize];
            let value = if lie { any } else { state[*key] };
            let is_vague = value != Value::ABSENT && random.one_in(8);
            Seen { key: *key, value: if is_vague { Value::PRESENT } else { value }, by: "read" }
        };
        // Reads, writes, and operations that do both.
        let kind = at % 3;
        let saw: Vec<Seen> = if kind > 0 { keys.iter().map(&mut see).collect() } else { Vec::new() };
        let mut make = |key: &Key| {
            next += 1;
            (*key, if random.one_in(6) { Value::ABSENT } else { Value(next) })
        };
        let wrote: Vec<(Key, Value)> = if kind < 2 { keys.iter().map(&mut make).collect() } else { Vec::new() };
        for (key, value) in &wrote {
            state[*key] = *value;
            values[*key].push(*value);
        }
        let name = ["write", "update", "read"][kind as usize];
        thread.push(Operation { name, effect: Effect { saw, wrote }, call, ret });
    }
    History { initial, threads: all }
}

/// Tries every order.
fn some_order_fits(history: &History, done: &mut Vec<usize>, state: &mut Vec<Value>) -> bool {
    let open: Vec<(usize, &Operation)> = (0..done.len())
        .filter_map(|thread| history.threads[thread].get(done[thread]).map(|one| (thread, one)))
        .collect();
    open.is_empty()
        || open.iter().any(|(thread, operation)| {
            let too_late = open.iter().any(|(_, other)| other.ret < operation.call);
            let before = state.clone();
            let fits = !too_late && operation.effect.saw.iter().all(|seen| seen.fits(state[seen.key]));
            operation.effect.wrote.iter().for_each(|(key, value)| state[*key] = *value);
            done[*thread] += 1;
            let explained = fits && some_order_fits(history, done, state);
            done[*thread] -= 1;
            *state = before;
            explained
        })
}

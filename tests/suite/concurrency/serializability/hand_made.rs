//! Tests of the checker: histories made by hand with known answers, and random ones.

use super::checker::check;
use super::history::{Action, By, History, Item, Key, Outcome, Transaction};
use crate::support::Random;

const X: Key = 0;
const Y: Key = 1;

fn append(key: Key, item: Item) -> Action {
    Action::Append(key, item)
}

fn get(key: Key, list: &[Item]) -> Action {
    Action::Read { key, list: list.to_vec(), by: By::Get }
}

/// The lists of X and Y, in one scan.
fn scan(x: &[Item], y: &[Item]) -> Vec<Action> {
    [(X, x), (Y, y)].map(|(key, list)| Action::Read { key, list: list.to_vec(), by: By::Range }).into()
}

/// A transaction in its own thread.
fn transaction(call: u64, ret: u64, actions: &[Action]) -> Transaction {
    let (thread, outcome) = (call as usize, Outcome::Committed);
    Transaction { thread, name: "transaction", actions: actions.to_vec(), outcome, call, ret }
}

/// A transaction concurrent with all others.
fn concurrent(actions: &[Action]) -> Transaction {
    Transaction { thread: usize::MAX, ..transaction(0, u64::MAX, actions) }
}

fn aborted(actions: &[Action]) -> Transaction {
    Transaction { outcome: Outcome::Aborted, ..concurrent(actions) }
}

/// Each transaction in its own thread.
fn history(transactions: &[Transaction]) -> History {
    let own = |(thread, one): (usize, &Transaction)| Transaction { thread, ..one.clone() };
    History { transactions: transactions.iter().enumerate().map(own).collect() }
}

#[track_caller]
fn right(transactions: &[Transaction]) {
    if let Err(anomaly) = check(&history(transactions)) {
        panic!("{anomaly}");
    }
}

#[track_caller]
fn wrong(transactions: &[Transaction], name: &str) -> String {
    let anomaly = check(&history(transactions)).expect_err(name);
    assert_eq!(anomaly.name, name, "{anomaly}");
    anomaly.to_string()
}

#[test]
fn serializable_histories_pass() {
    right(&[]);
    right(&[
        concurrent(&[get(X, &[]), append(X, 1), get(X, &[1])]),
        concurrent(&[get(X, &[1])]),
        concurrent(&[get(X, &[])]),
    ]);
    // Transactions one after the other, with items that are never read.
    right(&[
        transaction(1, 2, &[get(X, &[]), append(X, 1)]),
        transaction(3, 4, &[get(X, &[1]), append(X, 2)]),
        transaction(5, 6, &[get(X, &[1, 2]), append(Y, 3)]),
        transaction(7, 8, &[append(Y, 4)]),
    ]);
    // Concurrent transactions may have any order, but it must be one order.
    right(&[
        transaction(1, 4, &[get(X, &[]), get(Y, &[]), append(X, 1)]),
        transaction(2, 3, &[get(X, &[1]), get(Y, &[]), append(Y, 2)]),
        transaction(5, 6, &scan(&[1], &[2])),
    ]);
    // An aborted transaction may have read the state of any one moment.
    right(&[concurrent(&[append(X, 1), append(Y, 2)]), aborted(&[get(X, &[]), get(Y, &[]), append(X, 3)])]);
    // Two appends to a key are read together.
    right(&[concurrent(&[append(X, 1), get(X, &[1]), append(X, 2)]), concurrent(&[get(X, &[1, 2])])]);
}

#[test]
fn rolled_back_writes_do_not_count() {
    let all = [append(X, 1), Action::Save, append(X, 2), get(X, &[1, 2]), Action::Save, append(Y, 3)];
    let back = |to, rest: &[Action]| concurrent(&[&all[..], &[Action::RollBack(to)], rest].concat());
    right(&[back(0, &[get(X, &[1]), append(X, 4)]), concurrent(&[get(X, &[1, 4]), get(Y, &[])])]);
    right(&[back(1, &[get(X, &[1, 2]), get(Y, &[])])]);
    wrong(&[back(0, &[get(X, &[1, 2])])], "internal");
    wrong(&[back(0, &[]), concurrent(&[get(Y, &[3])])], "G1a, aborted read");
    wrong(&[back(1, &[]), concurrent(&[get(X, &[1])])], "G1b, intermediate read");
}

#[test]
fn merges_read_nothing() {
    let merge = |key, item| Action::Merge(key, item);
    let both = [concurrent(&[merge(X, 1), merge(Y, 2)]), concurrent(&[merge(Y, 3), merge(X, 4)])];
    let read = |x: &[Item], y: &[Item]| [&both[..], &[concurrent(&[get(X, x), get(Y, y)])]].concat();
    right(&both);
    right(&read(&[1, 4], &[2, 3]));
    right(&read(&[4, 1], &[3, 2]));
    right(&read(&[4], &[3]));
    wrong(&read(&[1, 4], &[3, 2]), "G0, dirty write");
    wrong(&read(&[1, 4], &[2]), "G-single, read skew");
    // An append between two merges has read the first, and the second comes after it.
    right(&[both[0].clone(), concurrent(&[get(X, &[1]), append(X, 5)]), both[1].clone()]);
    wrong(
        &[both[0].clone(), concurrent(&[get(X, &[]), append(X, 5)]), concurrent(&[get(X, &[1, 5])])],
        "G-single, lost update",
    );
    wrong(&[concurrent(&[merge(X, 1), get(X, &[])])], "internal");
    wrong(
        &[concurrent(&[Action::Save, merge(X, 1), Action::RollBack(0)]), concurrent(&[get(X, &[1])])],
        "G1a, aborted read",
    );
}

/// A range delete of a transaction that writes everything again is no change; what it does not bring back is missed.
#[test]
fn a_range_that_is_written_again_has_not_changed() {
    let again = |x: &[Item]| concurrent(&[&scan(x, &[])[..], &[Action::DeleteRange(X..Y + 1), append(X, 2)]].concat());
    let writer = concurrent(&[append(X, 1)]);
    right(&[writer.clone(), again(&[1]), concurrent(&[get(X, &[1, 2])])]);
    wrong(&[writer.clone(), again(&[]), concurrent(&[get(X, &[1, 2])])], "G-single, phantom");
    wrong(&[writer, again(&[1]), concurrent(&[get(X, &[2])])], "incompatible orders");
}

#[test]
fn violations_that_need_no_order_are_named() {
    wrong(&[concurrent(&[append(X, 1), get(X, &[])])], "internal");
    wrong(&[concurrent(&[append(X, 1)]), concurrent(&[get(X, &[]), get(X, &[1])])], "internal");
    wrong(&[concurrent(&[append(X, 1)]), concurrent(&[get(X, &[]), scan(&[1], &[])[0].clone()])], "internal");
    wrong(&[concurrent(&[get(X, &[7])])], "garbage read");
    wrong(&[concurrent(&[append(X, 7)]), concurrent(&[get(X, &[7, 7])])], "duplicate");
    wrong(&[aborted(&[append(X, 1)]), concurrent(&[get(X, &[1])])], "G1a, aborted read");
    wrong(&[aborted(&[append(X, 1)]), aborted(&[get(X, &[1])])], "G1a, aborted read");
    wrong(&[concurrent(&[append(X, 1), append(X, 2)]), concurrent(&[get(X, &[1])])], "G1b, intermediate read");
    let two = [concurrent(&[append(X, 1)]), concurrent(&[append(X, 2)])];
    wrong(&[&two[..], &[concurrent(&[get(X, &[1, 2])]), concurrent(&[get(X, &[2])])]].concat(), "incompatible orders");
    wrong(
        &[&two[..], &[concurrent(&[get(X, &[1, 2])]), concurrent(&[get(X, &[2, 1])])]].concat(),
        "incompatible orders",
    );
}

#[test]
fn cycles_of_writes_are_caught() {
    let writers = [concurrent(&[append(X, 1), append(Y, 2)]), concurrent(&[append(X, 3), append(Y, 4)])];
    let read = |x: &[Item], y: &[Item]| [&writers[..], &[concurrent(&[get(X, x), get(Y, y)])]].concat();
    right(&read(&[1, 3], &[2, 4]));
    wrong(&read(&[1, 3], &[4, 2]), "G0, dirty write");
    // An item of another transaction between two items of one transaction.
    let torn =
        [concurrent(&[append(X, 1), append(X, 2)]), concurrent(&[append(X, 3)]), concurrent(&[get(X, &[1, 3, 2])])];
    wrong(&torn, "G0, dirty write");
    // Each saw the write of the other.
    wrong(
        &[concurrent(&[append(X, 1), get(Y, &[2])]), concurrent(&[append(Y, 2), get(X, &[1])])],
        "G1c, circular information flow",
    );
    let saw_before = [concurrent(&[get(X, &[1]), append(Y, 2)]), concurrent(&[get(Y, &[2]), append(X, 1)])];
    wrong(&saw_before, "G1c, circular information flow");
}

#[test]
fn a_lost_update_is_caught() {
    let both = [concurrent(&[get(X, &[]), append(X, 1)]), concurrent(&[get(X, &[]), append(X, 2)])];
    for last in [&[1][..], &[2], &[1, 2], &[2, 1]] {
        let text = wrong(&[&both[..], &[concurrent(&[get(X, last)])]].concat(), "G-single, lost update");
        assert!(text.contains("T1 thread") && text.contains("comes before T1"), "{text}");
    }
    // A read saw one before the other overwrote it.
    wrong(&[&both[..], &[concurrent(&[get(X, &[1])]), concurrent(&[get(X, &[2])])]].concat(), "lost update");
    // Neither was read.
    wrong(&both, "G2-item, lost update");
    right(&[both[0].clone(), concurrent(&[get(X, &[1]), append(X, 2)])]);
}

#[test]
fn read_skew_is_caught() {
    let writer = concurrent(&[append(X, 1), append(Y, 2)]);
    let text = wrong(&[writer.clone(), concurrent(&[get(X, &[]), get(Y, &[2])])], "G-single, read skew");
    assert!(text.contains("comes before T1: T1 read its 2 in k1") || text.contains("T2 read its 2 in k1"), "{text}");
    wrong(&[writer.clone(), aborted(&[get(X, &[]), get(Y, &[2])])], "G-single, read skew");
    wrong(&[writer.clone(), concurrent(&scan(&[], &[2]))], "G-single, phantom");
    right(&[writer.clone(), concurrent(&scan(&[1], &[2]))]);
    right(&[writer, concurrent(&scan(&[], &[]))]);
}

#[test]
fn write_skew_is_caught() {
    let one = concurrent(&[get(X, &[]), get(Y, &[]), append(X, 1)]);
    let text = wrong(&[one.clone(), concurrent(&[get(X, &[]), get(Y, &[]), append(Y, 2)])], "G2-item, write skew");
    for line in ["it read k0 without the 1 of T", "it read k1 without the 2 of T"] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    right(&[one, concurrent(&[get(X, &[1]), get(Y, &[]), append(Y, 2)])]);
    // A cycle of three.
    let ring = |a, b, item| concurrent(&[get(a, &[]), append(b, item)]);
    wrong(&[ring(0, 1, 1), ring(1, 2, 2), ring(2, 0, 3)], "G2-item, anti-dependency cycle");
    right(&[ring(0, 1, 1), ring(1, 2, 2), ring(2, 3, 3)]);
}

#[test]
fn phantoms_are_caught() {
    // Each counts the keys and adds its own key.
    let one = concurrent(&[&scan(&[], &[])[..], &[append(X, 1)]].concat());
    let other = |x| concurrent(&[&scan(x, &[])[..], &[append(Y, 2)]].concat());
    let text = wrong(&[one.clone(), other(&[])], "G2, phantom");
    assert!(text.contains("its scan passed k1, which T"), "{text}");
    right(&[one, other(&[1])]);
}

#[test]
fn orders_must_agree_with_real_time() {
    let put = transaction(1, 2, &[append(X, 1)]);
    wrong(&[put.clone(), transaction(3, 4, &[get(X, &[])])], "G-single-realtime, stale read");
    right(&[put.clone(), transaction(2, 4, &[get(X, &[])])]);
    // With unrelated transactions in between.
    let others = [transaction(3, 4, &[append(Y, 5)]), transaction(5, 6, &[append(Y, 6)])];
    let text = wrong(
        &[std::slice::from_ref(&put), &others, &[transaction(7, 8, &[get(X, &[])])]].concat(),
        "G-single-realtime, stale read",
    );
    assert_eq!(text.lines().count(), 5, "{text}");
    wrong(
        &[put.clone(), transaction(3, 4, &[append(X, 2)]), concurrent(&[get(X, &[2, 1])])],
        "G0-realtime, dirty write",
    );
    wrong(
        &[transaction(3, 4, &[append(X, 1)]), transaction(1, 2, &[get(X, &[1])])],
        "G1c-realtime, circular information flow",
    );
    // An aborted transaction read an old state.
    let late = Transaction { outcome: Outcome::Aborted, ..transaction(3, 4, &[get(X, &[])]) };
    wrong(&[put.clone(), late], "G-single-realtime, stale read");
    // Transactions of one thread keep their order, whatever the ticks.
    let (mut first, mut second) = (concurrent(&[append(X, 1)]), concurrent(&[get(X, &[])]));
    (first.thread, second.thread) = (0, 0);
    assert!(check(&History { transactions: vec![first, second] }).is_err());
}

/// Transactions that take place in turn, each at an instant within its call, pass. A read of another moment is
/// reported.
#[test]
fn random_histories_are_checked_correctly() {
    let (mut random, mut reported) = (Random(1), 0);
    for round in 0..600 {
        let (wanted, lie) = (20 + random.below(200), round % 2 == 1);
        let mut lists: Vec<Vec<Item>> = vec![Vec::new(); 6];
        let (mut transactions, mut next): (Vec<Transaction>, Item) = (Vec::new(), 0);
        for at in 0..wanted {
            let (mut actions, mut own) = (Vec::new(), lists.clone());
            let mut lied = false;
            for _ in 0..1 + random.below(4) {
                let key = random.below(6) as usize;
                if random.one_in(3) {
                    next += 1;
                    own[key].push(next);
                    actions.push(append(key, next));
                } else {
                    let list = &own[key];
                    // Omits an item of another transaction that was read before.
                    let hide = lie && at + 1 == wanted && !lied && list == &lists[key] && !list.is_empty();
                    lied |= hide;
                    actions.push(get(key, &list[..list.len() - usize::from(hide)]));
                }
            }
            let outcome = if random.one_in(5) { Outcome::Aborted } else { Outcome::Committed };
            let (call, ret) = (1000 + at * 10 - random.below(30), 1000 + at * 10 + random.below(30));
            let (call, ret) = if lied { (1005 + at * 10, 1006 + at * 10) } else { (call, ret) };
            if outcome == Outcome::Committed {
                lists = own;
            }
            transactions.push(Transaction { outcome, ..transaction(call, ret, &actions) });
            let reads = (0..6).map(|key| get(key, &lists[key])).collect::<Vec<_>>();
            if at + 2 == wanted {
                let quiet = 1000 + at * 10 + 4;
                transactions.iter_mut().for_each(|before| before.ret = before.ret.min(quiet));
                transactions.push(transaction(quiet, quiet, &reads));
            }
            if lied {
                reported += 1;
                assert!(check(&history(&transactions)).is_err(), "round {round}");
            }
        }
        if !lie {
            right(&transactions);
        }
    }
    assert!(reported > 100, "{reported}");
}

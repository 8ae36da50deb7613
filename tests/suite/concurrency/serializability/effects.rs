//! The effects of a transaction: its reads of other transactions' writes, and its appends without those that it rolled
//! back. It must read its own writes.

use super::anomaly::Anomaly;
use super::history::{Action, By, History, Item, Key, Outcome, Transaction};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The effects of one transaction.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// The list of each key that it read, without its own items, and how it first read the key.
    pub reads: BTreeMap<Key, (Vec<Item>, By)>,
    /// The appends; none if it was aborted.
    pub appends: BTreeMap<Key, Vec<Item>>,
}

/// The effects of every transaction.
pub fn of_all(history: &History) -> Result<Vec<Effects>, Anomaly> {
    let effects_of = |transaction| of_one(transaction).map_err(|(name, what)| Anomaly::of_one(name, transaction, what));
    let all = history.transactions.iter().map(effects_of).collect::<Result<Vec<_>, _>>()?;
    items_are_known(history, &all)?;
    Ok(all)
}

fn of_one(transaction: &Transaction) -> Result<Effects, (&'static str, String)> {
    let mut effects = Effects::default();
    let mut own: BTreeMap<Key, Vec<Item>> = BTreeMap::new();
    let mut saved = Vec::new();
    for action in &transaction.actions {
        match action {
            Action::Append(key, item) | Action::Merge(key, item) => own.entry(*key).or_default().push(*item),
            Action::DeleteRange(_) => {}
            Action::Save => saved.push(own.clone()),
            Action::RollBack(to) => {
                own = saved[*to].clone();
                saved.truncate(to + 1);
            }
            Action::Read { key, list, by } => {
                let mine = own.get(key).map_or(&[][..], |items| &items[..]);
                let Some(others) = list.strip_suffix(mine) else {
                    return Err((
                        "internal",
                        format!("k{key} shows {list:?}, which does not end with its own {mine:?}"),
                    ));
                };
                let (first, _) = effects.reads.entry(*key).or_insert_with(|| (others.to_vec(), *by));
                if first != others {
                    return Err((
                        "internal",
                        format!("k{key} shows {others:?} of other transactions, but showed {first:?} before"),
                    ));
                }
            }
        }
    }
    if transaction.outcome == Outcome::Committed {
        effects.appends = own;
    }
    Ok(effects)
}

/// Checks that each item in a list was appended by a committed transaction, occurs once, and comes with the other items
/// that this transaction appended to the key.
fn items_are_known(history: &History, all: &[Effects]) -> Result<(), Anomaly> {
    let last: HashMap<Item, Item> = (all.iter().flat_map(|effects| effects.appends.values()))
        .flat_map(|items| items.iter().map(|item| (*item, items[items.len() - 1])))
        .collect();
    let mut tried = HashMap::new();
    for transaction in &history.transactions {
        for action in &transaction.actions {
            if let Action::Append(_, item) | Action::Merge(_, item) = action {
                assert!(tried.insert(*item, transaction).is_none(), "item {item} is used twice");
            }
        }
    }
    for (transaction, effects) in history.transactions.iter().zip(all) {
        for (key, (list, _)) in &effects.reads {
            let mut known = HashSet::new();
            for (at, item) in list.iter().enumerate() {
                let (name, what) = match (tried.get(item), last.get(item)) {
                    _ if !known.insert(item) => ("duplicate", "twice".to_owned()),
                    (None, _) => ("garbage read", "which was never written".to_owned()),
                    (Some(writer), None) => {
                        let whose = if std::ptr::eq(*writer, transaction) { "itself" } else { "another" };
                        let what = format!("which {whose} wrote and rolled back: {}", Anomaly::line(writer));
                        ("G1a, aborted read", what)
                    }
                    (Some(writer), Some(last)) if at + 1 == list.len() && last != item => {
                        let what = format!("without the {last} of the same transaction: {}", Anomaly::line(writer));
                        ("G1b, intermediate read", what)
                    }
                    _ => continue,
                };
                return Err(Anomaly::of_one(name, transaction, format!("k{key} shows {item} {what}")));
            }
        }
    }
    Ok(())
}

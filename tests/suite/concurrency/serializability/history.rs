//! What transactions did and saw, and when: the input of the checker. Plain data.
//!
//! Every key holds a list. A transaction reads lists and appends items to them. Each item is a number that is used once
//! in a history, so a read shows all writes before it and their order (list-append histories; Kingsbury and Alvaro,
//! Elle, VLDB 2021). An absent key is the empty list, the first version.

use std::ops::Range;

/// A key: its place in the order of all keys of the run.
pub type Key = usize;
/// An appended number; unique in a history.
pub type Item = u32;

/// One action of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A put of the list that was read, with the item at its end, or a put of a new key.
    Append(Key, Item),
    /// A merge, which reads nothing.
    Merge(Key, Item),
    /// A delete of all keys of a range, whose lists were read and are written again afterwards: no append, no change.
    DeleteRange(Range<Key>),
    /// The list of a key as a get or a scan showed it; empty if the key was absent.
    Read {
        key: Key,
        list: Vec<Item>,
        by: By,
    },
    /// A savepoint, and a rollback of the appends since the savepoint with this number.
    Save,
    RollBack(usize),
}

/// How a list was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Get,
    Range,
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Committed,
    /// By a conflict or by the caller: none of its writes may show, and its reads must still be of one moment.
    Aborted,
}

/// A transaction, or a single operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub thread: usize,
    /// The method that was called.
    pub name: &'static str,
    pub actions: Vec<Action>,
    pub outcome: Outcome,
    /// Ticks of one counter.
    pub call: u64,
    pub ret: u64,
}

/// A run, which begins with empty lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The transactions of each thread, in their order.
    pub transactions: Vec<Transaction>,
}

//! What transactions did and saw, and when: the input of the checker. Plain data.
//!
//! Every key holds a list. A transaction reads lists and appends items to them, each a number that is used once in a history; so
//! what a read shows tells every write that came before it, and their order (list-append histories; Kingsbury and Alvaro, Elle,
//! VLDB 2021). A key that is absent is the empty list, before everything else.

/// A key: its place in the order of all keys of the run.
pub type Key = usize;
/// What is appended; never twice in a history.
pub type Item = u32;

/// What a transaction did, one thing after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Append(Key, Item),
    /// The list of a key as a get of it or a walk over a range of keys showed it: the empty one where it was absent.
    Read {
        key: Key,
        list: Vec<Item>,
        by: By,
    },
    /// A savepoint, and the appends since the savepoint of this number taken back.
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
    /// By a conflict or by its own will: nothing of it shows, and what it read was of one moment all the same.
    Aborted,
}

/// A transaction; an operation outside of any is one by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub thread: usize,
    /// What was called.
    pub name: &'static str,
    pub actions: Vec<Action>,
    pub outcome: Outcome,
    /// Ticks of one counter.
    pub call: u64,
    pub ret: u64,
}

/// A run, from lists that are all empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Those of one thread in their order there.
    pub transactions: Vec<Transaction>,
}

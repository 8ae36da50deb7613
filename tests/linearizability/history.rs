//! What a run of several threads did and saw, and when: the input of the checker. Plain data.
//!
//! Every operation either writes some keys or reads some keys, at one instant between its call and its return. A put, a delete
//! and a batch are writes; a get, a `multi_get`, a snapshot with everything that was ever read through it, and an iterator with
//! everything that it went over, are reads. Times are ticks of one counter; operations of one thread follow each other in
//! their order there, whatever their ticks.

/// A key: its place in the order of all keys of the run.
pub type Key = usize;

/// A value: the number that it carries. All writes of a run have different ones, but for the two below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

impl Value {
    /// The key is not there.
    pub const ABSENT: Self = Self(0);
    /// The value of no bytes, which can carry no number.
    pub const EMPTY: Self = Self(1);
    /// The first that is not one of these.
    pub const FIRST: u32 = 2;
}

/// What a read found at a key, and by which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub key: Key,
    pub value: Value,
    pub by: &'static str,
}

/// What an operation does to the state, or says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Write(Vec<(Key, Value)>),
    Read(Vec<Seen>),
}

impl Effect {
    /// The keys that it touches.
    pub fn keys(&self) -> Vec<Key> {
        match self {
            Self::Write(pairs) => pairs.iter().map(|(key, _)| *key).collect(),
            Self::Read(seen) => seen.iter().map(|seen| seen.key).collect(),
        }
    }
}

/// One operation of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// What was called.
    pub name: &'static str,
    pub effect: Effect,
    pub call: u64,
    pub ret: u64,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The state before, for each key.
    pub initial: Vec<Value>,
    /// The operations of each thread, in their order.
    pub threads: Vec<Vec<Operation>>,
}

impl History {
    /// All operations.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.threads.iter().flatten()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }
}

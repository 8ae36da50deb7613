//! What a run of several threads did and saw, and when: the input of the checker. Plain data.
//!
//! Every operation reads some keys and then writes some, at one instant between its call and its return. A put, a
//! delete and a batch only write. A get, a `multi_get`, a snapshot with everything that was read through it, and an
//! iterator with everything that it passed only read. A transaction, an update, a swap and a put of an absent key do
//! both; they only read if they failed or left the key alone. Times are ticks of one counter. The operations of one
//! thread are in order, whatever their ticks.

/// A key: its place in the order of all keys of the run.
pub type Key = usize;

/// A value: the number that it carries. All writes of a run have different numbers, except the two below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub u32);

impl Value {
    /// The key is absent.
    pub const ABSENT: Self = Self(0);
    /// The empty value, which cannot carry a number.
    pub const EMPTY: Self = Self(1);
    /// The first number of other values.
    pub const FIRST: u32 = 2;
    /// Only seen, never written: the key is present with an unknown value.
    pub const PRESENT: Self = Self(u32::MAX);
}

/// What a read found at a key, and which call it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub key: Key,
    pub value: Value,
    pub by: &'static str,
}

impl Seen {
    /// Whether a key with this value agrees with what was found.
    pub fn fits(&self, value: Value) -> bool {
        self.value == value || self.value == Value::PRESENT && value != Value::ABSENT
    }
}

/// What an operation saw of the state, and then wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    pub saw: Vec<Seen>,
    pub wrote: Vec<(Key, Value)>,
}

impl Effect {
    /// The effect of an operation that only writes.
    pub fn write(wrote: Vec<(Key, Value)>) -> Self {
        Self { saw: Vec::new(), wrote }
    }

    /// The effect of an operation that only reads.
    pub fn read(saw: Vec<Seen>) -> Self {
        Self { saw, wrote: Vec::new() }
    }

    /// The keys that it reads or writes; a key that it reads and writes occurs twice.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.saw.iter().map(|seen| seen.key).chain(self.wrote.iter().map(|(key, _)| *key))
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
    /// The initial state, for each key.
    pub initial: Vec<Value>,
    /// The operations of each thread, in their order.
    pub threads: Vec<Vec<Operation>>,
}

impl History {
    /// All operations.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.threads.iter().flatten()
    }

    /// The number of operations.
    pub fn len(&self) -> usize {
        self.threads.iter().map(Vec::len).sum()
    }
}

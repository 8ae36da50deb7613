//! What a run of several threads did and saw, and when: the input of the checker. Plain data.
//!
//! Every operation reads some keys and then writes some, at one instant between its call and its return. A put, a delete and a
//! batch only write; a get, a `multi_get`, a snapshot with everything that was ever read through it, and an iterator with
//! everything that it went over, only read; a transaction, an update, a swap and a put of an absent key do both, or only read
//! where they were refused or left the key alone. Times are ticks of one counter; operations of one thread follow each other in their order there, whatever
//! their ticks.

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
    /// Only seen: the key is there, and nobody said with which value.
    pub const PRESENT: Self = Self(u32::MAX);
}

/// What a read found at a key, and by which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub key: Key,
    pub value: Value,
    pub by: &'static str,
}

impl Seen {
    /// Whether a key with this value shows just this.
    pub fn fits(&self, value: Value) -> bool {
        self.value == value || self.value == Value::PRESENT && value != Value::ABSENT
    }
}

/// What an operation says about the state, and then does to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    pub saw: Vec<Seen>,
    pub wrote: Vec<(Key, Value)>,
}

impl Effect {
    /// Of one that reads nothing.
    pub fn write(wrote: Vec<(Key, Value)>) -> Self {
        Self { saw: Vec::new(), wrote }
    }

    /// Of one that writes nothing.
    pub fn read(saw: Vec<Seen>) -> Self {
        Self { saw, wrote: Vec::new() }
    }

    /// The keys that it touches; one that it reads and writes, twice.
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

//! The plan of a run: what its threads do, drawn from a seed.

use super::history::{Key, Value};
use super::values::BYTES_MIN;
use crate::support::Random;
use std::fmt;

/// The keys of a world, and prefixes of them to scan.
#[derive(Clone, Debug)]
pub struct Keys {
    /// In order in each keyspace.
    pub names: Vec<Vec<u8>>,
    /// The keys from here on are in a keyspace with a name, those before it in the default one. Both have the same names.
    named_from: Key,
    pub prefixes: Vec<Vec<u8>>,
}

impl Keys {
    fn draw(random: &mut Random) -> Self {
        let count = 3 + random.below(10) as usize;
        let name = |at: usize| match random.0 % 4 {
            // Short keys, including the empty key.
            0 => vec![b'k'; at],
            // Keys with a common prefix, such as names or counters.
            1 => format!("user{:012}", at * at).into_bytes(),
            2 => (at as u64 * 3).to_be_bytes().to_vec(),
            _ => [vec![b'/'; 150], vec![b'a' + (at % 3) as u8, b'a' + at as u8]].concat(),
        };
        let mut names: Vec<Vec<u8>> = (0..count).map(name).collect();
        names.sort();
        let all = names.clone();
        let named_from = if random.one_in(3) { 1 + random.below(count as u64 - 1) as usize } else { count };
        names.truncate(named_from);
        names.extend(all.into_iter().take(count - named_from));
        let some = names[random.below(count as u64) as usize].clone();
        let half = some[..some.len() / 2].to_vec();
        let most = some[..some.len().saturating_sub(1)].to_vec();
        Self { names, named_from, prefixes: vec![Vec::new(), half, most, some] }
    }

    /// Whether there is a keyspace with a name.
    pub fn has_named(&self) -> bool {
        self.named_from < self.names.len()
    }

    pub fn is_named(&self, key: Key) -> bool {
        key >= self.named_from
    }

    /// The keys of the keyspace with a name.
    pub fn all_named(&self) -> std::ops::Range<Key> {
        self.named_from..self.names.len()
    }

    /// The number of ranges: each is a keyspace and a prefix.
    fn ranges(&self) -> u64 {
        (self.prefixes.len() << usize::from(self.has_named())) as u64
    }

    /// Whether a range is in the keyspace with a name, and its prefix.
    pub fn range(&self, range: usize) -> (bool, &[u8]) {
        (range >= self.prefixes.len(), &self.prefixes[range % self.prefixes.len()])
    }

    /// The ranges that are whole keyspaces.
    pub fn whole(&self) -> impl Iterator<Item = usize> {
        (0..self.ranges() as usize).step_by(self.prefixes.len())
    }

    /// The keys of a range.
    pub fn in_range(&self, range: usize) -> Vec<Key> {
        let (is_named, prefix) = self.range(range);
        let is_inside = |key: &Key| self.is_named(*key) == is_named && self.names[*key].starts_with(prefix);
        (0..self.names.len()).filter(is_inside).collect()
    }
}

/// The lengths of values.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    /// All of the same length.
    Equal,
    /// Up to one or two cache lines.
    Short,
    /// Any length up to 3000 bytes, including none.
    Any,
}

/// The parameters of a world's runs.
#[derive(Clone, Debug)]
pub struct Shape {
    pub threads: usize,
    pub keys: Keys,
    /// The number of operations of a history.
    steps: usize,
    /// A key that half of the operations use.
    hot: Option<Key>,
    lengths: Lengths,
    /// The percentage of each kind of step, in the order of `Shape::step`.
    weights: [u64; 17],
    /// Whether threads are stopped in the middle of operations.
    pub stalls: bool,
    /// Whether half of the puts are merges, with an operator that replaces the value.
    pub merges: bool,
    /// Whether that can join two operands.
    pub joins: bool,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (threads, steps, stalls) = (self.threads, self.steps, if self.stalls { ", stalls" } else { "" });
        let merges = if self.merges { ", merges" } else { "" };
        let hot = self.hot.map_or(String::new(), |key| format!(", k{key} is hot"));
        writeln!(
            f,
            "{threads} threads{stalls}{merges}, {steps} steps of kinds {:?}, values {:?}{hot}",
            self.weights, self.lengths
        )?;
        let names = self.keys.names.iter().enumerate();
        let place = |key| if self.keys.is_named(key) { " of the keyspace with a name" } else { "" };
        let mut names = names.map(|(key, name)| format!("k{key} = \"{}\"{}", name.escape_ascii(), place(key)));
        names.try_for_each(|name| writeln!(f, "  {name}"))
    }
}

/// What a thread does.
#[derive(Clone, Debug)]
pub enum Step {
    Put(Key, Value, usize),
    Delete(Key),
    /// A range delete of the keys of a range of `Keys`.
    DeletePrefix(usize),
    /// The same, and then puts, in one batch.
    Replace(usize, Vec<(Key, Value, usize)>),
    /// A put, or a delete if the value is absent.
    Batch(Vec<(Key, Value, usize)>),
    Update {
        key: Key,
        value: Value,
        length: usize,
        manner: Manner,
    },
    /// The new value may be absent.
    CompareAndSwap {
        key: Key,
        value: Value,
        length: usize,
        guess: Guess,
    },
    PutIfAbsent(Key, Value, usize),
    /// The actions, and whether the transaction commits.
    Transaction(Vec<Action>, bool),
    Get(Key),
    MultiGet(Vec<Key>),
    Snapshot,
    SnapshotGet(Key),
    SnapshotMultiGet(Vec<Key>),
    /// A scan of a range, forward or backward, of a held snapshot or of the current state.
    Scan {
        held: bool,
        range: usize,
        back: bool,
    },
    OpenIterator {
        range: usize,
        back: bool,
    },
    GoOn,
    DropSnapshot,
    /// The keyspace with a name is dropped. The next operation on it creates another one.
    DropKeyspace,
    /// It is emptied.
    ClearKeyspace,
    Flush,
    /// A barrier for all threads.
    Meet,
}

/// An action of a transaction.
#[derive(Clone, Debug)]
pub enum Action {
    Get(Key),
    Put(Key, Value, usize),
    Delete(Key),
    /// A range delete of the keys of a range.
    DeletePrefix(usize),
    /// A scan of a range, forward or backward.
    Scan(usize, bool),
    Save,
    /// Rolls back to one of the savepoints.
    RollBack(usize),
}

/// What an update does with the old value.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// Always puts the new value.
    Always,
    /// Deletes some values.
    Deletes,
    /// Deletes some values and leaves some unchanged.
    Keeps,
}

/// What a swap expects.
#[derive(Clone, Copy, Debug)]
pub enum Guess {
    Absent,
    /// The value that its thread last saw or wrote there.
    Known,
    /// The value that the thread reads just before.
    Fresh,
}

impl Shape {
    /// The shape of a world.
    pub fn draw(random: &mut Random) -> Self {
        let keys = Keys::draw(random);
        // The last six kinds are updates, swaps, puts of absent keys, transactions, range deletes and replacements.
        let weights = match random.below(12) {
            // Only operations of single keys, so each key is checked separately.
            0 => [40, 10, 0, 50, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            // Batches and plain gets.
            1 => [10, 5, 30, 50, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            // Snapshots over overwrites.
            2 => [35, 5, 10, 5, 2, 10, 15, 3, 8, 2, 5, 0, 0, 0, 0, 0, 0],
            // Scans during writes.
            3 => [30, 10, 10, 5, 2, 3, 3, 2, 15, 5, 15, 0, 0, 0, 0, 0, 0],
            // Updates of single keys with conflicting writes.
            4 => [15, 10, 0, 15, 0, 0, 0, 0, 0, 0, 0, 35, 15, 10, 0, 0, 0],
            // Updates, batches and snapshots.
            5 => [8, 8, 15, 8, 4, 4, 5, 2, 4, 2, 2, 20, 10, 8, 0, 0, 0],
            // Concurrent transactions, with single operations.
            6 => [10, 5, 5, 10, 0, 2, 3, 0, 3, 0, 0, 5, 3, 2, 50, 0, 0],
            7 => [20, 8, 10, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0],
            8 => [20, 8, 10, 15, 5, 5, 6, 2, 5, 3, 5, 8, 4, 4, 12, 0, 0],
            // Range deletes beside single writes and plain reads.
            9 => [30, 5, 5, 25, 5, 0, 0, 0, 0, 0, 0, 10, 0, 5, 0, 12, 8],
            // Range deletes and snapshots.
            10 => [25, 5, 5, 12, 3, 8, 10, 3, 8, 3, 5, 0, 0, 0, 0, 10, 8],
            _ => [15, 5, 5, 10, 3, 3, 5, 2, 5, 2, 3, 8, 4, 4, 15, 8, 6],
        };
        Self {
            threads: 2 + random.below(5) as usize,
            steps: 20 + random.below(41) as usize,
            hot: random.one_in(3).then(|| random.below(keys.names.len() as u64) as usize),
            lengths: [Lengths::Equal, Lengths::Short, Lengths::Any][random.below(3) as usize],
            weights,
            stalls: !random.one_in(4),
            merges: random.one_in(2),
            joins: random.one_in(2),
            keys,
        }
    }

    /// The steps of each thread for one history, with values from `next` on.
    pub fn plan(&self, random: &mut Random, next: &mut u32) -> Vec<Vec<Step>> {
        let each = self.steps.div_ceil(self.threads);
        let meet_every = 2 + random.below(each as u64) as usize;
        let flush = random.one_in(40);
        let mut threads = Vec::with_capacity(self.threads);
        for thread in 0..self.threads {
            let mut steps = Vec::with_capacity(each + each / meet_every + 1);
            for at in 0..each {
                if at % meet_every == 0 {
                    steps.push(Step::Meet);
                }
                steps.push(if flush && thread == 0 && at == each / 2 { Step::Flush } else { self.step(random, next) });
            }
            threads.push(steps);
        }
        threads
    }

    fn step(&self, random: &mut Random, next: &mut u32) -> Step {
        let mut left = random.below(self.weights.iter().sum());
        let kind = self.weights.iter().position(|weight| {
            let here = left < *weight;
            left = left.wrapping_sub(*weight);
            here
        });
        let (range, back) = (self.range(random), random.one_in(2));
        if self.keys.has_named() && random.one_in(20) {
            return if random.one_in(3) { Step::ClearKeyspace } else { Step::DropKeyspace };
        }
        match kind.unwrap_or(0) {
            0 => {
                let (value, length) = self.value(random, next);
                Step::Put(self.key(random), value, length)
            }
            1 => Step::Delete(self.key(random)),
            2 => Step::Batch(self.batch(random, next)),
            3 => Step::Get(self.key(random)),
            4 => Step::MultiGet(self.some_keys(random)),
            5 => Step::Snapshot,
            6 => Step::SnapshotGet(self.key(random)),
            7 => Step::SnapshotMultiGet(self.some_keys(random)),
            8 => Step::Scan { held: random.one_in(2), range, back },
            9 if random.one_in(2) => Step::DropSnapshot,
            9 => Step::OpenIterator { range, back },
            10 => Step::GoOn,
            11 => {
                let (value, length) = self.value(random, next);
                let manner = [Manner::Always, Manner::Deletes, Manner::Keeps][random.below(3) as usize];
                Step::Update { key: self.key(random), value, length, manner }
            }
            12 => {
                let (value, length) = if random.one_in(6) { (Value::ABSENT, 0) } else { self.value(random, next) };
                let guess = [Guess::Absent, Guess::Known, Guess::Known, Guess::Fresh][random.below(4) as usize];
                Step::CompareAndSwap { key: self.key(random), value, length, guess }
            }
            13 => {
                let (value, length) = self.value(random, next);
                Step::PutIfAbsent(self.key(random), value, length)
            }
            14 => {
                let actions = 1 + random.below(6);
                let actions = (0..actions).map(|_| self.action(random, next)).collect();
                Step::Transaction(actions, !random.one_in(8))
            }
            15 => Step::DeletePrefix(range),
            _ => {
                let mut puts = self.batch(random, next);
                puts.retain(|(_, value, _)| *value != Value::ABSENT);
                puts.truncate(random.below(3) as usize);
                Step::Replace(range, puts)
            }
        }
    }

    fn action(&self, random: &mut Random, next: &mut u32) -> Action {
        match random.below(20) {
            0..7 => Action::Get(self.key(random)),
            7..13 => {
                let (value, length) = self.value(random, next);
                Action::Put(self.key(random), value, length)
            }
            13 => Action::Delete(self.key(random)),
            14 if self.weights[15] > 0 => Action::DeletePrefix(self.range(random)),
            14 => Action::Delete(self.key(random)),
            15..18 => Action::Scan(self.range(random), random.one_in(2)),
            18 => Action::Save,
            _ => Action::RollBack(random.below(4) as usize),
        }
    }

    fn range(&self, random: &mut Random) -> usize {
        random.below(self.keys.ranges()) as usize
    }

    fn key(&self, random: &mut Random) -> Key {
        match self.hot {
            Some(hot) if random.one_in(2) => hot,
            _ => random.below(self.keys.names.len() as u64) as usize,
        }
    }

    /// Two keys or more, each once, in any order.
    fn some_keys(&self, random: &mut Random) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..self.keys.names.len()).collect();
        for at in 0..keys.len() {
            keys.swap(at, random.below(at as u64 + 1) as usize);
        }
        keys.truncate(2 + random.below(keys.len() as u64 - 1) as usize);
        keys
    }

    fn batch(&self, random: &mut Random, next: &mut u32) -> Vec<(Key, Value, usize)> {
        let keys = self.some_keys(random);
        let mut operation = |key| {
            let (value, length) = if random.one_in(6) { (Value::ABSENT, 0) } else { self.value(random, next) };
            (key, value, length)
        };
        keys.into_iter().map(&mut operation).collect()
    }

    fn value(&self, random: &mut Random, next: &mut u32) -> (Value, usize) {
        let length = match self.lengths {
            Lengths::Equal => 24,
            Lengths::Short => BYTES_MIN as u64 + random.below(120),
            Lengths::Any if random.one_in(8) => return (Value::EMPTY, 0),
            Lengths::Any => {
                let up_to = [64, 500, 3000][random.below(3) as usize];
                BYTES_MIN as u64 + random.below(up_to - BYTES_MIN as u64 + 1)
            }
        };
        *next += 1;
        (Value(*next), length as usize)
    }
}

//! Decides whether a history is linearizable: whether each operation can be given an instant between its call and its
//! return such that in the order of the instants every read sees the newest write before it (Herlihy and Wing). The
//! search is that of Wing and Gong; like Lowe's, it remembers the configurations that were dead ends.
//!
//! 1. Necessary conditions are checked first, since they name the fault: the values of a read were written, not after
//!    the read had returned, and one read does not see two values of a key.
//! 2. Keys that are not connected by a batch, a snapshot or another operation of several keys are checked separately: a
//!    history is linearizable if and only if it is linearizable for each group of keys (locality).
//! 3. A configuration is the number of operations of each thread that have taken place, and the state. The operations
//!    of a thread are ordered, so these numbers are the set of operations that have taken place.
//! 4. An operation can be next if no other operation that is still open had returned before it was called. A read that
//!    can be next and sees the state takes place at once: it changes nothing, so taking it later cannot help. Only
//!    writes are tried in different orders; a write that also reads is tried only if it sees the state.

use super::history::{History, Key, Operation, Seen, Value};
use std::collections::{HashMap, HashSet};

/// The largest number of keys and of threads of a history, so that a configuration is small and can be copied.
pub const KEYS_MAX: usize = 16;
/// See `KEYS_MAX`.
pub const THREADS_MAX: usize = 8;
/// The largest number of configurations of one group of keys: a million times what a history of a few threads needs.
const CONFIGURATIONS_MAX: usize = 4_000_000;

/// Why a history is not linearizable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub why: String,
}

/// Checks whether a history is linearizable.
pub fn check(history: &History) -> Result<(), Violation> {
    assert!(history.initial.len() <= KEYS_MAX && history.threads.len() <= THREADS_MAX);
    reads_agree(history)?;
    reads_were_written(history)?;
    for keys in groups(history) {
        Search::new(history, &keys).run()?;
    }
    Ok(())
}

/// A read takes place at one instant, so it sees one value of a key.
fn reads_agree(history: &History) -> Result<(), Violation> {
    for operation in history.operations() {
        let mut known: [Option<Seen>; KEYS_MAX] = [None; KEYS_MAX];
        for seen in &operation.effect.saw {
            let first = *known[seen.key].get_or_insert(*seen);
            if first.value != seen.value {
                return Err(Violation { why: format!("one {} sees two values of a key", operation.name) });
            }
        }
    }
    Ok(())
}

/// A value that is read is part of the initial state, or a write that was called before the read returned wrote it.
fn reads_were_written(history: &History) -> Result<(), Violation> {
    let mut written: HashMap<(Key, Value), u64> = HashMap::new();
    for operation in history.operations() {
        for pair in &operation.effect.wrote {
            let first = written.entry(*pair).or_insert(operation.call);
            *first = operation.call.min(*first);
        }
    }
    for operation in history.operations() {
        for seen in &operation.effect.saw {
            let why = match written.get(&(seen.key, seen.value)) {
                _ if history.initial[seen.key] == seen.value || seen.value == Value::PRESENT => continue,
                Some(call) if *call <= operation.ret => continue,
                Some(_) => "before it was written",
                None => "which nobody wrote",
            };
            return Err(Violation { why: format!("a {} sees a value {why}", operation.name) });
        }
    }
    Ok(())
}

/// The keys, in groups that no operation connects.
fn groups(history: &History) -> Vec<Vec<Key>> {
    let mut group: Vec<usize> = (0..history.initial.len()).collect();
    for operation in history.operations() {
        let keys: Vec<Key> = operation.effect.keys().collect();
        for pair in keys.windows(2) {
            let (from, to) = (group[pair[0]], group[pair[1]]);
            if from != to {
                group.iter_mut().filter(|group| **group == from).for_each(|group| *group = to);
            }
        }
    }
    let members = |of: usize| -> Vec<Key> { (0..group.len()).filter(|key| group[*key] == of).collect() };
    (0..group.len()).map(members).filter(|keys| !keys.is_empty()).collect()
}

/// Which operations have taken place, and the state after them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Configuration {
    done: [u16; THREADS_MAX],
    state: [Value; KEYS_MAX],
}

impl Configuration {
    fn operations_done(&self) -> usize {
        self.done.iter().map(|done| usize::from(*done)).sum()
    }

    /// Whether an operation saw the current state.
    fn sees(&self, operation: &Operation) -> bool {
        operation.effect.saw.iter().all(|seen| seen.fits(self.state[seen.key]))
    }
}

struct Search<'a> {
    threads: Vec<Vec<&'a Operation>>,
    start: Configuration,
    dead_ends: HashSet<Configuration>,
    furthest: Configuration,
}

impl<'a> Search<'a> {
    fn new(history: &'a History, keys: &[Key]) -> Self {
        let touches = |operation: &&Operation| operation.effect.keys().next().is_some_and(|key| keys.contains(&key));
        let threads = history.threads.iter().map(|thread| thread.iter().filter(touches).collect()).collect();
        let mut start = Configuration { done: [0; THREADS_MAX], state: [Value::ABSENT; KEYS_MAX] };
        start.state[..history.initial.len()].copy_from_slice(&history.initial);
        Self { threads, start, dead_ends: HashSet::new(), furthest: start }
    }

    fn run(mut self) -> Result<(), Violation> {
        if self.reaches_the_end(self.start) {
            return Ok(());
        }
        if self.dead_ends.len() >= CONFIGURATIONS_MAX {
            return Err(Violation { why: "undecided: too many orders; make the history shorter".into() });
        }
        let (done, all) = (self.furthest.operations_done(), self.threads.iter().map(Vec::len).sum::<usize>());
        Err(Violation { why: format!("in no order can more than {done} of {all} operations take place") })
    }

    /// The next operation of each thread.
    fn open(&self, at: &Configuration) -> impl Iterator<Item = (usize, &'a Operation)> {
        let next = |thread: usize| self.threads[thread].get(usize::from(at.done[thread])).copied();
        (0..self.threads.len()).filter_map(move |thread| next(thread).map(|operation| (thread, operation)))
    }

    /// The operations that can take place now.
    fn candidates(&self, at: &Configuration) -> Vec<(usize, &'a Operation)> {
        let first_return = self.open(at).map(|(_, operation)| operation.ret).min().unwrap_or(0);
        self.open(at).filter(|(_, operation)| operation.call <= first_return).collect()
    }

    fn reaches_the_end(&mut self, mut at: Configuration) -> bool {
        let candidates = loop {
            let candidates = self.candidates(&at);
            let only_reads =
                |(_, operation): &&(usize, &Operation)| operation.effect.wrote.is_empty() && at.sees(operation);
            let Some((thread, _)) = candidates.iter().find(only_reads) else { break candidates };
            at.done[*thread] += 1;
        };
        if candidates.is_empty() {
            return true;
        }
        if at.operations_done() > self.furthest.operations_done() {
            self.furthest = at;
        }
        if self.dead_ends.contains(&at) || self.dead_ends.len() >= CONFIGURATIONS_MAX {
            return false;
        }
        for (thread, operation) in candidates {
            if !operation.effect.wrote.is_empty() && at.sees(operation) {
                let mut after = at;
                after.done[thread] += 1;
                operation.effect.wrote.iter().for_each(|(key, value)| after.state[*key] = *value);
                if self.reaches_the_end(after) {
                    return true;
                }
            }
        }
        self.dead_ends.insert(at);
        false
    }
}

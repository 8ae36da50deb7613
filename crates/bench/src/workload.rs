//! Descriptions of workloads, without execution. `catalogue.rs` has the named ones.

use crate::choice::Choice;
use crate::engine::Direction;
use crate::keys::Order;
use serde::{Deserialize, Serialize};

/// A workload: what is done to a store, whatever the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name in results.
    pub name: String,
    /// What it does.
    pub job: Job,
}

/// The kinds of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Loads every key once into a new store.
    Fill {
        /// How key numbers map to key order.
        order: Order,
        /// The order of the numbers.
        arrival: Arrival,
    },
    /// Operations on loaded keys, chosen by weight.
    Mix(Mix),
    /// Every thread scans all pairs; an operation is a pair.
    FullScan(Direction),
    /// Waits until the engine has finished its work for quiet times: one operation.
    Rest,
    /// The store is opened as it is when its process dies: from a copy of its files that is made while it is open. The one
    /// operation is to open it and to get a key. What follows uses the opened store.
    Recovery,
}

/// The order in which a fill puts its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrival {
    /// 0, 1, 2 and so on; threads take chunks in turn.
    #[default]
    Ascending,
    /// A permutation of them.
    Shuffled,
}

/// Weights of operations, relative to their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Gets of loaded keys.
    pub read: u32,
    /// Gets of keys that were never loaded.
    pub miss: u32,
    /// Puts of loaded keys.
    pub overwrite: u32,
    /// Puts of new keys.
    pub insert: u32,
    /// Deletes of loaded keys, which may be absent already.
    pub delete: u32,
    /// Seeks to a loaded key and reads pairs from there.
    pub scan: u32,
    /// Read-modify-writes of loaded keys.
    pub modify: u32,
    /// Puts, if absent, of new keys: each is put.
    pub if_absent_new: u32,
    /// Puts, if absent, of loaded keys: none is put.
    pub if_absent_old: u32,
    /// Additions of 1 to loaded keys, whose values are counters.
    pub increment: u32,
    /// Pairs of a scan, chosen uniformly between both bounds, inclusive.
    pub scan_pairs: (u64, u64),
    /// The key distribution.
    pub choice: Option<Choice>,
    /// The distribution of the keys that are overwritten; `None`: `choice`.
    pub overwrite_choice: Option<Choice>,
    /// The numbers of the loaded keys are divided into this many ranges of equal size, and each thread uses one; 0: all
    /// threads use all.
    pub ranges: u64,
    /// What the background thread does, until the others are done.
    pub beside: Option<Beside>,
}

/// Work of a thread that is counted separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beside {
    /// Overwrites keys, uniformly chosen; an operation is a put.
    Writer,
    /// Scans the whole store repeatedly; an operation is a pair. Finishes the current scan.
    Scanner,
}

impl Mix {
    /// The sum of the weights.
    pub fn weights(&self) -> u32 {
        let puts = self.overwrite + self.insert + self.delete;
        let modifies = self.modify + self.if_absent_new + self.if_absent_old + self.increment;
        self.read + self.miss + self.scan + puts + modifies
    }

    /// Whether it inserts new keys.
    pub fn grows(&self) -> bool {
        self.insert + self.if_absent_new > 0
    }

    /// Whether it writes and keeps every existing key: then the live bytes are known at every moment.
    pub fn rewrites(&self) -> bool {
        let writes = self.overwrite + self.modify + self.increment > 0 || self.grows();
        (writes || self.beside == Some(Beside::Writer)) && self.delete == 0
    }
}

impl Workload {
    /// Whether it starts with a new store.
    pub fn fills(&self) -> bool {
        matches!(self.job, Job::Fill { .. })
    }
}

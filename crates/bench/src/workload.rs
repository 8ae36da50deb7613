//! What a benchmark does: descriptions, no execution. `catalogue.rs` has those with names.

use crate::choice::Choice;
use crate::engine::Direction;
use crate::keys::Order;
use serde::{Deserialize, Serialize};

/// A workload: what is done to a store, whatever the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// What it is called in results.
    pub name: String,
    /// What it does.
    pub job: Job,
}

/// The kinds of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Job {
    /// Loads every key once into a fresh store.
    Fill {
        /// How their numbers lie in key order.
        order: Order,
        /// In which order the numbers come.
        arrival: Arrival,
    },
    /// Operations on loaded keys, drawn by weight.
    Mix(Mix),
    /// Every thread walks over all pairs; an operation is a pair.
    Walk(Direction),
}

/// The order in which a fill takes the numbers of its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arrival {
    /// 0, 1, 2 and so on; threads take chunks in turn.
    #[default]
    Ascending,
    /// A permutation of them.
    Shuffled,
}

/// Weights of operations; their sum is what a weight is part of.
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
    /// Deletes of loaded keys, which may be gone.
    pub delete: u32,
    /// Seeks to a loaded key and pairs from there.
    pub scan: u32,
    /// Read-modify-writes of loaded keys.
    pub modify: u32,
    /// Puts, if absent, of new keys: each is put.
    pub if_absent_new: u32,
    /// Puts, if absent, of loaded keys: none is put.
    pub if_absent_old: u32,
    /// Additions of 1 to loaded keys, whose values are counters.
    pub increment: u32,
    /// Pairs of a scan, drawn evenly between both, which are included.
    pub scan_pairs: (u64, u64),
    /// Which keys.
    pub choice: Option<Choice>,
    /// The numbers of the loaded keys fall into so many ranges of one size, and each thread keeps to one; 0: all have all.
    pub ranges: u64,
    /// What one thread more does as fast as it can, until the others are done.
    pub beside: Option<Beside>,
}

/// Work of a thread that is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Beside {
    /// Overwrites keys, uniformly; an operation is a put.
    Writer,
    /// Walks over the whole store, again and again; an operation is a pair. The walk under way is finished.
    Scanner,
}

impl Mix {
    /// The sum of the weights.
    pub fn weights(&self) -> u32 {
        let puts = self.overwrite + self.insert + self.delete;
        let modifies = self.modify + self.if_absent_new + self.if_absent_old + self.increment;
        self.read + self.miss + self.scan + puts + modifies
    }

    /// Whether it makes new keys.
    pub fn grows(&self) -> bool {
        self.insert + self.if_absent_new > 0
    }

    /// Whether it writes, and leaves every key that was there: then the live bytes are known at every moment.
    pub fn rewrites(&self) -> bool {
        let writes = self.overwrite + self.modify + self.increment > 0 || self.grows();
        (writes || self.beside == Some(Beside::Writer)) && self.delete == 0
    }
}

impl Workload {
    /// Whether it starts with a fresh store.
    pub fn fills(&self) -> bool {
        matches!(self.job, Job::Fill { .. })
    }
}

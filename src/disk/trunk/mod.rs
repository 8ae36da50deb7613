//! The STBε-tree (SplinterDB §2 to §4): trunk nodes that refer to branches, flush-then-compact, splits by reference.
//!
//! Who calls what: readers use a `Tree`, which is immutable, from any thread without locks. Background threads call
//! `Trunk::incorporate`, `pick` and `run`, which do the I/O without a lock. Whoever holds the store's edit mutex calls
//! `Trunk::apply`, logs the edit, publishes the tree and calls `Applied::finish` (`docs/concurrency.md`, T1 and T2).
//!
//! Invariants:
//! 1. For every key, what is active in a node is newer than anything below, a newer bundle's branches are newer than an
//!    older one's, and branches of one bundle stand in age order. So a get may stop at its first hit.
//! 2. Nodes' ranges tile the keys at every height. All versions of a key are in one node of each height.
//! 3. A branch file is in the manifest if and only if some node of the newest tree refers to it.

mod apply;
mod approximate;
mod bundle;
mod claims;
mod compact;
mod cover;
mod cursor;
mod density;
mod draft;
mod garbage;
mod hollow;
mod job;
mod join;
mod judge;
mod kept;
mod node;
mod open;
mod options;
mod parts;
mod policy;
mod redundancy;
mod reshape;
mod run;
mod run_cursor;
mod scans;
mod slot;
mod split_keys;
mod squeeze;
mod starved;
mod statistics;
#[cfg(test)]
mod tests;
mod tree;
#[allow(clippy::module_inception)]
mod trunk;
mod verify;
mod watch;
mod written_since;

pub use apply::Applied;
pub use compact::FromMemory;
pub use job::{Job, JobKind, JobScope, Outcome};
pub use options::TrunkOptions;
pub use parts::OutputWriter;
pub use reshape::RequestedRange;
pub use slot::Load;
pub use statistics::{Figures, LevelFigures, Written};
#[cfg(test)]
pub use tests::unsound;
pub use tree::Tree;
pub use trunk::Trunk;
pub use verify::{branches, check_nodes, check_structure, check_tree, maplets};
pub use watch::Progress;

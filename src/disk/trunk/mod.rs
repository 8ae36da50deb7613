//! The STBε-tree (SplinterDB §2 to §4): trunk nodes that refer to branches, flush-then-compact, splits by reference.
//!
//! Threads: readers use a `Tree`, which is immutable, from any thread without locks. Background threads call
//! `Trunk::incorporate`, the `pick` functions and `run`, which do the I/O without a lock. A thread that holds the
//! store's edit mutex calls `Trunk::apply`, logs the edit, publishes the tree and calls `Applied::finish`
//! (`docs/concurrency.md`, T1 and T2).
//!
//! Modules, each of which uses only those before it: `tree` is the data, `read` reads it, `plan` chooses work, `jobs`
//! does it, `apply` turns the outcome into a new tree.
//!
//! Invariants:
//! 1. For every key, what is active in a node is newer than anything below, the branches of a newer bundle are newer
//!    than those of an older one, and the branches of one bundle are in age order. So a get may stop at its first hit.
//! 2. The ranges of the nodes tile the keys at every height. All versions of a key are in one node of each height.
//! 3. A branch file is in the manifest if and only if some node of the newest tree refers to it.

mod apply;
mod jobs;
mod options;
mod plan;
mod quiet_credit;
mod read;
#[cfg(test)]
mod tests;
mod tree;
#[allow(clippy::module_inception)]
mod trunk;

pub use apply::applied::Applied;
pub use jobs::change::Outcome;
pub use jobs::job::Job;
pub use options::TrunkOptions;
pub use read::verify::{check_nodes, check_structure, check_tree};
#[cfg(test)]
pub use tests::inconsistent;
pub use tree::tree::Tree;
pub use trunk::Trunk;

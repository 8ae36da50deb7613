//! The tree as data: immutable nodes, what is computed when a node is made, and reading a tree from the manifest.

pub mod bundle;
pub mod draft;
pub mod empty_overlaps;
pub mod maplet_index;
pub mod merge_range;
pub mod neighbours;
pub mod newer_data;
pub mod node;
pub mod open;
pub mod overwrite_ratio;
mod reuse_savings;
pub mod scan_cost;
pub mod slot;
#[allow(clippy::module_inception)]
pub mod tree;

//! What a job works on, for statistics. Plain data; any thread.

use crate::disk::runs::load::Load;
use crate::disk::runs::run::Key;
use crate::format::manifest_edit::NodeId;

/// The kind of work that a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Moves references from a node to a child, or from a level to another.
    Flush,
    /// Merges bundles, or runs of levels, into one run.
    Merge,
    /// Samples a leaf, and then splits it, rewrites it, or leaves it.
    SampleLeaf,
    /// Splits a leaf by reference.
    Split,
    /// Builds a maplet.
    BuildMaplet,
    /// Rewrites a file without its dead part.
    RewriteLive,
    /// Joins neighbouring nodes into one.
    Join,
}

/// What a job works on.
#[derive(Clone, Debug)]
pub struct JobScope {
    /// The kind of work.
    pub kind: JobKind,
    /// The node of a trunk.
    pub node: Option<NodeId>,
    /// The node's distance from the leaves, or the distance of a level from the deepest one.
    pub height: u32,
    /// The smallest key of the node's range, encoded.
    pub lower: Key,
    /// The first key past the range; `None` at the right edge.
    pub upper: Option<Key>,
    /// The data to be read.
    pub load: Load,
}

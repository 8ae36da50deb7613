//! What a picker may choose. Plain data; any thread.

use super::rewrite_live::RewriteLive;
use crate::disk::trunk::tree::node::Node;
use crate::util::sync::Arc;
use std::ops::Range;

/// Work that a picker has chosen.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Move what is active for the child at the index to that child.
    Flush(Arc<Node>, usize),
    /// Sample the leaf's data, then split the leaf, rewrite it whole, or leave it.
    SampleLeaf(Arc<Node>),
    /// Merge these bundles into one run.
    Merge(Arc<Node>, Range<usize>),
    /// Build a maplet of what is active at the slot.
    BuildMaplet(Arc<Node>, usize),
    /// Rewrite a file without its dead part.
    RewriteLive(RewriteLive),
    /// Split the leaf by reference, although it is not too large: its parts need less space to merge.
    Split(Arc<Node>),
    /// Join these children of a node into one.
    Join(Arc<Node>, Range<usize>),
}

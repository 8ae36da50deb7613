//! Checks that an edit fits a state, before it is applied. Pure. The cost is that of the edit, plus one pass over all
//! nodes if something is dropped.

use super::ManifestState;
use crate::filter::maplet::{COLUMNS_MAX, PAGES_MAX};
use crate::format::manifest_edit::{BranchMeta, LogRecovered, ManifestEdit, MapletMeta, NodeId, NodeImage};
use crate::util::{FileNumber, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

pub(super) type Checked = Result<(), String>;

/// Sizes of the tree's branches that no budget exceeds.
const BRANCH_BYTES: RangeInclusive<u64> = 4096..=1 << 44;

/// Fails with a message unless the condition holds.
macro_rules! require {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}
pub(super) use require;

/// A state with an edit on top.
struct Overlay<'a> {
    state: &'a ManifestState,
    branches_added: BTreeSet<FileNumber>,
    branches_dropped: BTreeSet<FileNumber>,
    nodes: BTreeMap<NodeId, &'a NodeImage>,
    nodes_dropped: BTreeSet<NodeId>,
}

impl ManifestState {
    /// Checks that `edit` fits this state. The error says what is wrong.
    pub(super) fn validate(&self, edit: &ManifestEdit) -> Checked {
        let overlay = Overlay::new(self, edit)?;
        for node in &edit.nodes {
            overlay.node_fits(node)?;
        }
        overlay.nothing_dropped_is_in_use()?;
        self.levels_fit(edit)?;
        self.runs_fit(edit)?;
        self.buffered_fit(edit)?;
        if let Some(root) = edit.root.or(self.root) {
            require!(overlay.node(root).is_some(), "root {} does not exist", root.0);
        }
        self.geometry_fits(edit)?;
        self.maplets_fit(edit)?;
        self.log_fits(edit)?;
        self.log_segments_fit(edit)?;
        self.keyspaces_fit(edit)
    }

    fn geometry_fits(&self, edit: &ManifestEdit) -> Checked {
        if let Some(bytes) = edit.branch_bytes {
            require!(BRANCH_BYTES.contains(&bytes), "branches of {bytes} bytes, not of {BRANCH_BYTES:?}");
            let known = self.branch_bytes.unwrap_or(bytes);
            require!(bytes == known, "the size of branches changes from {known} to {bytes}");
        }
        let (known, bytes) = (self.user_bytes, edit.user_bytes.unwrap_or(self.user_bytes));
        require!(bytes >= known, "what users have written shrinks from {known} to {bytes} bytes");
        Ok(())
    }

    fn log_fits(&self, edit: &ManifestEdit) -> Checked {
        if let Some(incorporated) = edit.incorporated {
            require!(incorporated >= self.incorporated, "incorporated goes back to {incorporated}");
            require!(incorporated <= SequenceNumber::MAX, "incorporated {incorporated} is not a valid sequence number");
        }
        if let Some(synced) = edit.log_synced {
            require!(
                synced <= SequenceNumber::MAX,
                "log synced through {synced}, which is not a valid sequence number"
            );
        }
        if let Some(ingested) = edit.ingested {
            require!(ingested <= SequenceNumber::MAX, "an ingest of {ingested}, which is not a valid sequence number");
        }
        if let Some(from) = edit.log_epochs_from {
            require!(from >= self.log_epochs_from, "log epochs go back to {from}");
        }
        let mut last = self.recovered.last();
        for recovered in edit.log_recovered_earlier.iter().chain(&edit.log_recovered) {
            check_recovery(recovered, last)?;
            last = Some(recovered);
        }
        Ok(())
    }

    /// Checks maplets. Their branches are checked where the maplet is used, because they may no longer exist.
    fn maplets_fit(&self, edit: &ManifestEdit) -> Checked {
        let mut added = BTreeSet::new();
        for maplet in &edit.maplets_added {
            check_maplet(maplet)?;
            let new = !self.maplets.contains_key(&maplet.file) && added.insert(maplet.file);
            require!(new, "maplet {} already exists", maplet.file);
        }
        let mut dropped = BTreeSet::new();
        for file in &edit.maplets_dropped {
            let known = self.maplets.contains_key(file) && dropped.insert(*file);
            require!(known, "dropped maplet {file} does not exist");
        }
        Ok(())
    }

    fn log_segments_fit(&self, edit: &ManifestEdit) -> Checked {
        let mut segments = self.log_segments.clone();
        for segment in &edit.log_segments_added {
            require!(segment.0 < u64::MAX, "log segment {segment} is not a valid file number");
            require!(segments.insert(*segment), "log segment {segment} already exists");
        }
        for segment in &edit.log_segments_dropped {
            require!(segments.remove(segment), "dropped log segment {segment} does not exist");
        }
        Ok(())
    }

    fn keyspaces_fit(&self, edit: &ManifestEdit) -> Checked {
        let mut names: BTreeMap<u32, &str> =
            self.keyspaces.iter().map(|known| (known.id.0, known.name.as_str())).collect();
        for keyspace in &edit.keyspaces {
            names.insert(keyspace.id.0, &keyspace.name);
        }
        let distinct: BTreeSet<&str> = names.values().copied().collect();
        require!(distinct.len() == names.len(), "two keyspaces have the same name");
        Ok(())
    }
}

impl<'a> Overlay<'a> {
    fn new(state: &'a ManifestState, edit: &'a ManifestEdit) -> Result<Self, String> {
        let mut overlay = Self {
            state,
            branches_added: BTreeSet::new(),
            branches_dropped: BTreeSet::new(),
            nodes: BTreeMap::new(),
            nodes_dropped: BTreeSet::new(),
        };
        for branch in &edit.branches_added {
            check_branch(branch)?;
            let new = !state.branches.contains_key(&branch.file) && overlay.branches_added.insert(branch.file);
            require!(new, "branch {} already exists", branch.file);
        }
        for file in &edit.branches_dropped {
            let known = state.branches.contains_key(file) && overlay.branches_dropped.insert(*file);
            require!(known, "dropped branch {file} does not exist");
        }
        for node in &edit.nodes {
            check_node(node)?;
            require!(overlay.nodes.insert(node.id, node).is_none(), "node {} occurs twice", node.id.0);
        }
        for node in &edit.nodes_dropped {
            let known = state.nodes.contains_key(node) && overlay.nodes_dropped.insert(*node);
            require!(known, "dropped node {} does not exist", node.0);
            require!(!overlay.nodes.contains_key(node), "node {} is both written and dropped", node.0);
        }
        Ok(overlay)
    }

    fn node(&self, id: NodeId) -> Option<&'a NodeImage> {
        if self.nodes_dropped.contains(&id) {
            return None;
        }
        self.nodes.get(&id).copied().or_else(|| self.state.nodes.get(&id))
    }

    fn has_branch(&self, file: FileNumber) -> bool {
        let known = self.state.branches.contains_key(&file) && !self.branches_dropped.contains(&file);
        known || self.branches_added.contains(&file)
    }

    /// Checks that what `node` refers to exists and that its children fill its range.
    fn node_fits(&self, node: &NodeImage) -> Checked {
        for file in node.bundles.iter().flat_map(|bundle| &bundle.branches) {
            require!(self.has_branch(*file), "node {} refers to branch {file}, which does not exist", node.id.0);
        }
        for at in 0..node.pivots.len() {
            let child = node.pivots[at].child;
            let Some(child) = self.node(child) else {
                return Err(format!("node {} refers to child {}, which does not exist", node.id.0, child.0));
            };
            check_child(node, at, child)?;
        }
        Ok(())
    }

    /// Checks the nodes outside the edit. `node_fits` has checked those of the edit.
    fn nothing_dropped_is_in_use(&self) -> Checked {
        if self.branches_dropped.is_empty() && self.nodes_dropped.is_empty() {
            return Ok(());
        }
        let written = |id| self.nodes.contains_key(id) || self.nodes_dropped.contains(id);
        for (id, node) in self.state.nodes.iter().filter(|(id, _)| !written(*id)) {
            for file in node.bundles.iter().flat_map(|bundle| &bundle.branches) {
                require!(!self.branches_dropped.contains(file), "branch {file} is dropped but in node {}", id.0);
            }
            for child in node.pivots.iter().map(|pivot| pivot.child) {
                require!(!self.nodes_dropped.contains(&child), "node {} is dropped but under {}", child.0, id.0);
            }
        }
        Ok(())
    }
}

/// Checks a branch by itself.
pub(super) fn check_branch(branch: &BranchMeta) -> Checked {
    let file = branch.file;
    require!(file.0 < u64::MAX, "branch {file} is not a valid file number");
    require!(branch.key_min <= branch.key_max, "branch {file} has its keys in the wrong order");
    let open = !branch.open_ended || branch.range_tombstones > 0 && branch.key_min < branch.key_max;
    require!(open, "branch {file} is open-ended and has no range tombstone");
    require!(branch.number_min <= branch.number_max, "branch {file} has its numbers in the wrong order");
    require!(branch.tombstones <= branch.entries, "branch {file} has more tombstones than entries");
    require!(branch.distinct_keys <= branch.entries, "branch {file} has more keys than entries");
    let ascending = branch.value_files.is_sorted_by(|left, right| left < right);
    require!(ascending, "branch {file} has its value files in the wrong order");
    Ok(())
}

/// Checks a maplet by itself.
pub(super) fn check_maplet(maplet: &MapletMeta) -> Checked {
    let file = maplet.file;
    require!(file.0 < u64::MAX, "maplet {file} is not a valid file number");
    let pages = (1..=PAGES_MAX).contains(&u64::from(maplet.pages));
    require!(pages, "maplet {file} has {} pages", maplet.pages);
    let range = maplet.upper.as_ref().is_none_or(|upper| maplet.lower < *upper);
    require!(range, "maplet {file} has an empty range");
    require!(maplet.columns.len() <= COLUMNS_MAX, "maplet {file} has {} columns", maplet.columns.len());
    Ok(())
}

/// Checks a node by itself.
pub(super) fn check_node(node: &NodeImage) -> Checked {
    let id = node.id.0;
    require!(id < u64::MAX, "node {id} is not a valid node number");
    let range = node.upper.as_ref().is_none_or(|upper| node.lower < *upper);
    require!(range, "node {id} has an empty range");
    require!(node.pivots.is_empty() == (node.height == 0), "node {id} has no children, or is a leaf with children");
    if let (Some(first), Some(last)) = (node.pivots.first(), node.pivots.last()) {
        require!(first.lower == node.lower, "the first pivot of node {id} is not its lower bound");
        let inside = node.upper.as_ref().is_none_or(|upper| last.lower < *upper);
        require!(inside, "the last pivot of node {id} exceeds its range");
    }
    let ascending = node.pivots.is_sorted_by(|left, right| left.lower < right.lower);
    require!(ascending, "the pivots of node {id} are in the wrong order");
    for pivot in &node.pivots {
        let active = pivot.first_active as usize <= node.bundles.len();
        require!(active, "node {id} has a pivot with first active bundle {}", pivot.first_active);
    }
    let slots = node.pivots.len().max(1);
    let one_each = node.shares.is_empty() || node.shares.len() == slots;
    require!(one_each, "node {id} has shares of branches for {} ranges, and {slots} ranges", node.shares.len());
    for bundle in &node.bundles {
        require!(bundle.id.0 < u64::MAX, "node {id} has a bundle with an invalid number");
    }
    Ok(())
}

/// Checks that `child` is as the pivot at `at` of `node` says.
pub(super) fn check_child(node: &NodeImage, at: usize, child: &NodeImage) -> Checked {
    let upper = node.pivots.get(at + 1).map(|next| &next.lower).or(node.upper.as_ref());
    let fits = child.lower == node.pivots[at].lower && child.upper.as_ref() == upper;
    require!(fits, "node {} does not fill its place in node {}", child.id.0, node.id.0);
    let height = child.height.checked_add(1) == Some(node.height);
    require!(height, "node {} of height {} is under node {}", child.id.0, child.height, node.id.0);
    Ok(())
}

/// Checks that a recovery can follow `last`.
fn check_recovery(recovered: &LogRecovered, last: Option<&LogRecovered>) -> Checked {
    let epoch = recovered.epoch;
    if let Some(last) = last {
        require!(epoch > last.epoch, "log epoch {epoch} is recovered after {}", last.epoch);
        require!(recovered.next_number >= last.next_number, "log epoch {epoch} reuses numbers");
    }
    require!(recovered.next_number > recovered.cut, "log epoch {epoch} takes numbers below its cut");
    require!(recovered.next_number <= SequenceNumber::MAX, "log epoch {epoch} ends above all numbers");
    let mut free = SequenceNumber::ZERO;
    for (first, end) in &recovered.skipped {
        let ordered = free <= *first && first <= end && *end <= recovered.cut;
        require!(ordered, "log epoch {epoch} skips {first} to {end}, out of order or above its cut");
        free = end.next();
    }
    Ok(())
}

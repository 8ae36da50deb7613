//! Drafts: trunk nodes while they are made. One thread.
//!
//! `finish` drops branches that are active for no child (SplinterDB §2.3), computes the slots, and asserts the
//! invariants of the node.

use super::bundle::Bundle;
use super::empty_overlaps::EmptyOverlaps;
use super::merge_range;
use super::newer_data;
use super::node::{Node, Pivot, Totals};
use super::overwrite_ratio::OverwriteRatio;
use super::scan_cost::ScanCost;
use super::slot::Slot;
use crate::branch::{Branch, Maplet};
use crate::disk::runs::load::Load;
use crate::disk::runs::run::{self, Key};
use crate::disk::trunk::options::TrunkOptions;
use crate::format::manifest_edit::{NodeId, ShareImage};
use crate::util::FileNumber;
use crate::util::key::head;
use crate::util::sync::Arc;
use std::collections::BTreeMap;
use std::ops::Range;

/// See the module.
pub struct Draft {
    pub id: NodeId,
    pub height: u32,
    pub lower: Key,
    pub upper: Option<Key>,
    pub pivots: Vec<Pivot>,
    pub bundles: Vec<Arc<Bundle>>,
    /// For each pivot, or for the leaf, the former slot of the same range, if there is one.
    known: Vec<Option<Arc<Slot>>>,
    /// See `Node::scans`.
    scans: u64,
    /// See `Node::overwrite_ratio`; of a leaf.
    overwrite_ratio: OverwriteRatio,
    /// For each of them the maplets that may serve it. `finish` drops those that do not.
    pub maplets: Vec<Vec<Arc<Maplet>>>,
}

impl Draft {
    /// A leaf without bundles.
    pub fn leaf(id: NodeId, lower: Key, upper: Option<Key>) -> Self {
        Self::new(id, 0, (lower, upper), Vec::new(), Vec::new())
    }

    /// A draft of a node whose slots are not computed yet.
    pub fn new(
        id: NodeId,
        height: u32,
        bounds: (Key, Option<Key>),
        pivots: Vec<Pivot>,
        bundles: Vec<Arc<Bundle>>,
    ) -> Self {
        let slots = pivots.len().max(1);
        let (known, maplets) = (vec![None; slots], vec![Vec::new(); slots]);
        Self {
            id,
            height,
            lower: bounds.0,
            upper: bounds.1,
            pivots,
            bundles,
            known,
            maplets,
            scans: 0,
            overwrite_ratio: OverwriteRatio::default(),
        }
    }

    /// Adds the shares that the manifest stored of its slots: one list for each, or none at all.
    pub fn with_stored_shares(mut self, shares: &[Vec<ShareImage>]) -> Self {
        for (known, shares) in self.known.iter_mut().zip(shares) {
            *known = Some(Slot::stored(shares));
        }
        self
    }

    /// Adds maplets that may serve it.
    pub fn with_maplets(mut self, maplets: &[Arc<Maplet>]) -> Self {
        self.maplets.iter_mut().for_each(|offered| offered.extend_from_slice(maplets));
        self
    }

    /// A copy of a node, to be changed.
    pub fn of(node: &Node) -> Self {
        Self {
            id: node.id,
            height: node.height,
            lower: Arc::clone(&node.lower),
            upper: node.upper.clone(),
            pivots: node.pivots.clone(),
            bundles: node.bundles.clone(),
            known: node.slots.iter().map(|slot| Some(Arc::clone(slot))).collect(),
            scans: node.scans.units(),
            overwrite_ratio: node.overwrite_ratio,
            maplets: node.slots.iter().map(|slot| slot.maplet_index.maplets().cloned().collect()).collect(),
        }
    }

    /// Replaces the child at `at` with `children`, which tile its range.
    pub fn replace_child(&mut self, at: usize, children: Vec<Arc<Node>>) {
        let first_active = self.pivots[at].first_active;
        let known = if children.len() == 1 { self.known[at].take() } else { None };
        let mut slots = vec![None; children.len()];
        slots[0] = known;
        self.known.splice(at..=at, slots);
        let maplets = vec![self.maplets[at].clone(); children.len()];
        self.maplets.splice(at..=at, maplets);
        let pivot = |child: Arc<Node>| Pivot { lower: Arc::clone(&child.lower), child, first_active };
        self.pivots.splice(at..=at, children.into_iter().map(pivot));
    }

    /// Replaces the children `range` with `nodes`, which tile the same range and for which the bundles from
    /// `first_active` on are active.
    pub fn join_children(&mut self, range: Range<usize>, nodes: Vec<Arc<Node>>, first_active: usize) {
        let mut shares: BTreeMap<FileNumber, u64> = BTreeMap::new();
        for share in self.known[range.clone()].iter().flatten().flat_map(|slot| &slot.shares) {
            *shares.entry(share.branch).or_default() += share.bytes;
        }
        let shares: Vec<_> = shares.into_iter().map(|(branch, bytes)| ShareImage { branch, bytes }).collect();
        // What a file has in the joined range is the sum of what it has in the former ranges.
        let known = (nodes.len() == 1).then(|| Slot::stored(&shares));
        self.known.splice(range.clone(), vec![known; nodes.len()]);
        let maplets: Vec<_> = self.maplets[range.clone()].concat();
        self.maplets.splice(range.clone(), vec![maplets; nodes.len()]);
        let pivot = |child: Arc<Node>| Pivot { lower: Arc::clone(&child.lower), child, first_active };
        self.pivots.splice(range, nodes.into_iter().map(pivot));
    }

    /// Appends the pivots of the next node. At least one of the two has no bundles; the bundles of the other are not
    /// active for its pivots.
    pub fn append(&mut self, next: Draft) {
        debug_assert!(self.upper.as_ref() == Some(&next.lower) && (self.bundles.is_empty() || next.bundles.is_empty()));
        let bundles = self.bundles.len().max(next.bundles.len());
        if self.bundles.is_empty() {
            self.pivots.iter_mut().for_each(|pivot| pivot.first_active = bundles);
            self.bundles = next.bundles;
            self.pivots.extend(next.pivots);
        } else {
            let inactive = |pivot: Pivot| Pivot { first_active: bundles, ..pivot };
            self.pivots.extend(next.pivots.into_iter().map(inactive));
        }
        self.upper = next.upper;
        self.known.extend(next.known);
        self.maplets.extend(next.maplets);
    }

    /// Replaces the bundles `from..to` with `bundle`. The new bundle has for a pivot what was active of them for it, so
    /// it is active exactly for the pivots for which one of them was.
    /// They had `bytes` active at this node.
    pub fn replace_bundles(&mut self, from: usize, to: usize, bundle: Arc<Bundle>, bytes: u64) {
        let is_whole = to - from == self.bundles.len();
        self.scans = if is_whole { 0 } else { ScanCost::after_merge(self.scans, bytes) };
        self.bundles.splice(from..to, [bundle]);
        for pivot in &mut self.pivots {
            if pivot.first_active >= to {
                pivot.first_active -= to - from - 1;
            } else if pivot.first_active > from {
                pivot.first_active = from;
            }
        }
    }

    /// Sets the ratio that a merge of the whole leaf has measured.
    pub fn note_overwrite_ratio(&mut self, measured: OverwriteRatio) {
        self.overwrite_ratio = self.overwrite_ratio.and(measured);
    }

    /// Splits it at `keys`, which are in order, lie inside its range and, for an internal node, on pivots. The first
    /// part keeps the id. Every part refers to all bundles (SplinterDB §4); `finish` drops those that it does not need.
    pub fn split(self, keys: &[Key], mut new_id: impl FnMut() -> NodeId) -> Vec<Draft> {
        let mut parts = Vec::with_capacity(keys.len() + 1);
        for at in 0..=keys.len() {
            let lower = if at == 0 { &self.lower } else { &keys[at - 1] };
            let upper = keys.get(at).or(self.upper.as_ref());
            debug_assert!(upper.is_none_or(|upper| **lower < **upper));
            let own = |key: &Key| **key >= **lower && upper.is_none_or(|upper| **key < **upper);
            let own: Vec<usize> = (0..self.pivots.len()).filter(|at| own(&self.pivots[*at].lower)).collect();
            let pivots = own.iter().map(|at| self.pivots[*at].clone()).collect();
            let (known, maplets) = if self.pivots.is_empty() {
                (vec![None], self.maplets.clone())
            } else {
                own.iter().map(|at| (self.known[*at].clone(), self.maplets[*at].clone())).unzip()
            };
            parts.push(Draft {
                id: if at == 0 { self.id } else { new_id() },
                height: self.height,
                lower: Arc::clone(lower),
                upper: upper.cloned(),
                pivots,
                bundles: self.bundles.clone(),
                known,
                scans: self.scans / (keys.len() as u64 + 1),
                overwrite_ratio: self.overwrite_ratio,
                maplets,
            });
        }
        parts
    }

    /// Drops the branches of a leaf that have no key in its range.
    pub fn drop_empty_overlaps(&mut self, empty: &EmptyOverlaps) {
        let keep =
            |bundle: &Arc<Bundle>| bundle.branches.iter().filter(|branch| !empty.contains(branch)).cloned().collect();
        let bundles = self.bundles.iter().map(|bundle| (bundle.id, keep(bundle)));
        let bundles = bundles.filter(|(_, branches): &(_, Vec<_>)| !branches.is_empty());
        self.bundles = bundles.map(|(id, branches)| Bundle::new(id, branches)).collect();
    }

    /// Replaces a branch with `parts`. `finish` drops those outside its range.
    pub fn replace_branch(&mut self, file: FileNumber, parts: &[Arc<Branch>]) {
        let replaced = |branch: &Arc<Branch>| -> Vec<Arc<Branch>> {
            if branch.meta().file == file { parts.to_vec() } else { vec![Arc::clone(branch)] }
        };
        let bundles =
            self.bundles.iter().map(|bundle| (bundle.id, bundle.branches.iter().flat_map(replaced).collect()));
        self.bundles = bundles.map(|(id, branches)| Bundle::new(id, branches)).collect();
    }

    /// The finished node.
    pub fn finish(mut self, options: &TrunkOptions) -> Arc<Node> {
        self.drop_inactive();
        let slots = self.slots();
        let mut active = Load::default();
        for slot in &slots {
            active += slot.pending;
        }
        let mut totals = Totals {
            bytes: active.bytes,
            entries: active.entries,
            debt: 0,
            garbage: 0,
            range_tombstones: active.range_tombstones,
        };
        for pivot in &self.pivots {
            totals.bytes += pivot.child.totals.bytes;
            totals.entries += pivot.child.totals.entries;
            totals.debt += pivot.child.totals.debt;
            totals.garbage += pivot.child.totals.garbage;
            totals.range_tombstones += pivot.child.totals.range_tombstones;
        }
        let children = || self.pivots.iter().map(|pivot| pivot.child.overwrite_ratio);
        let overwrite_ratio =
            if self.pivots.is_empty() { self.overwrite_ratio } else { OverwriteRatio::mean(children()) };
        let mut node = Node {
            id: self.id,
            height: self.height,
            lower: self.lower,
            upper: self.upper,
            heads: self.pivots.iter().map(|pivot| head(&pivot.lower)).collect(),
            pivots: self.pivots,
            bundles: self.bundles,
            slots,
            active,
            totals,
            merge: None,
            scans: ScanCost::with_units(self.scans),
            overwrite_ratio,
        };
        node.merge = merge_range::merge(&node, options);
        node.totals.debt += merge_range::debt(&node, options);
        node.totals.garbage += newer_data::garbage(&node);
        assert_invariants(&node);
        Arc::new(node)
    }

    /// Drops branches that lie outside the ranges of all pivots for which their bundle is active, then bundles without
    /// branches.
    fn drop_inactive(&mut self) {
        let mut kept = Vec::with_capacity(self.bundles.len());
        // The number of remaining bundles before each index.
        let mut before = Vec::with_capacity(self.bundles.len() + 1);
        for (at, bundle) in self.bundles.iter().enumerate() {
            before.push(kept.len());
            let branches: Vec<_> = bundle.branches.iter().filter(|branch| self.sees(at, branch)).cloned().collect();
            if branches.len() == bundle.branches.len() && !branches.is_empty() {
                kept.push(Arc::clone(bundle));
            } else if !branches.is_empty() {
                kept.push(Bundle::new(bundle.id, branches));
            }
        }
        before.push(kept.len());
        self.bundles = kept;
        for pivot in &mut self.pivots {
            pivot.first_active = before[pivot.first_active];
        }
    }

    fn sees(&self, bundle: usize, branch: &Branch) -> bool {
        if self.pivots.is_empty() {
            return run::overlaps(branch, &self.lower, self.upper.as_deref());
        }
        (0..self.pivots.len()).any(|at| {
            let upper = self.pivots.get(at + 1).map(|pivot| &pivot.lower).or(self.upper.as_ref());
            self.pivots[at].first_active <= bundle
                && run::overlaps(branch, &self.pivots[at].lower, upper.map(|upper| &**upper))
        })
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        if self.pivots.is_empty() {
            let (upper, known) = (self.upper.as_deref(), self.known[0].as_deref());
            return vec![Slot::new(&self.bundles, &self.lower, upper, known, &self.maplets[0])];
        }
        let slot = |at: usize| {
            let pivot = &self.pivots[at];
            let upper = self.pivots.get(at + 1).map(|pivot| &pivot.lower).or(self.upper.as_ref());
            let active = &self.bundles[pivot.first_active..];
            let (upper, known) = (upper.map(|upper| &**upper), self.known[at].as_deref());
            Slot::new(active, &pivot.lower, upper, known, &self.maplets[at])
        };
        (0..self.pivots.len()).map(slot).collect()
    }
}

/// Asserts the invariants of the node (`node.rs`), so that an internal error is found before anything is published.
fn assert_invariants(node: &Node) {
    assert_eq!(node.is_leaf(), node.height == 0);
    assert!(node.upper.as_ref().is_none_or(|upper| *node.lower < **upper));
    for (at, pivot) in node.pivots.iter().enumerate() {
        let child = &pivot.child;
        assert!(*child.lower == *pivot.lower && child.upper.as_ref() == node.slot_upper(at), "children tile the range");
        assert_eq!(child.height + 1, node.height);
        assert!(pivot.first_active <= node.bundles.len());
        assert!(at > 0 || *pivot.lower == *node.lower);
    }
    for bundle in &node.bundles {
        assert!(!bundle.branches.is_empty());
    }
}

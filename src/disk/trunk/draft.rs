//! A trunk node being made. One thread.
//!
//! `finish` drops what is active for no child (SplinterDB §2.3), works out the slots and asserts the node's invariants.

use super::bundle::Bundle;
use super::hollow::Hollow;
use super::node::{Key, Node, Pivot, Totals};
use super::options::TrunkOptions;
use super::policy;
use super::redundancy::Redundancy;
use super::run;
use super::scans::ScanCost;
use super::slot::{Load, Slot};
use crate::branch::{Branch, Maplet};
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
    /// For each pivot, or for the leaf, the slot that the same range had before; empty where nothing is known.
    known: Vec<Option<Arc<Slot>>>,
    /// See `Node::scans`.
    scans: u64,
    /// See `Node::redundancy`; of a leaf.
    redundancy: Redundancy,
    /// For each of them the maplets that may serve it; `finish` keeps those that do.
    pub maplets: Vec<Vec<Arc<Maplet>>>,
}

impl Draft {
    /// A leaf without bundles.
    pub fn leaf(id: NodeId, lower: Key, upper: Option<Key>) -> Self {
        Self::of_parts(id, 0, (lower, upper), Vec::new(), Vec::new())
    }

    /// A node about which nothing has been worked out yet.
    pub fn of_parts(
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
            redundancy: Redundancy::default(),
        }
    }

    /// With what the manifest kept of its slots: one list of shares each, or no list.
    pub fn knowing(mut self, shares: &[Vec<ShareImage>]) -> Self {
        for (known, shares) in self.known.iter_mut().zip(shares) {
            *known = Some(Slot::kept(shares));
        }
        self
    }

    /// With maplets that may serve it.
    pub fn offered(mut self, maplets: &[Arc<Maplet>]) -> Self {
        self.maplets.iter_mut().for_each(|offered| offered.extend_from_slice(maplets));
        self
    }

    /// A node to be changed.
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
            redundancy: node.redundancy,
            maplets: node.slots.iter().map(|slot| slot.cover.maplets().cloned().collect()).collect(),
        }
    }

    /// Puts `children`, which tile its range, in the place of the child at `at`.
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

    /// Puts `nodes`, which tile the range of the children `range`, in the place of these, with what is active from `first_active` on.
    pub fn join_children(&mut self, range: Range<usize>, nodes: Vec<Arc<Node>>, first_active: usize) {
        let mut shares: BTreeMap<FileNumber, u64> = BTreeMap::new();
        for share in self.known[range.clone()].iter().flatten().flat_map(|slot| &slot.shares) {
            *shares.entry(share.branch).or_default() += share.bytes;
        }
        let shares: Vec<_> = shares.into_iter().map(|(branch, bytes)| ShareImage { branch, bytes }).collect();
        // What a file has in two neighbouring ranges is what it has in both.
        let known = (nodes.len() == 1).then(|| Slot::kept(&shares));
        self.known.splice(range.clone(), vec![known; nodes.len()]);
        let maplets: Vec<_> = self.maplets[range.clone()].concat();
        self.maplets.splice(range.clone(), vec![maplets; nodes.len()]);
        let pivot = |child: Arc<Node>| Pivot { lower: Arc::clone(&child.lower), child, first_active };
        self.pivots.splice(range, nodes.into_iter().map(pivot));
    }

    /// Takes in the pivots of the node behind it, where one of the two has no bundles: those of the other are not active for its pivots.
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

    /// Puts `bundle` in the place of the bundles `from..to`. What was active of them for a pivot is what the new one has
    /// for it, so the new one is active exactly for the pivots that had one of them active.
    pub fn replace_bundles(&mut self, from: usize, to: usize, bundle: Arc<Bundle>) {
        self.bundles.splice(from..to, [bundle]);
        self.scans = 0;
        for pivot in &mut self.pivots {
            if pivot.first_active >= to {
                pivot.first_active -= to - from - 1;
            } else if pivot.first_active > from {
                pivot.first_active = from;
            }
        }
    }

    /// A merge of a whole leaf has found so much.
    pub fn note_redundancy(&mut self, measured: Redundancy) {
        self.redundancy = self.redundancy.and(measured);
    }

    /// Splits it at `keys`, which lie inside its range in order and, for an internal node, on pivots. The first part keeps
    /// the id; every part gets references to the bundles (SplinterDB §4), of which `finish` drops what it has no use for.
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
                scans: 0,
                redundancy: self.redundancy,
                maplets,
            });
        }
        parts
    }

    /// Leaves out the branches of a leaf that have no key in its range.
    pub fn leave_out(&mut self, hollow: &Hollow) {
        let keep =
            |bundle: &Arc<Bundle>| bundle.branches.iter().filter(|branch| !hollow.holds(branch)).cloned().collect();
        let bundles = self.bundles.iter().map(|bundle| (bundle.id, keep(bundle)));
        let bundles = bundles.filter(|(_, branches): &(_, Vec<_>)| !branches.is_empty());
        self.bundles = bundles.map(|(id, branches)| Bundle::new(id, branches)).collect();
    }

    /// Puts `parts` in the place of a branch; `finish` drops those that are not seen here.
    pub fn replace_branch(&mut self, file: FileNumber, parts: &[Arc<Branch>]) {
        let replaced = |branch: &Arc<Branch>| -> Vec<Arc<Branch>> {
            if branch.meta().file == file { parts.to_vec() } else { vec![Arc::clone(branch)] }
        };
        let bundles =
            self.bundles.iter().map(|bundle| (bundle.id, bundle.branches.iter().flat_map(replaced).collect()));
        self.bundles = bundles.map(|(id, branches)| Bundle::new(id, branches)).collect();
    }

    /// The node.
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
        let children = || self.pivots.iter().map(|pivot| pivot.child.redundancy);
        let redundancy = if self.pivots.is_empty() { self.redundancy } else { Redundancy::mean(children()) };
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
            scans: ScanCost::of(self.scans),
            redundancy,
        };
        node.merge = policy::merge(&node, options);
        node.totals.debt += policy::debt(&node, options);
        node.totals.garbage += policy::garbage(&node);
        assert_sound(&node);
        Arc::new(node)
    }

    /// Drops branches that no pivot for which their bundle is active can see, then bundles that have none left.
    fn drop_inactive(&mut self) {
        let mut kept = Vec::with_capacity(self.bundles.len());
        // How many bundles in front of each index are kept.
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

/// The node's invariants (see `node.rs`); an internal error trips here, before anything is published.
fn assert_sound(node: &Node) {
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

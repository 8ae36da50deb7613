//! The order of the nodes: a skiplist with lock-free inserts and reads, from which nothing is ever removed
//! (FloDB §4.1; cLSM §3.3: only the lowest level decides what is in the list, the others are short cuts).
//!
//! Any thread may search and link. Callers guarantee that no two threads link the same key at once (the key's latch).
//!
//! Invariants:
//! 1. On every level the keys rise strictly, and a level's nodes are among those of the level below. A link only ever
//!    changes from its target to a new node in front of that target.
//! 2. So a node that was a predecessor of a key once stays one: a *splice* taken earlier is a starting point for ever,
//!    merely no longer the closest one. This is what lets a search run long before the link, and what a multi-insert
//!    that searches from the predecessors of its last key needs (FloDB §4.3).
//! 3. A node is in the list from the instant of the compare-and-swap on level 0. That one is a `Release`, after all
//!    that the node holds was written, its link on that level included; searches load links with `Acquire`. The same
//!    holds for each higher level by itself.
//! 4. The number of levels in use is a hint. A search that misses a newly used level starts lower and only takes longer.

use super::node::{HEIGHT_MAX, Node, Target, body_bytes, tower_bytes};
use crate::util::KeyspaceId;
use crate::util::arena::{Arena, Offset};
use crate::util::sync::{AtomicUsize, Ordering};
use std::cmp;

/// Steps along one level after which a stale splice is given up for a fresh search from the top.
const STALE_STEPS_MAX: usize = 32;

/// The last node before a key on each level, as a search found them.
#[derive(Clone, Copy, Debug)]
pub struct Splice([Offset; HEIGHT_MAX]);

/// What a search does when it meets its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// Ends there at once: the caller wants the node.
    Stop,
    /// Treats it as lying behind: the caller wants the predecessor.
    Pass,
}

/// The list; its nodes lie in the arena that every call is given, always the same one.
#[derive(Debug)]
pub struct Skiplist {
    head: Offset,
    height: AtomicUsize,
}

/// The height of the tower for a key: each level has half of the nodes of the one below. With prefetched second
/// choices (see `search`) a hop to a smaller key is what costs, and at one half there are fewest.
pub fn height_for(hash: u64) -> usize {
    // The index uses the high and the low bits of the hash as they are; this mixes them.
    let mixed = (hash ^ hash >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 32).trailing_zeros() as usize + 1).min(HEIGHT_MAX)
}

impl Skiplist {
    /// An empty list in an arena.
    pub fn new(arena: &Arena) -> Self {
        let tower = arena.allocate(tower_bytes(HEIGHT_MAX) + body_bytes(0));
        let head = tower.plus(tower_bytes(HEIGHT_MAX));
        // SAFETY: just allocated with exactly these lengths. The head's key and version are never looked at.
        unsafe { Node::write(arena, head, HEIGHT_MAX, Target::new(KeyspaceId(0), b""), Offset::NULL) };
        Self { head, height: AtomicUsize::new(1) }
    }

    /// A splice from which every key can be reached.
    pub fn start(&self) -> Splice {
        Splice([self.head; HEIGHT_MAX])
    }

    /// The node at a place that a link, an index slot or a splice of this list named.
    pub fn node<'a>(&self, arena: &'a Arena, place: Offset) -> Node<'a> {
        debug_assert!(!place.is_null());
        // SAFETY: links, slots and splices name nodes only after they were written; all are loaded with `Acquire` or
        // were handed on by a thread that did so (invariant 3).
        unsafe { Node::at(arena, place) }
    }

    /// The first node whose key is not before the target, and how it compares. Fills the splice, with `Meeting::Stop`
    /// only down to the level on which the target's own node was met. About log2(n) hops.
    pub fn search<'a>(
        &self,
        arena: &'a Arena,
        target: &Target<'_>,
        meeting: Meeting,
        splice: &mut Splice,
    ) -> Option<(Node<'a>, cmp::Ordering)> {
        let mut at = self.node(arena, self.head);
        // The nearest node known not to be before the target, so that no level compares it again.
        let mut behind: Option<(Node<'a>, cmp::Ordering)> = None;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                let next = Offset(at.next(level).load(Ordering::Acquire));
                if next.is_null() || behind.is_some_and(|(node, _)| node.place() == next) {
                    break;
                }
                if level > 0 {
                    // Where the search goes if `next` is too far: fetched while `next` is.
                    arena.prefetch(Offset(at.next(level - 1).load(Ordering::Relaxed)));
                }
                let node = self.node(arena, next);
                match node.order(target) {
                    cmp::Ordering::Less => at = node,
                    order => {
                        behind = Some((node, order));
                        break;
                    }
                }
            }
            splice.0[level] = at.place();
            if meeting == Meeting::Stop && matches!(behind, Some((_, cmp::Ordering::Equal))) {
                break;
            }
        }
        behind
    }

    /// The node with the target's key.
    pub fn find<'a>(&self, arena: &'a Arena, target: &Target<'_>, splice: &mut Splice) -> Option<Node<'a>> {
        match self.search(arena, target, Meeting::Stop, splice) {
            Some((node, cmp::Ordering::Equal)) => Some(node),
            _ => None,
        }
    }

    /// The last node before the target.
    pub fn before<'a>(&self, arena: &'a Arena, target: &Target<'_>) -> Option<Node<'a>> {
        let mut splice = self.start();
        self.search(arena, target, Meeting::Pass, &mut splice);
        let place = splice.0[0];
        (place != self.head).then(|| self.node(arena, place))
    }

    /// The node behind a node.
    pub fn after<'a>(&self, arena: &'a Arena, node: Node<'a>) -> Option<Node<'a>> {
        let next = Offset(node.next(0).load(Ordering::Acquire));
        (!next.is_null()).then(|| self.node(arena, next))
    }

    /// The first node.
    pub fn first<'a>(&self, arena: &'a Arena) -> Option<Node<'a>> {
        self.after(arena, self.node(arena, self.head))
    }

    /// The last node.
    pub fn last<'a>(&self, arena: &'a Arena) -> Option<Node<'a>> {
        let mut at = self.node(arena, self.head);
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                let next = Offset(at.next(level).load(Ordering::Acquire));
                if next.is_null() {
                    break;
                }
                at = self.node(arena, next);
            }
        }
        (at.place() != self.head).then_some(at)
    }

    /// Links a node that is complete but for its links, unless the list has its key already: then gives the node that
    /// has it. The splice comes from a search for this key, however long ago. Visible when it returns.
    pub fn link<'a>(&self, arena: &'a Arena, node: Node<'a>, splice: &mut Splice) -> Result<(), Node<'a>> {
        let target = Target::of(node);
        for level in 0..node.height() {
            loop {
                let (before, next) = match self.advance(arena, &target, level, splice) {
                    Ok(gap) => gap,
                    Err(found) => {
                        assert!(level == 0, "a node stands on a level without standing on the one below");
                        return Err(found);
                    }
                };
                node.next(level).store(next.0, Ordering::Relaxed);
                let link = before.next(level);
                if link.compare_exchange(next.0, node.place().0, Ordering::Release, Ordering::Relaxed).is_ok() {
                    break;
                }
            }
        }
        if self.height.load(Ordering::Relaxed) < node.height() {
            self.height.fetch_max(node.height(), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Brings a splice from the predecessors of one key to those of a greater one: `FindFromPreds` of FloDB's Algorithm 1 (§4.3). Climbs
    /// from the lowest level to the first on which the next node lies behind the target, and goes down from there, so that the cost is
    /// the logarithm of the distance between the two keys, not of the list's length.
    pub fn advance_all(&self, arena: &Arena, target: &Target<'_>, splice: &mut Splice) {
        let height = self.height.load(Ordering::Relaxed);
        let mut top = 0;
        while let Some(next) = self.next_before(arena, target, splice.0[top], top) {
            splice.0[top] = next;
            if top + 1 == height {
                break;
            }
            top += 1;
        }
        let mut at = splice.0[top];
        for level in (0..=top).rev() {
            at = self.farther(arena, at, splice.0[level]);
            while let Some(next) = self.next_before(arena, target, at, level) {
                at = next;
            }
            splice.0[level] = at;
        }
    }

    /// The next node on a level, if its key is less than the target's.
    fn next_before(&self, arena: &Arena, target: &Target<'_>, at: Offset, level: usize) -> Option<Offset> {
        let next = Offset(self.node(arena, at).next(level).load(Ordering::Acquire));
        (!next.is_null() && self.node(arena, next).order(target).is_lt()).then_some(next)
    }

    /// Of two predecessors of the same key the one nearer to it.
    fn farther(&self, arena: &Arena, a: Offset, b: Offset) -> Offset {
        if a == b || b == self.head {
            a
        } else if a == self.head || self.node(arena, a).order(&Target::of(self.node(arena, b))).is_lt() {
            b
        } else {
            a
        }
    }

    /// Takes a node that was linked as the last one before the keys that come.
    pub fn pass(&self, node: Node<'_>, splice: &mut Splice) {
        splice.0[..node.height()].fill(node.place());
    }

    /// The places of all nodes whose towers reach a height of at least 1.
    pub fn as_high_as(&self, arena: &Arena, height: usize) -> Vec<Offset> {
        let link = |at: &Offset| Offset(self.node(arena, *at).next(height - 1).load(Ordering::Acquire));
        let behind = |at: &Offset| Some(link(at)).filter(|next| !next.is_null());
        std::iter::successors(behind(&self.head), behind).collect()
    }

    /// Links a node behind all others, `last` being the last node of each level: `start` for an empty list, then what the call
    /// before made of it. Requires that nobody else has the list, and a key beyond all others.
    pub fn append(&self, arena: &Arena, node: Node<'_>, last: &mut Splice) {
        for (level, last) in last.0.iter_mut().enumerate().take(node.height()) {
            // Relaxed: whoever hands the list on to other threads publishes it.
            self.node(arena, *last).next(level).store(node.place().0, Ordering::Relaxed);
            *last = node.place();
        }
        if self.height.load(Ordering::Relaxed) < node.height() {
            self.height.store(node.height(), Ordering::Relaxed);
        }
    }

    /// The gap on a level that the target belongs into, from the splice onwards; or the node that has its key.
    fn advance<'a>(
        &self,
        arena: &'a Arena,
        target: &Target<'_>,
        level: usize,
        splice: &mut Splice,
    ) -> Result<(Node<'a>, Offset), Node<'a>> {
        let mut at = self.node(arena, splice.0[level]);
        let mut steps = 0;
        loop {
            let next = Offset(at.next(level).load(Ordering::Acquire));
            if next.is_null() {
                return Ok((at, next));
            }
            let node = self.node(arena, next);
            match node.order(target) {
                cmp::Ordering::Less => at = node,
                cmp::Ordering::Equal => return Err(node),
                cmp::Ordering::Greater => return Ok((at, next)),
            }
            steps += 1;
            splice.0[level] = at.place();
            if steps == STALE_STEPS_MAX {
                // This walk may cost n, a search costs log(n). It leaves no level farther back than it found it.
                self.search(arena, target, Meeting::Pass, splice);
                at = self.node(arena, splice.0[level]);
            }
        }
    }
}

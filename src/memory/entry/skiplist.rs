//! The sorted order of the nodes: a skiplist with lock-free inserts and reads, from which nothing is ever removed
//! (FloDB §4.1; cLSM §3.3: only the lowest level decides what is in the list, the others are shortcuts).
//!
//! Any thread may search and link. Callers guarantee that no two threads link the same key at once (the key's latch).
//!
//! A *splice* is the last node before a key on each level.
//!
//! Invariants:
//! 1. On every level the keys rise strictly, and a level's nodes are among those of the level below. A link changes
//!    only from its target to a new node before that target.
//! 2. So a node that was once a predecessor of a key remains one. An old splice is always a valid starting point,
//!    merely no longer the closest one. This allows a search to run long before the link, and a multi-insert to search
//!    from the predecessors of the key before (FloDB §4.3).
//! 3. A node is in the list from the instant of the compare-and-swap on level 0. It is a `Release`, after the whole
//!    node was written, including its link on that level. Searches load links with `Acquire`. The same applies to each
//!    higher level separately.
//! 4. The number of levels in use is a hint. A search that misses a new level starts lower and only takes longer.

use super::node::{HEIGHT_MAX, Node, Target, body_bytes, tower_bytes};
use crate::util::KeyspaceId;
use crate::util::arena::{Arena, Offset};
use crate::util::sync::{AtomicUsize, Ordering};
use std::cmp;

/// Steps along one level after which a stale splice is dropped for a new search from the top.
const STALE_STEPS_MAX: usize = 32;

/// The last node before a key on each level, as a search found them.
#[derive(Clone, Copy, Debug)]
pub struct Splice([Offset; HEIGHT_MAX]);

/// What a search does when it meets its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEqual {
    /// Stops there: the caller wants the node.
    Stop,
    /// Treats the node as being after the target: the caller wants the predecessor.
    Pass,
}

/// The list. Its nodes are in the arena that every call is given, always the same one.
#[derive(Debug)]
pub struct Skiplist {
    head: Offset,
    height: AtomicUsize,
}

/// The height of the tower for a key. Each level has half of the nodes of the level below. With the prefetch in
/// `search`, only a step to a smaller key is expensive, and a factor of one half has the fewest of these.
pub fn height_for(hash: u64) -> usize {
    // The index uses the high and the low bits of the hash directly; this mixes them.
    let mixed = (hash ^ hash >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 32).trailing_zeros() as usize + 1).min(HEIGHT_MAX)
}

impl Skiplist {
    /// An empty list in an arena.
    pub fn new(arena: &Arena) -> Self {
        let tower = arena.allocate(tower_bytes(HEIGHT_MAX) + body_bytes(0));
        let head = tower.plus(tower_bytes(HEIGHT_MAX));
        // SAFETY: just allocated with exactly these lengths. The head's key and version are never read.
        unsafe { Node::write(arena, head, HEIGHT_MAX, Target::new(KeyspaceId(0), b""), Offset::NULL) };
        Self { head, height: AtomicUsize::new(1) }
    }

    /// A splice that is valid for every key.
    pub fn start(&self) -> Splice {
        Splice([self.head; HEIGHT_MAX])
    }

    /// The node at a place that came from a link, an index slot or a splice of this list.
    pub fn node<'a>(&self, arena: &'a Arena, place: Offset) -> Node<'a> {
        debug_assert!(!place.is_null());
        // SAFETY: links, slots and splices name nodes only after these were written. All are loaded with `Acquire`, or
        // were passed on by a thread that did so (invariant 3).
        unsafe { Node::at(arena, place) }
    }

    /// The first node whose key is not before the target, and how it compares. Fills the splice; with `OnEqual::Stop`
    /// only down to the level on which it met the target's own node. About log2(n) steps.
    pub fn search<'a>(
        &self,
        arena: &'a Arena,
        target: &Target<'_>,
        on_equal: OnEqual,
        splice: &mut Splice,
    ) -> Option<(Node<'a>, cmp::Ordering)> {
        let mut at = self.node(arena, self.head);
        // The nearest node known not to be before the target, so that no other level compares it again.
        let mut behind: Option<(Node<'a>, cmp::Ordering)> = None;
        for level in (0..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                let next = Offset(at.next(level).load(Ordering::Acquire));
                if next.is_null() || behind.is_some_and(|(node, _)| node.place() == next) {
                    break;
                }
                if level > 0 {
                    // The next step if `next` is too far: fetched at the same time as `next`.
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
            if on_equal == OnEqual::Stop && matches!(behind, Some((_, cmp::Ordering::Equal))) {
                break;
            }
        }
        behind
    }

    /// The node with the target's key.
    pub fn find<'a>(&self, arena: &'a Arena, target: &Target<'_>, splice: &mut Splice) -> Option<Node<'a>> {
        match self.search(arena, target, OnEqual::Stop, splice) {
            Some((node, cmp::Ordering::Equal)) => Some(node),
            _ => None,
        }
    }

    /// The last node before the target.
    pub fn before<'a>(&self, arena: &'a Arena, target: &Target<'_>) -> Option<Node<'a>> {
        let mut splice = self.start();
        self.search(arena, target, OnEqual::Pass, &mut splice);
        let place = splice.0[0];
        (place != self.head).then(|| self.node(arena, place))
    }

    /// The node after a node.
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

    /// Links a node that is complete except for its links. If the list already has its key, fails with the node of that
    /// key. The splice comes from an earlier search for this key. The node is visible when this returns.
    pub fn link<'a>(&self, arena: &'a Arena, node: Node<'a>, splice: &mut Splice) -> Result<(), Node<'a>> {
        let target = Target::of(node);
        for level in 0..node.height() {
            loop {
                let (before, next) = match self.advance(arena, &target, level, splice) {
                    Ok(gap) => gap,
                    Err(found) => {
                        assert!(level == 0, "a node is on a level but not on the one below");
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

    /// Moves a splice from the predecessors of one key to those of a greater key: `FindFromPreds` of FloDB's Algorithm
    /// 1 (§4.3). Climbs from the lowest level to the first one on which the next node is after the target, and descends
    /// from there. The cost is the logarithm of the distance between the two keys, not of the list's length.
    pub fn advance_splice(&self, arena: &Arena, target: &Target<'_>, splice: &mut Splice) {
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
            at = self.nearer_predecessor(arena, at, splice.0[level]);
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

    /// Of two predecessors of the same key, the one nearer to it.
    fn nearer_predecessor(&self, arena: &Arena, a: Offset, b: Offset) -> Offset {
        if a == b || b == self.head {
            a
        } else if a == self.head || self.node(arena, a).order(&Target::of(self.node(arena, b))).is_lt() {
            b
        } else {
            a
        }
    }

    /// Moves a splice to a node that was just linked, for keys after it.
    pub fn move_splice_to(&self, node: Node<'_>, splice: &mut Splice) {
        splice.0[..node.height()].fill(node.place());
    }

    /// The places of all nodes whose towers have at least this height, which is at least 1.
    pub fn tall_nodes(&self, arena: &Arena, height: usize) -> Vec<Offset> {
        let link = |at: &Offset| Offset(self.node(arena, *at).next(height - 1).load(Ordering::Acquire));
        let behind = |at: &Offset| Some(link(at)).filter(|next| !next.is_null());
        std::iter::successors(behind(&self.head), behind).collect()
    }

    /// Links a node after all others. `last` is the last node of each level: `start()` for an empty list, then the
    /// value that the previous call left. Requires that no other thread has the list, and that the key is beyond all
    /// others.
    pub fn append(&self, arena: &Arena, node: Node<'_>, last: &mut Splice) {
        for (level, last) in last.0.iter_mut().enumerate().take(node.height()) {
            // Relaxed: the thread that passes the list on to other threads publishes it.
            self.node(arena, *last).next(level).store(node.place().0, Ordering::Relaxed);
            *last = node.place();
        }
        if self.height.load(Ordering::Relaxed) < node.height() {
            self.height.store(node.height(), Ordering::Relaxed);
        }
    }

    /// The gap on a level into which the target belongs, searched from the splice on; or the node that has its key.
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
                // This scan can take n steps, a search log(n). The search moves no level of the splice backwards.
                self.search(arena, target, OnEqual::Pass, splice);
                at = self.node(arena, splice.0[level]);
            }
        }
    }
}

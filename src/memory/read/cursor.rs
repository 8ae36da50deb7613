//! Reads a Memtable in entry order while writers continue.
//!
//! One thread at a time uses a cursor; it may move to another thread. It holds the Memtable, so its memory stays.
//!
//! Invariants:
//! 1. A cursor at a number belongs to a reader whose snapshot has that number. It shows of each key only the newest
//!    version at or below that number, and if that is an operand, those that it is folded onto. The snapshot retains
//!    these versions unchanged in their chain, and nodes never change or disappear. So a cursor stores plain places and
//!    can always continue from them.
//! 2. A cursor over all versions requires a Memtable that is sealed or of the single-level kind: nothing leaves a
//!    chain. It shows every version that was placed before the step that meets it, and perhaps some that are placed
//!    during the step, in order and each once.
//! 3. A cursor moves from one node to the next only after everything between the two was drained (`drained`).
//!    Everything that its snapshot sees was pushed before the snapshot was taken (`docs/concurrency.md`, S1), so each
//!    range is drained once.
//! 4. Versions that are pending when a step meets them are skipped. A reader at a snapshot never meets one.
//! 5. There are no backward links. A step to the node before is a search (about log2(n) steps), and a step to a newer
//!    version scans the chain from its newest end.

use crate::memory::buffer::membuffer::DrainedRange;
use crate::memory::entry::node::{Node, Target};
use crate::memory::entry::skiplist::OnEqual;
use crate::memory::entry::version::Version;
use crate::memory::table::memtable::Memtable;
use crate::merge::{Cursor, EntryRef};
use crate::util::arena::{Offset, UNIT_BYTES};
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Kind, Result, SequenceNumber, key};

/// A cache line in units of offsets. A node of usual size and the head of its version occupy two lines.
const LINE_UNITS: u32 = 64 / UNIT_BYTES as u32;

/// A cursor over versions of a Memtable.
#[derive(Debug)]
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    visible: Visible,
    drained: Option<DrainedRange>,
    position: Option<Position>,
}

/// Which versions a cursor shows.
#[derive(Clone, Copy, Debug)]
enum Visible {
    All,
    /// Of each key the newest version at or below a number, and what it is folded onto.
    At(SequenceNumber),
}

/// A version and its node.
#[derive(Clone, Copy, Debug)]
struct Position {
    node: Offset,
    version: Offset,
}

impl Memtable {
    /// An unpositioned cursor over all versions. Requires what invariant 2 of the module says.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor { memtable: Arc::clone(self), visible: Visible::All, drained: None, position: None }
    }

    /// An unpositioned cursor for a reader whose snapshot has this number.
    pub fn cursor_at(self: &Arc<Self>, number: SequenceNumber) -> MemtableCursor {
        MemtableCursor { visible: Visible::At(number), ..self.cursor() }
    }

    /// The newest version of a node with a number `<= number` that the cursor shows.
    fn newest_shown<'a>(&'a self, node: Node<'a>, visible: Visible, number: SequenceNumber) -> Option<Version<'a>> {
        match visible {
            Visible::All => self.versions(node).find(|version| version.number() <= number),
            Visible::At(at) => self.shown_at(node, at).find(|version| version.number() <= number),
        }
    }

    /// The oldest version of a node with a number `>= number` that the cursor shows.
    fn oldest_shown<'a>(&'a self, node: Node<'a>, visible: Visible, number: SequenceNumber) -> Option<Version<'a>> {
        match visible {
            Visible::All => self.versions(node).take_while(|version| version.number() >= number).last(),
            Visible::At(at) => self.shown_at(node, at).take_while(|version| version.number() >= number).last(),
        }
    }

    /// The versions of a node that a cursor at a number shows, newest first.
    fn shown_at<'a>(&'a self, node: Node<'a>, at: SequenceNumber) -> impl Iterator<Item = Version<'a>> {
        let newest = self.read(node, at, |version, _| Some(version.place()));
        std::iter::successors(newest.map(|place| self.version(place)), |version| self.folded_onto(*version))
    }

    /// What the version of a cursor at a number is folded onto, if it is an operand.
    fn folded_onto<'a>(&'a self, version: Version<'a>) -> Option<Version<'a>> {
        if version.kind() == Kind::Merge { self.older(version) } else { None }
    }
}

impl Position {
    fn new(node: Node<'_>, version: Version<'_>) -> Self {
        Self { node: node.place(), version: version.place() }
    }
}

/// At least as long as the longest run of 0xff at the start of a key in practice. A key after it costs one more drain.
const LAST: [u8; 64] = [0xff; 64];

/// The target for a sought key, and whether the key is a whole encoded key. A key too short for that sorts just before
/// the least key of the keyspace whose id begins with its bytes.
fn target_for(encoded: &[u8]) -> (Target<'_>, bool) {
    match key::split(encoded) {
        Some((keyspace, user_key)) => (Target::new(keyspace, user_key), true),
        None => {
            let mut id = [0; KeyspaceId::BYTES];
            id[..encoded.len()].copy_from_slice(encoded);
            (Target::new(KeyspaceId(u32::from_be_bytes(id)), b""), false)
        }
    }
}

impl MemtableCursor {
    /// Node and version of the cursor's position.
    fn current(&self) -> (Node<'_>, Version<'_>) {
        let Some(Position { node, version }) = self.position else { unreachable!("the cursor is unpositioned") };
        (self.memtable.node(node), self.memtable.version(version))
    }

    /// Drains around a key, unless that is done. A cursor over all versions drains at every seek, because no snapshot
    /// bounds the versions.
    fn drain_around_key(&mut self, key: &[u8]) {
        if matches!(self.visible, Visible::All) || !self.drained.as_ref().is_some_and(|drained| drained.contains(key)) {
            self.drained = Some(self.memtable.drain_around(key));
        }
    }

    /// Drains from the upper end of the drained range up to `node`, the next node, or to the end. True if it drained
    /// anything: there may now be another node in between.
    fn drain_up_to(&mut self, node: Option<Offset>) -> bool {
        let memtable = &self.memtable;
        let Some(drained) = &mut self.drained else { unreachable!("a seek drained") };
        let key = node.map(|node| memtable.node(node).encoded_key());
        let is_not_after_node = |upper: &[u8]| key.is_none_or(|key| key >= upper);
        let mut more = false;
        while drained.upper().is_some_and(is_not_after_node) {
            memtable.drain_after(drained, key);
            more = true;
        }
        more
    }

    /// Drains from the lower end of the drained range down to `node`, as `drain_up_to` does.
    fn drain_down_to(&mut self, node: Option<Offset>) -> bool {
        let memtable = &self.memtable;
        let Some(drained) = &mut self.drained else { unreachable!("a seek drained") };
        let key = node.map(|node| memtable.node(node).encoded_key());
        let is_after_node = |lower: &[u8]| key.is_none_or(|key| key < lower);
        let mut more = false;
        while drained.lower().is_some_and(is_after_node) {
            memtable.drain_before(drained, key);
            more = true;
        }
        more
    }

    /// The first node at or after `target`, and whether its key equals the target's.
    fn first_at(&mut self, target: &Target<'_>) -> (Option<Offset>, bool) {
        loop {
            let memtable = &self.memtable;
            let mut splice = memtable.list.start();
            let found = memtable.list.search(memtable.arena(), target, OnEqual::Stop, &mut splice);
            let place = found.map(|(node, _)| node.place());
            let same = found.is_some_and(|(_, order)| order.is_eq());
            if !self.drain_up_to(place) {
                return (place, same);
            }
        }
    }

    /// The node after a node.
    fn after(&mut self, node: Offset) -> Option<Offset> {
        loop {
            let next = self.memtable.list.after(self.memtable.arena(), self.memtable.node(node)).map(Node::place);
            if !self.drain_up_to(next) {
                return next;
            }
        }
    }

    /// The last node before a target.
    fn before(&mut self, target: &Target<'_>) -> Option<Offset> {
        loop {
            let before = self.memtable.list.before(self.memtable.arena(), target).map(Node::place);
            if !self.drain_down_to(before) {
                return before;
            }
        }
    }

    /// Moves to the first version shown of `node` or of the nodes after it.
    fn move_to_first_shown(&mut self, mut node: Option<Offset>) {
        self.position = None;
        while let Some(at) = node {
            let next = self.memtable.list.after(self.memtable.arena(), self.memtable.node(at));
            if let Some(next) = next {
                self.memtable.arena().prefetch(next.place());
                self.memtable.arena().prefetch(Offset(next.place().0.wrapping_add(LINE_UNITS)));
            }
            let found = self.memtable.newest_shown(self.memtable.node(at), self.visible, SequenceNumber::MAX);
            if let Some(version) = found {
                self.position = Some(Position { node: at, version: version.place() });
                return;
            }
            node = self.after(at);
        }
    }

    /// Moves to the last version shown of `node` or of the nodes before it.
    fn move_to_last_shown(&mut self, mut node: Option<Offset>) {
        self.position = None;
        while let Some(at) = node {
            let memtable = Arc::clone(&self.memtable);
            let node_at = memtable.node(at);
            if let Some(version) = memtable.oldest_shown(node_at, self.visible, SequenceNumber::ZERO) {
                self.position = Some(Position { node: at, version: version.place() });
                return;
            }
            node = self.before(&Target::of(node_at));
        }
    }
}

impl Cursor for MemtableCursor {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let (target, is_encoded_key) = target_for(key);
        self.drain_around_key(key);
        let (found, same) = self.first_at(&target);
        let Some(node) = found.filter(|_| same && is_encoded_key) else {
            self.move_to_first_shown(found);
            return Ok(());
        };
        match self.memtable.newest_shown(self.memtable.node(node), self.visible, number) {
            Some(version) => self.position = Some(Position { node, version: version.place() }),
            None => {
                let next = self.after(node);
                self.move_to_first_shown(next);
            }
        }
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let (target, is_encoded_key) = target_for(key);
        self.drain_around_key(key);
        let memtable = &self.memtable;
        let same_key = match is_encoded_key {
            true => memtable.list.find(memtable.arena(), &target, &mut memtable.list.start()),
            false => None,
        };
        let newer =
            same_key.and_then(|node| Some(Position::new(node, memtable.oldest_shown(node, self.visible, number)?)));
        self.position = newer;
        if newer.is_none() {
            let before = self.before(&target);
            self.move_to_last_shown(before);
        }
        Ok(())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.drain_around_key(&[]);
        let (first, _) = self.first_at(&Target::new(KeyspaceId(0), &[]));
        self.move_to_first_shown(first);
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        // Starts beyond the last key. No key is at that position, so the drain must extend to the end.
        self.drain_around_key(&LAST);
        let last = loop {
            let last = self.memtable.list.last(self.memtable.arena()).map(Node::place);
            let up = self.drain_up_to(None);
            if !self.drain_down_to(last) && !up {
                break last;
            }
        };
        self.move_to_last_shown(last);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let memtable = &self.memtable;
        let (node, version) = self.current();
        let older = match self.visible {
            Visible::At(_) => memtable.folded_onto(version),
            Visible::All => std::iter::successors(memtable.older(version), |version| memtable.older(*version))
                .find(|version| memtable.is_shown(*version)),
        };
        let (node, older) = (node.place(), older.map(Version::place));
        if let Some(version) = older {
            self.position = Some(Position { node, version });
            return Ok(());
        }
        let next = self.after(node);
        self.move_to_first_shown(next);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let memtable = Arc::clone(&self.memtable);
        let (node, version) = self.current();
        let node = memtable.node(node.place());
        match memtable.oldest_shown(node, self.visible, version.number().next()) {
            Some(newer) => self.position = Some(Position::new(node, newer)),
            None => {
                let before = self.before(&Target::of(node));
                self.move_to_last_shown(before);
            }
        }
        Ok(())
    }

    fn rest(&mut self) {
        (self.drained, self.position) = (None, None);
    }

    fn renew(&mut self, at: SequenceNumber) {
        self.rest();
        self.visible = Visible::At(at);
    }

    fn valid(&self) -> bool {
        self.position.is_some()
    }

    fn entry(&self) -> EntryRef<'_> {
        let (node, version) = self.current();
        EntryRef { key: node.encoded_key(), number: version.number(), kind: version.kind(), value: version.value() }
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.memtable.covering(key, at)
    }

    fn deleted_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        self.memtable.covered_until(key, at)
    }

    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.memtable.next_covered(key)
    }
}

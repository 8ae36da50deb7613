//! Reads a Memtable in entry order while writers go on.
//!
//! One thread at a time uses a cursor; it may be handed to another. It holds the Memtable, so its memory stays.
//!
//! Invariants:
//! 1. Nothing that a cursor stands on ever changes or goes away, so it keeps plain places and can always go on from there.
//! 2. It shows every version that was placed before the step that would meet it, perhaps some that are placed during
//!    it, in order and none twice. Versions that are pending when a step meets them are skipped; a reader at a snapshot
//!    never meets one (`protocol.md`, Snapshots).
//! 3. Backwards there are no links: a step to an older node is a search (about log2(n) hops), and a step to a newer
//!    version walks the chain from its newest end.

use super::memtable::Memtable;
use super::node::{Node, Target};
use super::skiplist::Meeting;
use super::version::Version;
use crate::base::arena::{Offset, UNIT_BYTES};
use crate::base::sync::Arc;
use crate::base::{KeyspaceId, Result, SequenceNumber, key};
use crate::merge::{Cursor, EntryRef};

/// A cache line in units of offsets: a node of usual size and the head of its version fill two lines.
const LINE_UNITS: u32 = 64 / UNIT_BYTES as u32;

/// A cursor over all committed versions of a Memtable.
#[derive(Debug)]
pub struct MemtableCursor {
    memtable: Arc<Memtable>,
    position: Option<Position>,
}

/// A version and the node that it belongs to.
#[derive(Clone, Copy, Debug)]
struct Position {
    node: Offset,
    version: Offset,
}

impl Memtable {
    /// A cursor that stands nowhere.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor { memtable: Arc::clone(self), position: None }
    }

    /// The first committed version of `node` or the nodes behind it.
    fn first_from<'a>(&'a self, mut node: Option<Node<'a>>) -> Option<Position> {
        while let Some(at) = node {
            let next = self.list.after(&self.arena, at);
            if let Some(next) = next {
                self.arena.prefetch(next.place());
                self.arena.prefetch(Offset(next.place().0.wrapping_add(LINE_UNITS)));
            }
            if let Some(version) = self.visible(at, SequenceNumber::MAX) {
                return Some(Position::new(at, version));
            }
            node = next;
        }
        None
    }

    /// The last committed version of `node` or the nodes before it.
    fn last_from<'a>(&'a self, mut node: Option<Node<'a>>) -> Option<Position> {
        while let Some(at) = node {
            if let Some(version) = self.versions(at).filter(|version| version.is_committed(&self.arena)).last() {
                return Some(Position::new(at, version));
            }
            node = self.list.before(&self.arena, &Target::of(at));
        }
        None
    }

    /// The oldest committed version of a node that is still newer than `number`, or as new.
    fn oldest_since<'a>(&'a self, node: Node<'a>, number: SequenceNumber) -> Option<Version<'a>> {
        let newer = self.versions(node).take_while(|version| version.number() >= number);
        newer.filter(|version| version.is_committed(&self.arena)).last()
    }
}

impl Position {
    fn new(node: Node<'_>, version: Version<'_>) -> Self {
        Self { node: node.place(), version: version.place() }
    }
}

/// A sought key as nodes hold keys, and whether it is an encoded key. One too short for that lies right before the
/// least key of the keyspace whose id begins with its bytes.
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
    /// Node and version that the cursor stands on.
    fn standing(&self) -> (Node<'_>, Version<'_>) {
        let Some(Position { node, version }) = self.position else { unreachable!("the cursor stands nowhere") };
        // SAFETY: positions are made from versions that this thread, or the one that handed it the cursor, found in
        // the list, and the arena's life is the Memtable's (invariant 1).
        let version = unsafe { Version::at(&self.memtable.arena, version) };
        (self.memtable.list.node(&self.memtable.arena, node), version)
    }
}

impl Cursor for MemtableCursor {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let (target, whole) = target_for(key);
        let memtable = &*self.memtable;
        let mut splice = memtable.list.start();
        self.position = match memtable.list.search(&memtable.arena, &target, Meeting::Stop, &mut splice) {
            Some((node, order)) if order.is_eq() && whole => match memtable.visible(node, number) {
                Some(version) => Some(Position::new(node, version)),
                None => memtable.first_from(memtable.list.after(&memtable.arena, node)),
            },
            found => memtable.first_from(found.map(|(node, _)| node)),
        };
        Ok(())
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let (target, whole) = target_for(key);
        let memtable = &*self.memtable;
        let same_key = match whole {
            true => memtable.list.find(&memtable.arena, &target, &mut memtable.list.start()),
            false => None,
        };
        let newer = same_key.and_then(|node| Some(Position::new(node, memtable.oldest_since(node, number)?)));
        self.position = newer.or_else(|| memtable.last_from(memtable.list.before(&memtable.arena, &target)));
        Ok(())
    }

    fn seek_first(&mut self) -> Result<()> {
        self.position = self.memtable.first_from(self.memtable.list.first(&self.memtable.arena));
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.position = self.memtable.last_from(self.memtable.list.last(&self.memtable.arena));
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        let memtable = &*self.memtable;
        let (node, version) = self.standing();
        let older = std::iter::successors(memtable.older(version), |version| memtable.older(*version))
            .find(|version| version.is_committed(&memtable.arena));
        self.position = match older {
            Some(version) => Some(Position::new(node, version)),
            None => memtable.first_from(memtable.list.after(&memtable.arena, node)),
        };
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        let memtable = &*self.memtable;
        let (node, version) = self.standing();
        self.position = match memtable.oldest_since(node, version.number().next()) {
            Some(newer) => Some(Position::new(node, newer)),
            None => memtable.last_from(memtable.list.before(&memtable.arena, &Target::of(node))),
        };
        Ok(())
    }

    fn valid(&self) -> bool {
        self.position.is_some()
    }

    fn entry(&self) -> EntryRef<'_> {
        let (node, version) = self.standing();
        EntryRef { key: node.encoded_key(), number: version.number(), kind: version.kind(), value: version.value() }
    }
}

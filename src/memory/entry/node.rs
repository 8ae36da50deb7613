//! One distinct key in the arena: a node of the skiplist.
//!
//! One step of a search reads the head of the key and one link. Both are next to the node's place, so a step touches
//! one cache line. The tower of links grows downwards from the place:
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | -4 × (level + 1) | 4 | place of the next node on this level, 0 at the end |
//! | 0 | 8 | head of the user key (`key::head`) |
//! | 8 | 4 | place of the newest version |
//! | 12 | 4 | length of the user key × 256 + height |
//! | 16 | 4 | keyspace id, big-endian: the front of the encoded key |
//! | 20 | | user key |
//!
//! Any thread may read. One thread writes a node before it publishes the node's place.
//!
//! Invariants:
//! 1. `write` fills a node before any other thread knows its place. Head, length, height and key never change.
//! 2. A node's place is published by a `Release` store of a link or an index slot, after its newest version is set.
//!    Readers load links with `Acquire`, so they see the whole node and at least one version.
//! 3. The newest version changes only to one with a greater number, by the holder of the key's latch (`Release`).
//!    Readers load it with `Acquire`, so they see the whole version, or a later reuse of its block (`version.rs`).

use super::version::Version;
use crate::util::arena::{Arena, Offset};
use crate::util::sync::{AtomicU32, Ordering};
use crate::util::{KeyspaceId, key};
use std::marker::PhantomData;

/// Levels of the tallest tower. Each level has half of the nodes of the level below: enough for tens of millions of
/// keys.
pub const HEIGHT_MAX: usize = 24;

#[repr(C)]
struct Header {
    head: u64,
    versions: AtomicU32,
    shape: u32,
}

const KEY_AT: usize = size_of::<Header>();
const USER_KEY_AT: usize = KEY_AT + KeyspaceId::BYTES;
const HEIGHT_BITS: u32 = 8;
const _: () = assert!(KEY_AT == 16 && HEIGHT_MAX < 1 << HEIGHT_BITS);
const _: () = assert!(crate::util::limits::KEY_BYTES_MAX < 1 << (32 - HEIGHT_BITS));

/// A key to search for, split into the parts that nodes store.
#[derive(Clone, Copy, Debug)]
pub struct Target<'k> {
    keyspace: KeyspaceId,
    head: u64,
    user_key: &'k [u8],
}

impl<'k> Target<'k> {
    /// The target for a key.
    pub fn new(keyspace: KeyspaceId, user_key: &'k [u8]) -> Self {
        Self { keyspace, head: key::head(user_key), user_key }
    }

    /// The target for the key of a node.
    pub fn of(node: Node<'k>) -> Self {
        let (id, user_key) = node.encoded_key().split_at(KeyspaceId::BYTES);
        let keyspace = KeyspaceId(id.iter().fold(0, |number, &byte| number << 8 | u32::from(byte)));
        Self { keyspace, head: node.header().head, user_key }
    }

    /// The user key.
    pub fn user_key(&self) -> &'k [u8] {
        self.user_key
    }
}

/// A node in the arena.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    place: Offset,
    address: *const u8,
    arena: PhantomData<&'a Arena>,
}

/// The size of the tower before a node's place.
pub fn tower_bytes(height: usize) -> usize {
    (4 * height).next_multiple_of(8)
}

/// The size of header and key from a node's place on.
pub fn body_bytes(user_key_bytes: usize) -> usize {
    (USER_KEY_AT + user_key_bytes).next_multiple_of(8)
}

impl<'a> Node<'a> {
    /// Fills a node that no other thread knows yet. Its links are null.
    ///
    /// # Safety
    /// `tower_bytes(height)` bytes before `place` and `body_bytes(user_key.len())` from it on were allocated from
    /// `arena` and belong to the caller alone.
    pub unsafe fn write(arena: &'a Arena, place: Offset, height: usize, target: Target<'_>, newest: Offset) -> Self {
        let address = arena.address(place);
        let user_key = target.user_key;
        // SAFETY: the caller owns these bytes; the place is aligned to eight.
        unsafe {
            address.sub(tower_bytes(height)).write_bytes(0, tower_bytes(height));
            address.cast::<Header>().write(Header {
                head: target.head,
                versions: AtomicU32::new(newest.0),
                shape: (user_key.len() as u32) << HEIGHT_BITS | height as u32,
            });
            address.add(KEY_AT).cast::<[u8; 4]>().write(target.keyspace.0.to_be_bytes());
            address.add(USER_KEY_AT).copy_from_nonoverlapping(user_key.as_ptr(), user_key.len());
        }
        Self { place, address, arena: PhantomData }
    }

    /// The node at a place.
    ///
    /// # Safety
    /// `place` was given to `write` in this use of `arena`, and this thread got it from the writer, is the writer, or
    /// loaded it from a link with `Acquire` (invariant 2).
    pub unsafe fn at(arena: &'a Arena, place: Offset) -> Self {
        Self { place, address: arena.address(place).cast_const(), arena: PhantomData }
    }

    fn header(self) -> &'a Header {
        // SAFETY: `write` wrote a header here (precondition of the constructors); all fields that change are atomic.
        unsafe { &*self.address.cast::<Header>() }
    }

    /// The node's place in the arena.
    pub fn place(self) -> Offset {
        self.place
    }

    /// The number of levels of its tower.
    pub fn height(self) -> usize {
        (self.header().shape & ((1 << HEIGHT_BITS) - 1)) as usize
    }

    /// The link to the next node on a level. Requires a level below `height`.
    pub fn next(self, level: usize) -> &'a AtomicU32 {
        assert!(level < self.height(), "a search uses a node only on the levels of its tower");
        // SAFETY: the tower has `height` links before the place, initialised in `write`.
        unsafe { &*self.address.sub(4 * (level + 1)).cast::<AtomicU32>() }
    }

    /// The encoded key.
    pub fn encoded_key(self) -> &'a [u8] {
        let length = KeyspaceId::BYTES + (self.header().shape >> HEIGHT_BITS) as usize;
        // SAFETY: `write` wrote id and key here, and they never change (invariant 1).
        unsafe { std::slice::from_raw_parts(self.address.add(KEY_AT), length) }
    }

    /// Compares this node's key with a target.
    #[inline]
    pub fn order(self, target: &Target<'_>) -> std::cmp::Ordering {
        let header = self.header();
        // SAFETY: the id follows the header, see `write`.
        let keyspace = u32::from_be_bytes(unsafe { self.address.add(KEY_AT).cast::<[u8; 4]>().read() });
        keyspace.cmp(&target.keyspace.0).then(header.head.cmp(&target.head)).then_with(|| self.order_of_rest(target))
    }

    /// Compares what follows keyspace and head, which are equal. A key of up to eight bytes is then a prefix of the
    /// other, so the lengths decide.
    fn order_of_rest(self, target: &Target<'_>) -> std::cmp::Ordering {
        let user_key = &self.encoded_key()[KeyspaceId::BYTES..];
        match (user_key.get(8..), target.user_key.get(8..)) {
            (Some(rest), Some(target_rest)) => rest.cmp(target_rest),
            _ => user_key.len().cmp(&target.user_key.len()),
        }
    }

    /// The place of the newest version. Every published node has one.
    pub fn newest_place(self) -> Offset {
        Offset(self.header().versions.load(Ordering::Acquire))
    }

    /// The block of the newest version.
    pub fn newest(self, arena: &'a Arena) -> Version<'a> {
        // SAFETY: the link was stored with `Release` after the version was written (invariant 3).
        unsafe { Version::at(arena, self.newest_place()) }
    }

    /// Links a version in front of the chain. Its number is set and its `previous` is the newest version so far. The
    /// caller holds the key's latch.
    pub fn set_newest(self, version: Version<'_>) {
        self.header().versions.store(version.place().0, Ordering::Release);
    }
}

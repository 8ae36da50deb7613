//! A get in a tree (SplinterDB §2.2): from the root to a leaf, newest data first. Any thread; no locks.
//!
//! The cache misses of a get overlap: it first gathers the slots on its path and prefetches their maplets, then gathers
//! the branches that may hold the key and prefetches their filters, and only then probes them in order.

use crate::branch::{Branch, Pages};
use crate::disk::trunk::tree::maplet_index;
use crate::disk::trunk::tree::slot::Slot;
use crate::disk::trunk::tree::tree::Tree;
use crate::util::hash::fingerprint;
use crate::util::key::wide_head;
use crate::util::{Kind, Result, SequenceNumber};

/// Branches that a get gathers at a time. Few trees have more on a path, and the processor cannot have more misses in
/// flight.
const GATHERED_MAX: usize = 24;

/// Slots that a get gathers at a time: one for each level, and trees have fewer levels.
const SLOTS_MAX: usize = 12;

impl Tree {
    /// The newest version `<= at` of `key`, whose hash is `hash`: its number and kind. Its value is appended to `out`.
    /// If a range tombstone over the key is newer, the result is that range tombstone: it hides older versions in the
    /// branch where it was found, newer ones were found first, and everything further down is older.
    pub fn get<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let lookup = Lookup { key, head: wide_head(key), hash, at };
        let fingerprint = fingerprint(hash);
        let mut node = self.root();
        let mut slots: [Option<&'t Slot>; SLOTS_MAX] = [None; SLOTS_MAX];
        let mut count = 0;
        loop {
            let at = node.slot_of(key);
            let slot = &node.slots[at];
            slot.maplet_index.prefetch(fingerprint, pages.guard());
            slots[count] = Some(slot);
            count += 1;
            let below = node.pivots.get(at);
            if below.is_none() || count == SLOTS_MAX {
                if let Some(hit) = lookup.find(slots[..count].iter().flatten(), pages, out)? {
                    return Ok(Some(hit));
                }
                count = 0;
            }
            match below {
                Some(pivot) => node = &pivot.child,
                None => return Ok(None),
            }
        }
    }
}

/// What a get looks for.
#[derive(Clone, Copy)]
struct Lookup<'k> {
    key: &'k [u8],
    head: u128,
    hash: u64,
    at: SequenceNumber,
}

/// A branch that may have the key, and whether a maplet has said that.
type MayHave<'t> = Option<(&'t Branch, bool)>;

impl Lookup<'_> {
    /// The newest version in these slots, which are in order, newest first.
    fn find<'s, 't: 's, P: Pages<'t>>(
        &self,
        slots: impl Iterator<Item = &'s &'t Slot>,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let fingerprint = fingerprint(self.hash);
        let mut gathered: [MayHave<'t>; GATHERED_MAX] = [None; GATHERED_MAX];
        let mut count = 0;
        for slot in slots {
            let may = slot.maplet_index.may_have(fingerprint, slot.runs.len(), pages.guard());
            let mut left = may.by_maplet | may.unknown;
            let mut next = maplet_index::RUNS_MAX;
            loop {
                // First the runs with a bit, then those past the last bit.
                let (at, is_by_maplet) = if left != 0 {
                    let at = left.trailing_zeros();
                    left &= left - 1;
                    (at as usize, may.unknown >> at & 1 == 0)
                } else {
                    next += 1;
                    (next - 1, false)
                };
                let Some(run) = slot.runs.get(at) else { break };
                let part = run.part_of(self.key, self.head).filter(|part| part.spans(self.key, self.head));
                let Some(part) = part else { continue };
                if !is_by_maplet {
                    part.prefetch(self.hash, pages.guard());
                }
                gathered[count] = Some((part, is_by_maplet));
                count += 1;
                if count == GATHERED_MAX {
                    if let Some(hit) = self.first_hit(&gathered, pages, out)? {
                        return Ok(Some(hit));
                    }
                    count = 0;
                }
            }
        }
        self.first_hit(&gathered[..count], pages, out)
    }

    /// The first of these branches, newest first, that has a version of the key.
    fn first_hit<'t, P: Pages<'t>>(
        &self,
        branches: &[MayHave<'t>],
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        for (branch, is_by_maplet) in branches.iter().flatten() {
            let hit = if *is_by_maplet {
                branch.get_unfiltered(self.key, self.at, pages, out)?
            } else {
                branch.get(self.key, self.hash, self.at, pages, out)?
            };
            if hit.is_some() {
                return Ok(hit);
            }
        }
        Ok(None)
    }
}

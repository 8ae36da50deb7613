//! The one rule of which versions incorporation and compaction keep (cLSM §3.2.2 has its simplest form).
//!
//! A `Retention` is taken once, before an input is read, and shared; a `VersionFilter` (`version_filter.rs`) belongs to one
//! pass over it.
//!
//! The rule, for the versions of one key in the input, newest first, where w is the next newer version of v, or the oldest
//! range tombstone of the input over the key with a number above v's, if that is nearer:
//! - v is *seen* if it has no such w, or some pin p has v <= p < w; what is seen is kept;
//! - what a kept operand is folded into is kept: the next older version, unless a range tombstone stands between the two;
//! - a range tombstone is kept, at each key, by the same rule among the range tombstones alone;
//! - at the bottom (nothing older of this key range exists anywhere), a tombstone t of either sort, even the newest, is
//!   dropped if and only if no pin is < t;
//! - if ZERO is a pin, a snapshot is being taken and its number is not known yet: everything is kept.
//!
//! Why every reader sees the same before and after. Readers are at a pin, or at a number not below any in the input: a
//! snapshot is pinned with ZERO before its number is read, so a number that was not pinned when the retention was taken
//! is read afterwards.
//! 1. A reader at p sees the newest version v <= p of the input, unless a range tombstone t has v < t <= p. If it sees v,
//!    then v has no w, or v <= p < w, and it is kept. Dropping versions never shows an older one to p in v's place, as v stays.
//! 2. If v is an operand, p goes on to the next older version u, unless a range tombstone t has u < t <= p; those with
//!    t > v it would have met at v, so only t in (u, v] matter, and without one u is kept. So it goes for all that p gathers.
//! 3. Where p meets a range tombstone t, it meets t or another one over the key after: t has no next newer one, or that has
//!    number t' and p < t', or p is in no [t, t') for any pin and t' <= p does what t did.
//! 4. If v is a tombstone dropped at the bottom, p must find nothing. No pin is below v, so each version u older than v,
//!    with w <= v, has no pin in [u, w) and is folded into by nothing newer than v; it was dropped in the same pass; and nothing
//!    older lies elsewhere. A tombstone above v is unaffected. So p finds nothing.
//! 5. The same holds pass after pass: a later pass has an input in which every reader that then exists sees what it saw,
//!    and its pins are pins of the pass before or newer than that pass's input. A pass over some of a key's versions
//!    (a bundle of adjacent age) only takes away versions that lie behind a kept one for all readers, so a reader that
//!    finds its version there or below still does; what a newer operand elsewhere goes on to is the newest of the input, which
//!    has no w, or a range tombstone. A tombstone is dropped only with everything below it.

use crate::util::SequenceNumber;

/// The numbers at which somebody reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    pins: Vec<SequenceNumber>,
}

impl Retention {
    /// A retention for these pins, ascending (sorted here if they are not).
    pub fn new(mut pins: Vec<SequenceNumber>) -> Self {
        pins.sort_unstable();
        pins.dedup();
        Self { pins }
    }

    /// Whether one of these pins that could keep a version numbered below `end` is not among the later ones.
    pub fn has_lost(&self, later: &Self, end: SequenceNumber) -> bool {
        self.pins.iter().take_while(|pin| **pin < end).any(|pin| later.pins.binary_search(pin).is_err())
    }

    /// The oldest pin.
    pub fn oldest(&self) -> Option<SequenceNumber> {
        self.pins.first().copied()
    }

    /// Whether this is one of the pins.
    pub fn has(&self, pin: SequenceNumber) -> bool {
        self.pins.binary_search(&pin).is_ok()
    }

    pub(super) fn keeps_all(&self) -> bool {
        self.pins.first() == Some(&SequenceNumber::ZERO)
    }

    /// Whether somebody sees a version that `hidden_by` hides from all who read at that number or later.
    pub(super) fn sees(&self, number: SequenceNumber, hidden_by: Option<SequenceNumber>) -> bool {
        hidden_by.is_none_or(|hidden_by| self.keeps_all() || self.pinned_in(number, hidden_by))
    }

    /// Whether to keep a tombstone with this next newer one.
    pub(super) fn keeps_tombstone(&self, number: SequenceNumber, newer: Option<SequenceNumber>, bottom: bool) -> bool {
        self.sees(number, newer) && (!bottom || self.pinned_below(number))
    }

    /// Whether some pin p has `from <= p < to`.
    fn pinned_in(&self, from: SequenceNumber, to: SequenceNumber) -> bool {
        let first = self.pins.partition_point(|pin| *pin < from);
        self.pins.get(first).is_some_and(|pin| *pin < to)
    }

    pub(super) fn pinned_below(&self, number: SequenceNumber) -> bool {
        self.pins.first().is_some_and(|pin| *pin < number)
    }
}

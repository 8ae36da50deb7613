//! The one rule of which versions incorporation and compaction retain (cLSM §3.2.2 has its simplest form). Immutable;
//! any thread.
//!
//! A `Retention` is taken once, before an input is read, and may be shared. A `VersionFilter` (`version_filter.rs`)
//! belongs to one pass over the input.
//!
//! The rule for the versions of one key in the input, newest first. Let w be the next newer version of v, or the oldest
//! range tombstone of the input over the key with a number above v's, if that one is nearer:
//! - v is *seen* if it has no such w, or if some pin p has v <= p < w. Seen versions are retained.
//! - The version that a retained operand is folded onto is retained: the next older version, unless a range tombstone
//!   is between the two.
//! - A range tombstone is retained, at each key, by the same rule among the range tombstones alone.
//! - At the bottom (nothing older of this key range exists anywhere), a tombstone t of either sort, even the newest, is
//!   dropped if and only if no pin is < t.
//! - If ZERO is a pin, a snapshot is being taken and its number is not known yet: everything is retained.
//! - A version that has expired for the reader at the oldest pin has expired for all others as well. It is a tombstone here
//!   (`expired.rs`).
//!
//! Why every reader sees the same before and after. Readers are at a pin, or at a number not below any in the input: a
//! snapshot is pinned with ZERO before its number is read, so a number that was not pinned when the retention was taken
//! is read afterwards.
//! 1. A reader at p sees the newest version v <= p of the input, unless a range tombstone t has v < t <= p. If it sees
//!    v, then v has no w, or v <= p < w, so v is retained. Since v stays, dropping other versions never shows p an
//!    older one in its place.
//! 2. If v is an operand, p continues with the next older version u, unless a range tombstone t has u < t <= p. A
//!    tombstone t > v would have hidden v already, so only t in (u, v] matter, and without one u is retained. The same
//!    holds for every further version that p reads.
//! 3. If p meets a range tombstone t, it meets t or another one over the key afterwards: t has no next newer one, or
//!    the next newer one has number t' and p < t', or p is in no [t, t') for any pin, and t' <= p has the effect of t.
//! 4. If v is a tombstone dropped at the bottom, p must find nothing. No pin is below v, so each version u older than
//!    v, with w <= v, has no pin in [u, w), and nothing newer than v is folded onto it. So u was dropped in the same
//!    pass, and nothing older exists elsewhere. A tombstone above v is unaffected. So p finds nothing.
//! 5. The same holds pass after pass. A later pass has an input in which every reader that then exists sees what it saw
//!    before, and its pins are pins of the earlier pass or newer than that pass's input. A pass over some of a key's
//!    versions (a bundle of adjacent age) removes only versions that are hidden behind a retained one for all readers,
//!    so a reader that finds its version there or below still does. The version that a newer operand elsewhere
//!    continues with is the newest of the input, which has no w, or a range tombstone. A tombstone is dropped only with
//!    everything below it.

use super::compaction_filter::Filtering;
use super::expired::Expired;
use crate::util::SequenceNumber;
use crate::util::sync::Arc;

/// The numbers at which readers may read, and the compaction filters that are asked about what none of them can read.
#[derive(Clone, Debug, Default)]
pub struct Retention {
    pins: Vec<SequenceNumber>,
    expired: Arc<Expired>,
    filtering: Option<Arc<Filtering>>,
}

impl Retention {
    /// A retention for these pins.
    pub fn new(mut pins: Vec<SequenceNumber>) -> Self {
        pins.sort_unstable();
        pins.dedup();
        Self { pins, expired: Arc::default(), filtering: None }
    }

    /// Sets what has expired for the reader at the oldest pin, or for all readers if there is none.
    pub fn with_expired(mut self, expired: Arc<Expired>) -> Self {
        if !self.retains_all() {
            self.expired = expired;
        }
        self
    }

    /// Sets the compaction filters of the job for which this is.
    pub fn with_filtering(mut self, filtering: Option<Arc<Filtering>>) -> Self {
        self.filtering = filtering;
        self
    }

    /// The compaction filters of the job.
    pub fn filtering(&self) -> Option<&Filtering> {
        self.filtering.as_deref()
    }

    /// The same for readers without snapshots.
    pub fn without_pins(&self) -> Self {
        Self { pins: Vec::new(), expired: Arc::clone(&self.expired), filtering: None }
    }

    /// What has expired for all readers.
    pub fn expired(&self) -> &Arc<Expired> {
        &self.expired
    }

    /// Whether a pin of this retention that could retain a version with a number below `end` is missing in the later
    /// one.
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

    pub(super) fn retains_all(&self) -> bool {
        self.pins.first() == Some(&SequenceNumber::ZERO)
    }

    /// Whether a reader sees a version that `hidden_by` hides from all readers at that number or later.
    pub(super) fn sees(&self, number: SequenceNumber, hidden_by: Option<SequenceNumber>) -> bool {
        hidden_by.is_none_or(|hidden_by| self.retains_all() || self.pinned_in(number, hidden_by))
    }

    /// Whether to retain a tombstone whose next newer one is `newer`.
    pub(super) fn retains_tombstone(
        &self,
        number: SequenceNumber,
        newer: Option<SequenceNumber>,
        bottom: bool,
    ) -> bool {
        self.sees(number, newer) && (!bottom || self.pinned_below(number))
    }

    /// Whether some pin p has `from <= p < to`.
    fn pinned_in(&self, from: SequenceNumber, to: SequenceNumber) -> bool {
        let first = self.pins.partition_point(|pin| *pin < from);
        self.pins.get(first).is_some_and(|pin| *pin < to)
    }

    /// Whether some pin p has `from <= p`, or a snapshot is being taken.
    pub(super) fn pinned_from(&self, from: SequenceNumber) -> bool {
        self.retains_all() || self.pins.last().is_some_and(|pin| *pin >= from)
    }

    pub(super) fn pinned_below(&self, number: SequenceNumber) -> bool {
        self.pins.first().is_some_and(|pin| *pin < number)
    }
}

//! What one job does with the compaction filters of its store: asking them, and what they have changed.

use super::{CompactionFilter, FilterDecision, FilterMap, FilterPair};
use crate::util::hash::encoded_key_hash;
use crate::util::sync::{Arc, Mutex};
use crate::util::{KeyspaceId, SequenceNumber, key};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// At most so many keys are remembered one by one.
const HASHES_MAX: usize = 1 << 16;

/// The filters of a job. Any thread.
#[derive(Debug)]
pub struct Filtering {
    filters: Arc<FilterMap>,
    /// Whether the filters are asked. Otherwise the job only writes what they would be asked about.
    is_asked: bool,
    /// Whether files with keys that the filters are asked about are written anew, whatever else is in them.
    rewrites_all: bool,
    found: Mutex<Filtered>,
}

/// What filters have changed. Plain data.
#[derive(Debug, Default)]
pub struct Filtered {
    /// Removed pairs.
    pub removed: u64,
    /// Pairs with a new value.
    pub replaced: u64,
    /// Pairs that stay because the filter panicked.
    pub panics: u64,
    /// Pairs that stay because the new value was too large.
    pub refused: u64,
    /// The least number of a pair that was removed or replaced.
    pub least: Option<SequenceNumber>,
    /// Of removed and replaced pairs, the hashes of the encoded keys; `None` if there are too many.
    pub hashes: Option<Vec<u64>>,
}

impl Filtered {
    fn note_changed(&mut self, key: &[u8], number: SequenceNumber) {
        if self.least.is_none() {
            self.hashes = Some(Vec::new());
        }
        self.least = Some(self.least.map_or(number, |least| least.min(number)));
        self.hashes = self.hashes.take().filter(|hashes| hashes.len() < HASHES_MAX);
        if let Some(hashes) = &mut self.hashes {
            hashes.push(encoded_key_hash(key));
        }
    }

    fn add(&mut self, other: Self) {
        self.removed += other.removed;
        self.replaced += other.replaced;
        self.panics += other.panics;
        self.refused += other.refused;
        if other.least.is_none() {
            return;
        }
        let joined = match (self.least.is_none(), self.hashes.take(), other.hashes) {
            (true, _, hashes) => hashes,
            (false, Some(mut own), Some(others)) => {
                own.extend(others);
                Some(own)
            }
            (false, ..) => None,
        };
        self.hashes = joined.filter(|hashes| hashes.len() <= HASHES_MAX);
        self.least = self.least.into_iter().chain(other.least).min();
    }
}

impl Filtering {
    /// Of a job that asks these filters. `rewrites_all`: it writes anew all that they can be asked about.
    pub fn new(filters: Arc<FilterMap>, rewrites_all: bool) -> Arc<Self> {
        Arc::new(Self { filters, is_asked: true, rewrites_all, found: Mutex::default() })
    }

    /// Of the same job, which asks no filter.
    pub fn without_filters(&self) -> Arc<Self> {
        let filters = Arc::clone(&self.filters);
        Arc::new(Self { filters, is_asked: false, rewrites_all: self.rewrites_all, found: Mutex::default() })
    }

    /// Whether a file with encoded keys from `first` to `last` must be written anew.
    pub fn rewrites(&self, first: &[u8], last: &[u8]) -> bool {
        self.rewrites_all && self.filters.is_any_within(first, last)
    }

    /// A pass over data; `None` if no filter is asked.
    pub fn begin(&self) -> Option<FilterPass<'_>> {
        self.is_asked.then(|| FilterPass { filtering: self, filter: None, found: Filtered::default() })
    }

    /// What was changed by the passes that have ended.
    pub fn take_found(&self) -> Filtered {
        std::mem::take(&mut self.found.lock())
    }
}

/// One pass over data, which asks the filters. One thread.
#[derive(Debug)]
pub struct FilterPass<'a> {
    filtering: &'a Filtering,
    /// The last keyspace, and its filter.
    filter: Option<(KeyspaceId, Option<&'a Arc<dyn CompactionFilter>>)>,
    found: Filtered,
}

impl FilterPass<'_> {
    /// What becomes of a pair. `value`: `None` for one in a file of its own. `bytes_max`: a new value has fewer bytes.
    pub fn decide(
        &mut self,
        encoded: &[u8],
        value: Option<&[u8]>,
        number: SequenceNumber,
        bytes_max: usize,
    ) -> FilterDecision {
        let Some((keyspace, key)) = key::split(encoded) else { return FilterDecision::Keep };
        if self.filter.is_none_or(|(of, _)| of != keyspace) {
            self.filter = Some((keyspace, self.filtering.filters.get(keyspace)));
        }
        let Some(filter) = self.filter.and_then(|(_, filter)| filter) else { return FilterDecision::Keep };
        let pair = FilterPair { key, value, number: number.0 };
        let Ok(decision) = catch_unwind(AssertUnwindSafe(|| filter.filter(&pair))) else {
            self.found.panics += 1;
            return FilterDecision::Keep;
        };
        match &decision {
            FilterDecision::Keep => return decision,
            FilterDecision::Replace(value) if value.len() >= bytes_max => {
                self.found.refused += 1;
                return FilterDecision::Keep;
            }
            FilterDecision::Replace(_) => self.found.replaced += 1,
            FilterDecision::Remove => self.found.removed += 1,
        }
        self.found.note_changed(encoded, number);
        decision
    }
}

impl Drop for FilterPass<'_> {
    fn drop(&mut self) {
        self.filtering.found.lock().add(std::mem::take(&mut self.found));
    }
}

//! Keys and key ranges with a prefix.

use crate::octets::Octets;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::borrow::Cow;
use std::ops::Bound as End;

/// A range of whole keys.
pub type Range = (End<Vec<u8>>, End<Vec<u8>>);

/// Returns the store's key for a caller's key.
pub fn whole<'k>(prefix: &[u8], key: &'k [u8]) -> Cow<'k, [u8]> {
    if prefix.is_empty() { Cow::Borrowed(key) } else { Cow::Owned([prefix, key].concat()) }
}

/// Returns the upper bound of the keys with a prefix.
pub fn end_of_prefix(prefix: &[u8]) -> End<Vec<u8>> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX).map(|last| &prefix[..=last]);
    match kept.and_then(<[u8]>::split_last) {
        Some((last, before)) => End::Excluded([before, &[last + 1]].concat()),
        None => End::Unbounded,
    }
}

/// A caller's description of a range, as in plyvel.
pub struct Limits<'py> {
    /// The lower bound.
    pub start: Option<Octets<'py>>,
    /// The upper bound.
    pub stop: Option<Octets<'py>>,
    /// Whether the lower bound belongs to the range.
    pub include_start: bool,
    /// Whether the upper bound belongs to the range.
    pub include_stop: bool,
    /// The prefix of all keys; excludes `start` and `stop`.
    pub prefix: Option<Octets<'py>>,
}

impl Limits<'_> {
    /// Returns the range of whole keys, with the view's prefix.
    pub fn range(&self, behind: &[u8]) -> PyResult<Range> {
        if let Some(prefix) = &self.prefix {
            if self.start.is_some() || self.stop.is_some() {
                return Err(PyTypeError::new_err("'prefix' cannot be used together with 'start' or 'stop'"));
            }
            return Ok(with_prefix(&whole(behind, prefix)));
        }
        let (first, last) = with_prefix(behind);
        let end = |key: &[u8], included| {
            let key = whole(behind, key).into_owned();
            if included { End::Included(key) } else { End::Excluded(key) }
        };
        Ok((
            self.start.as_ref().map_or(first, |start| end(start, self.include_start)),
            self.stop.as_ref().map_or(last, |stop| end(stop, self.include_stop)),
        ))
    }
}

fn with_prefix(prefix: &[u8]) -> Range {
    let first = if prefix.is_empty() { End::Unbounded } else { End::Included(prefix.to_vec()) };
    (first, end_of_prefix(prefix))
}

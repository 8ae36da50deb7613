//! What a batch stores of its operations: their bytes one after the other, and where each has its own. So one more operation needs
//! no allocation of its own. Plain data.

use crate::engine::types::bounds::UserRange;
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::user_key::UserKey;
use crate::util::KeyspaceId;

/// See the module.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Steps {
    places: Vec<Place>,
    /// Keys, values and bounds in the order of the operations.
    bytes: Vec<u8>,
}

/// One operation, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step<'b> {
    Write(UserKey<&'b [u8]>, KeyChange<&'b [u8]>),
    /// Deletes the keys from the first one up to, but without, the second one; `None` if nothing bounds them.
    DeleteRange(UserKey<&'b [u8]>, Option<&'b [u8]>),
}

/// Where the bytes of an operation are: two strings, the second one after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    start: usize,
    /// Bytes of the key, or of the first key of a range.
    first: usize,
    /// Bytes of the value, the operand or the end of a range.
    second: usize,
    keyspace: KeyspaceId,
    kind: StepKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepKind {
    Put,
    Delete,
    Merge,
    DeleteRange,
    /// A range without an end.
    DeleteFrom,
}

impl Steps {
    pub(super) fn with_capacity(operations: usize, bytes: usize) -> Self {
        Self { places: Vec::with_capacity(operations), bytes: Vec::with_capacity(bytes) }
    }

    pub(super) fn reserve(&mut self, operations: usize) {
        self.places.reserve(operations);
    }

    #[inline]
    pub(super) fn push_write(&mut self, key: UserKey<&[u8]>, change: KeyChange<&[u8]>) {
        let (kind, value) = match change {
            KeyChange::Put(value) => (StepKind::Put, value),
            KeyChange::Delete => (StepKind::Delete, &[][..]),
            KeyChange::Merge(operand) => (StepKind::Merge, operand),
        };
        self.push(kind, key, value);
    }

    pub(super) fn push_delete(&mut self, UserRange { keyspace, start, end }: &UserRange) {
        let kind = if end.is_some() { StepKind::DeleteRange } else { StepKind::DeleteFrom };
        self.push(kind, UserKey::new(*keyspace, start), end.as_deref().unwrap_or_default());
    }

    #[inline]
    fn push(&mut self, kind: StepKind, UserKey { keyspace, bytes }: UserKey<&[u8]>, second: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(second);
        self.places.push(Place { start, first: bytes.len(), second: second.len(), keyspace, kind });
    }

    pub(super) fn append(&mut self, other: &Self) {
        let shift = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.places.extend(other.places.iter().map(|place| Place { start: place.start + shift, ..*place }));
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.bytes.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Bytes of all keys, values and bounds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn is_in(&self, keyspace: KeyspaceId) -> bool {
        self.places.iter().any(|place| place.keyspace == keyspace)
    }

    pub(super) fn merges(&self) -> bool {
        self.places.iter().any(|place| place.kind == StepKind::Merge)
    }

    pub(super) fn deletes_ranges(&self) -> bool {
        self.places.iter().any(|place| matches!(place.kind, StepKind::DeleteRange | StepKind::DeleteFrom))
    }

    pub(super) fn iter(&self) -> StepIter<'_> {
        StepIter { places: self.places.iter(), bytes: &self.bytes }
    }
}

/// The operations in their order.
#[derive(Clone, Debug)]
pub(super) struct StepIter<'b> {
    places: std::slice::Iter<'b, Place>,
    bytes: &'b [u8],
}

impl<'b> StepIter<'b> {
    fn step(bytes: &'b [u8], place: &Place) -> Step<'b> {
        let Place { start, first, second, keyspace, kind } = *place;
        let (first, second) = bytes[start..start + first + second].split_at(first);
        let key = UserKey::new(keyspace, first);
        match kind {
            StepKind::Put => Step::Write(key, KeyChange::Put(second)),
            StepKind::Delete => Step::Write(key, KeyChange::Delete),
            StepKind::Merge => Step::Write(key, KeyChange::Merge(second)),
            StepKind::DeleteRange => Step::DeleteRange(key, Some(second)),
            StepKind::DeleteFrom => Step::DeleteRange(key, None),
        }
    }
}

impl<'b> Iterator for StepIter<'b> {
    type Item = Step<'b>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.places.next().map(|place| Self::step(self.bytes, place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl DoubleEndedIterator for StepIter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.places.next_back().map(|place| Self::step(self.bytes, place))
    }
}

//! The path of a get: memory generations, newest first, then the tree.

use super::latches::Latches;
use super::read_side::ReadSide;
use super::view::View;
use crate::base::planted::{self, Bug};
use crate::base::{Error, KeyspaceId, Kind, Result, SequenceNumber, hash, key};
use crate::branch::{Pages, Reading};
use crate::format::value_file::ValueReference;

/// Encoded keys up to this length are built on the stack.
const KEY_ON_STACK: usize = 128;

impl ReadSide {
    /// Reads the newest version at or below `at` into `out`, replacing what it holds; false where there is none.
    pub(super) fn get_at(&self, user_key: &[u8], at: SequenceNumber, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        self.check_open()?;
        let hash = hash::key_hash(KeyspaceId::DEFAULT, user_key);
        if at == SequenceNumber::MAX && self.pins.being_taken() && !planted::is(Bug::GetDoesNotWait) {
            // Rule S3.
            self.latches.wait_for_holder(Latches::index_of(hash));
        }
        let view = self.view.load();
        self.find(&view, (user_key, hash), at, &mut Reading::new(), out)
    }

    /// As `get_at`, in a view that the caller holds, for a key with its hash, over a source of pages. Appends to `out`.
    pub(super) fn find<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        (user_key, hash): (&[u8], u64),
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<bool, P::Stop> {
        let keyspace = KeyspaceId::DEFAULT;
        let generations = &view.generations;
        for (age, generation) in generations.iter().enumerate() {
            let oldest_first = planted::is(Bug::OldestGenerationFirst);
            let generation = if oldest_first { &generations[generations.len() - 1 - age] } else { generation };
            if let Some((_, kind)) = generation.memtable.get(keyspace, user_key, hash, at, out) {
                return Ok(self.resolve(kind, out)?);
            }
        }
        match with_encoded(keyspace, user_key, |encoded| view.tree.get(encoded, hash, at, pages, out))? {
            Some((_, kind)) => Ok(self.resolve(kind, out)?),
            None => Ok(false),
        }
    }

    /// Turns what an entry holds into the user's value. The caller's view keeps value files from being removed.
    pub(super) fn resolve(&self, kind: Kind, out: &mut Vec<u8>) -> Result<bool> {
        match kind {
            Kind::Put => Ok(true),
            Kind::Delete => Ok(false),
            Kind::ValueReference => {
                let Some(reference) = ValueReference::decode(out) else {
                    return Err(self.bad_reference(out));
                };
                out.clear();
                self.values.read(&reference, out)?;
                Ok(true)
            }
            Kind::RangeDelete | Kind::Merge | Kind::Void | Kind::Batch => Err(Error::corruption(
                self.storage.path(),
                0,
                "kind of an entry",
                "put, delete or value reference",
                format!("{kind:?}"),
            )),
        }
    }

    pub(super) fn bad_reference(&self, found: &[u8]) -> Error {
        let (expected, found) = (format!("{} bytes", ValueReference::BYTES), format!("{} bytes", found.len()));
        Error::corruption(self.storage.path(), 0, "value reference", expected, found)
    }
}

/// Calls `f` with the encoded form of a key, on the stack where it is short: a get allocates nothing.
fn with_encoded<T>(keyspace: KeyspaceId, user_key: &[u8], f: impl FnOnce(&[u8]) -> T) -> T {
    let length = KeyspaceId::BYTES + user_key.len();
    if length <= KEY_ON_STACK {
        let mut encoded = [0u8; KEY_ON_STACK];
        encoded[..KeyspaceId::BYTES].copy_from_slice(&keyspace.0.to_be_bytes());
        encoded[KeyspaceId::BYTES..length].copy_from_slice(user_key);
        f(&encoded[..length])
    } else {
        f(&key::encoded(keyspace, user_key))
    }
}

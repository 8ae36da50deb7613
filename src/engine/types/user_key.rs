//! A user's key with its keyspace, as calls of the engine pass it. Pure; any thread.

use crate::util::{KeyspaceId, hash, key};

/// A user's key with its keyspace; sorted by (keyspace, key), as encoded keys are. `B` holds the key's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UserKey<B> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) bytes: B,
}

impl<'k> UserKey<&'k [u8]> {
    #[inline]
    pub(crate) fn new<K: AsRef<[u8]> + ?Sized>(keyspace: KeyspaceId, key: &'k K) -> Self {
        Self { keyspace, bytes: key.as_ref() }
    }

    /// A key of the default keyspace.
    #[inline]
    pub(crate) fn of_default<K: AsRef<[u8]> + ?Sized>(key: &'k K) -> Self {
        Self::new(KeyspaceId::DEFAULT, key)
    }

    #[inline]
    pub(crate) fn hash(self) -> u64 {
        hash::key_hash(self.keyspace, self.bytes)
    }

    /// Calls `f` with the encoded key; allocates nothing for a short key.
    #[inline]
    pub(crate) fn with_encoded<T>(self, f: impl FnOnce(&[u8]) -> T) -> T {
        key::with_encoded(self.keyspace, self.bytes, f)
    }
}

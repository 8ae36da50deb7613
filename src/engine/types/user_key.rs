//! A user's key with its keyspace, as calls of the engine pass it. Pure; any thread.

use crate::util::{KeyspaceId, hash, key};

/// A user's key with its keyspace; sorted by (keyspace, key), as encoded keys are. `B` holds the key's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UserKey<B> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) bytes: B,
}

impl<B: AsRef<[u8]>> UserKey<B> {
    /// The same key with borrowed bytes.
    #[inline]
    pub(crate) fn as_bytes(&self) -> UserKey<&[u8]> {
        UserKey { keyspace: self.keyspace, bytes: self.bytes.as_ref() }
    }
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

    /// The key that an encoded key stands for; `None` if that is too short.
    pub(crate) fn of_encoded(encoded: &'k [u8]) -> Option<Self> {
        let (keyspace, bytes) = key::split(encoded)?;
        Some(Self { keyspace, bytes })
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

    pub(crate) fn encoded(self) -> Vec<u8> {
        key::encoded(self.keyspace, self.bytes)
    }

    /// The same key with bytes of its own.
    pub(crate) fn to_owned(self) -> UserKey<Vec<u8>> {
        UserKey { keyspace: self.keyspace, bytes: self.bytes.to_vec() }
    }
}

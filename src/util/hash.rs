//! The one hash of a key. Latches, the hash index of a Memtable, fingerprints and filters all use it, so that an
//! operation computes it once. XXH3 is frozen, so the hash may be stored on disk. Pure; any thread.

use super::KeyspaceId;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed, xxh3_128};

/// The 64-bit hash of a key of a keyspace.
pub fn key_hash(keyspace: KeyspaceId, user_key: &[u8]) -> u64 {
    if keyspace.0 == 0 { xxh3_64(user_key) } else { xxh3_64_with_seed(user_key, u64::from(keyspace.0)) }
}

/// The hash of an encoded key (see `key::encode`); equal to `key_hash` of its parts.
pub fn encoded_key_hash(encoded: &[u8]) -> u64 {
    match super::key::split(encoded) {
        Some((keyspace, user_key)) => key_hash(keyspace, user_key),
        None => xxh3_64(encoded),
    }
}

/// The 32 bits of a key's hash that filters and fingerprint lists store.
pub fn fingerprint(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// A hash of plain bytes, for salts and similar uses.
pub fn bytes_hash(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// A hash of the whole content of a file, for backups.
pub fn content_hash(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

/// The same for content that comes in pieces.
#[derive(Default)]
pub struct ContentHasher(Xxh3);

impl ContentHasher {
    /// Adds the next piece.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The hash of all pieces so far.
    pub fn finish(&self) -> u128 {
        self.0.digest128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_on_disk_never_changes() {
        assert_eq!(key_hash(KeyspaceId(0), b""), 0x2d06800538d394c2);
        assert_eq!(key_hash(KeyspaceId(0), b"alluvium"), encoded_key_hash(b"\0\0\0\0alluvium"));
        assert_eq!(key_hash(KeyspaceId(7), b"alluvium"), encoded_key_hash(b"\0\0\0\x07alluvium"));
        assert_ne!(key_hash(KeyspaceId(0), b"alluvium"), key_hash(KeyspaceId(7), b"alluvium"));
        assert_eq!(content_hash(b""), 0x99aa_06d3_0147_98d8_6001_c324_468d_497f);
        let mut hasher = ContentHasher::default();
        hasher.add(b"allu");
        hasher.add(b"vium");
        assert_eq!(hasher.finish(), content_hash(b"alluvium"));
    }
}

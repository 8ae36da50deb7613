//! The catalog: the list of a store's keyspaces. It is the contents of a keyspace of its own, `KeyspaceId::CATALOG`. So what
//! creates or drops a keyspace is a write like any other, with a number. Pure functions over bytes; any thread.
//!
//! | key | value |
//! | --- | --- |
//! | `k`, then the name of a keyspace in UTF-8 | version: byte 1; id: varint; fields in the order of their tags: {tag: byte, length: varint, bytes} |
//! | `n` | the id of the next keyspace that is created: varint |
//! | `r`, then an id, 4 bytes, big-endian | empty: the keyspace was dropped, and its space is to be freed |
//! | `d`, then a date, 8 bytes, big-endian, milliseconds since 1970 | varint: all sequence numbers up to this one were taken by then |
//! | `e`, then an id, 4 bytes, big-endian | varint: the versions of the keyspace up to this sequence number have expired |
//!
//! | tag | field |
//! | --- | --- |
//! | 1 | name of the merge operator, UTF-8 |
//! | 2 | durability: byte 0 buffered, 1 sync, 2 unlogged |
//! | 3 | compression: byte, as in a page's header |
//! | 4 | expiry: varint, milliseconds, not 0 |

use super::page::Compression;
use crate::util::{KeyspaceId, SequenceNumber, varint};

/// The key under which the id of the next keyspace is.
pub const NEXT_ID: &[u8] = b"n";
/// The prefix of the keys with names.
pub const NAMES: &[u8] = b"k";
/// The prefix of the keys of keyspaces whose space is to be freed.
pub const TO_FREE: &[u8] = b"r";
/// The prefix of the keys with dates.
pub const DATES: &[u8] = b"d";
/// The prefix of the keys that say what has expired.
pub const EXPIRED: &[u8] = b"e";

const VERSION: u8 = 1;
const TAG_MERGE_OPERATOR: u8 = 1;
const TAG_DURABILITY: u8 = 2;
const TAG_COMPRESSION: u8 = 3;
const TAG_EXPIRY: u8 = 4;

/// What the catalog has of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its id, which no other keyspace of the store had or will have.
    pub id: KeyspaceId,
    /// The name of its merge operator; empty if it has none.
    pub merge_operator: String,
    /// The durability of its writes, as a byte; `None` if it is the store's.
    pub durability: Option<u8>,
    /// The compression of its leaves; `None` if it is the store's.
    pub compression: Option<Compression>,
    /// How old its pairs get, milliseconds; `None` if they do not expire.
    pub expiry: Option<u64>,
}

/// The key of a keyspace's entry.
pub fn key_of(name: &str) -> Vec<u8> {
    [NAMES, name.as_bytes()].concat()
}

/// The name of the keyspace with this key; `None` if that is not the key of an entry.
pub fn name_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.strip_prefix(NAMES)?).ok()
}

/// The key that says that a keyspace's space is to be freed.
pub fn key_to_free(id: KeyspaceId) -> Vec<u8> {
    [TO_FREE, &id.0.to_be_bytes()].concat()
}

/// The keyspace whose space is to be freed according to this key.
pub fn id_to_free(key: &[u8]) -> Option<KeyspaceId> {
    let id = key.strip_prefix(TO_FREE)?.try_into().ok()?;
    Some(KeyspaceId(u32::from_be_bytes(id)))
}

/// The key with a date, milliseconds since 1970.
pub fn key_of_date(date: u64) -> Vec<u8> {
    [DATES, &date.to_be_bytes()].concat()
}

/// The date in a key.
pub fn date_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.strip_prefix(DATES)?.try_into().ok()?))
}

/// The key that says what has expired of a keyspace.
pub fn key_of_expired(id: KeyspaceId) -> Vec<u8> {
    [EXPIRED, &id.0.to_be_bytes()].concat()
}

/// The keyspace of which a key says what has expired.
pub fn id_of_expired(key: &[u8]) -> Option<KeyspaceId> {
    Some(KeyspaceId(u32::from_be_bytes(key.strip_prefix(EXPIRED)?.try_into().ok()?)))
}

/// The value under a date, and under the key that says what has expired.
pub fn encode_number(number: SequenceNumber) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(number.0, &mut out);
    out
}

/// Decodes what `encode_number` wrote.
pub fn decode_number(mut bytes: &[u8]) -> Option<SequenceNumber> {
    let number = varint::read(&mut bytes)?;
    bytes.is_empty().then_some(SequenceNumber(number))
}

/// The value under `NEXT_ID`.
pub fn encode_next_id(id: KeyspaceId) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(u64::from(id.0), &mut out);
    out
}

/// Decodes what `encode_next_id` wrote.
pub fn decode_next_id(mut bytes: &[u8]) -> Option<KeyspaceId> {
    let id = decode_id(&mut bytes)?;
    bytes.is_empty().then_some(id)
}

fn decode_id(bytes: &mut &[u8]) -> Option<KeyspaceId> {
    let id = KeyspaceId(u32::try_from(varint::read(bytes)?).ok()?);
    (KeyspaceId::DEFAULT < id && id < KeyspaceId::CATALOG).then_some(id)
}

impl CatalogEntry {
    /// The entry's value.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        varint::write(u64::from(self.id.0), &mut out);
        if !self.merge_operator.is_empty() {
            out.push(TAG_MERGE_OPERATOR);
            varint::write_bytes(self.merge_operator.as_bytes(), &mut out);
        }
        if let Some(durability) = self.durability {
            out.push(TAG_DURABILITY);
            varint::write_bytes(&[durability], &mut out);
        }
        if let Some(compression) = self.compression {
            out.push(TAG_COMPRESSION);
            varint::write_bytes(&[compression as u8], &mut out);
        }
        if let Some(expiry) = self.expiry {
            out.push(TAG_EXPIRY);
            varint::write_bytes(&encode_number(SequenceNumber(expiry)), &mut out);
        }
        out
    }

    /// Decodes what `encode` wrote. `None` if the bytes are damaged, or if a newer version wrote them.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bytes = bytes.strip_prefix(&[VERSION])?;
        let mut entry = Self { id: decode_id(&mut bytes)?, ..Self::default() };
        let mut last = 0;
        while let Some((&tag, rest)) = bytes.split_first() {
            bytes = rest;
            let field = varint::read_bytes(&mut bytes)?;
            match (tag, field) {
                _ if tag <= last => return None,
                (TAG_MERGE_OPERATOR, [_, ..]) => entry.merge_operator = std::str::from_utf8(field).ok()?.to_owned(),
                (TAG_DURABILITY, [durability @ 0..=2]) => entry.durability = Some(*durability),
                (TAG_COMPRESSION, [compression]) => entry.compression = Some(Compression::from_byte(*compression)?),
                (TAG_EXPIRY, [_, ..]) => {
                    entry.expiry = Some(decode_number(field)?.0);
                    if entry.expiry == Some(0) {
                        return None;
                    }
                }
                _ => return None,
            }
            last = tag;
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<CatalogEntry> {
        let id = KeyspaceId(300);
        let merge_operator = || "alluvium.add".to_owned();
        vec![
            CatalogEntry { id, ..CatalogEntry::default() },
            CatalogEntry { id, merge_operator: merge_operator(), ..CatalogEntry::default() },
            CatalogEntry {
                id: KeyspaceId(1),
                merge_operator: merge_operator(),
                durability: Some(2),
                compression: Some(Compression::Lz4),
                expiry: Some(1000),
            },
            CatalogEntry { id: KeyspaceId(u32::MAX - 2), durability: Some(0), ..CatalogEntry::default() },
        ]
    }

    #[test]
    fn entries_are_decoded_as_they_were_encoded() {
        for entry in entries() {
            assert_eq!(CatalogEntry::decode(&entry.encode()), Some(entry));
        }
        assert_eq!(entries()[2].encode(), b"\x01\x01\x01\x0calluvium.add\x02\x01\x02\x03\x01\x01\x04\x02\xe8\x07");
        assert_eq!(name_of(&key_of("users")), Some("users"));
        assert_eq!(id_to_free(&key_to_free(KeyspaceId(7))), Some(KeyspaceId(7)));
        assert_eq!(decode_next_id(&encode_next_id(KeyspaceId(9))), Some(KeyspaceId(9)));
        assert_eq!(date_of(&key_of_date(1_700_000_000_000)), Some(1_700_000_000_000));
        assert_eq!(id_of_expired(&key_of_expired(KeyspaceId(7))), Some(KeyspaceId(7)));
        assert_eq!(decode_number(&encode_number(SequenceNumber(300))), Some(SequenceNumber(300)));
    }

    /// Whatever decodes is the only encoding of its entry, so neither cut nor changed bytes pass for another entry.
    #[test]
    fn other_bytes_are_refused_or_mean_what_they_say() {
        for bytes in entries().iter().map(CatalogEntry::encode) {
            for cut in 0..bytes.len() {
                let found = CatalogEntry::decode(&bytes[..cut]);
                assert!(found.is_none_or(|found| found.encode() == bytes[..cut]), "{bytes:?} cut at {cut}");
            }
            for (at, byte) in (0..bytes.len()).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                let mut changed = bytes.clone();
                changed[at] = byte;
                let found = CatalogEntry::decode(&changed);
                assert!(found.is_none_or(|found| found.encode() == changed), "{changed:?}");
            }
        }
        for bytes in [&b""[..], b"\x00", b"\xff\xff\xff\xff\x0f", b"\x01\x00"] {
            assert_eq!(decode_next_id(bytes), None, "{bytes:?}");
        }
        assert_eq!((date_of(b"d123"), id_of_expired(b"r1234"), decode_number(b"\x01\x00")), (None, None, None));
        assert_eq!(
            (name_of(b"n"), name_of(b"k\xff"), id_to_free(b"r123"), id_to_free(b"k1234")),
            (None, None, None, None)
        );
    }
}

//! The description of a backup. Pure; any thread.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `ALVBACKP` |
//! | 8 | 4 | format version |
//! | 12 | 4 | zero |
//! | 16 | 8 | id of the backup |
//! | 24 | 8 | time, milliseconds since 1970; 0 if it is unknown |
//! | 32 | 8 | sequence number: the backup has every write up to this one |
//! | 40 | 8 | database id |
//! | 48 | 8 | number of files |
//! | 56 | 8 | length of the manifest |
//! | 64 | | for each file: length of the name, 1 byte; the name; length of the file, 8; XXH3-128 of the file, 16 |
//! | | | the manifest of the restored store, as the file `MANIFEST` has it |
//! | | 16 | XXH3-128 of everything before it |

use super::{HASH_BYTES, check, seal};
use crate::format::FORMAT_VERSION;
use crate::util::{DatabaseId, Error, Result, SequenceNumber};
use std::path::Path;

/// First bytes.
const MAGIC: [u8; 8] = *b"ALVBACKP";
/// The longest description: the longest manifest, and the names of some million files.
pub const DESCRIPTION_BYTES_MAX: u64 = 1 << 30;

const HEADER_BYTES: usize = 64;
const NAME_BYTES_MAX: usize = u8::MAX as usize;

/// A file of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Its name in the store.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// XXH3-128 of its whole content.
    pub hash: u128,
}

/// One backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupDescription {
    /// The backup's number in its directory.
    pub id: u64,
    /// Milliseconds since 1970; 0 if unknown.
    pub time: u64,
    /// Every write up to this number is in the backup, and none above.
    pub number: SequenceNumber,
    /// The store.
    pub database: DatabaseId,
    /// All files of a restored store but its manifest.
    pub files: Vec<BackupFile>,
    /// The manifest of a restored store.
    pub manifest: Vec<u8>,
}

impl BackupDescription {
    /// The bytes of the file. Names must not be longer than 255 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.files.len() * 48 + self.manifest.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let lengths = [self.files.len() as u64, self.manifest.len() as u64];
        for word in [self.id, self.time, self.number.0, self.database.0].into_iter().chain(lengths) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for file in &self.files {
            debug_assert!(file.name.len() <= NAME_BYTES_MAX, "{:?}", file.name);
            out.push(file.name.len() as u8);
            out.extend_from_slice(file.name.as_bytes());
            out.extend_from_slice(&file.bytes.to_le_bytes());
            out.extend_from_slice(&file.hash.to_le_bytes());
        }
        out.extend_from_slice(&self.manifest);
        seal(&mut out);
        out
    }

    /// Decodes the bytes of the file. `path` is for error messages.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let body = check(bytes, MAGIC, path)?;
        Self::decode_body(body).ok_or_else(|| {
            let found = "fields that do not fit its length";
            Error::corruption(path, HEADER_BYTES as u64, "backup description", "a list of files and a manifest", found)
        })
    }

    fn decode_body(body: &[u8]) -> Option<Self> {
        let (header, mut rest) = body.split_first_chunk::<HEADER_BYTES>()?;
        let [_, _, words @ ..] = header.as_chunks::<8>().0 else { return None };
        let [id, time, number, database, files, manifest] = *words else { return None };
        let count = u64::from_le_bytes(files);
        let mut files = Vec::new();
        for _ in 0..count {
            let (length, after) = rest.split_first()?;
            let (name, after) = after.split_at_checked(usize::from(*length))?;
            let (bytes, after) = after.split_first_chunk::<8>()?;
            let (hash, after) = after.split_first_chunk::<HASH_BYTES>()?;
            let name = String::from_utf8(name.to_vec()).ok()?;
            files.push(BackupFile { name, bytes: u64::from_le_bytes(*bytes), hash: u128::from_le_bytes(*hash) });
            rest = after;
        }
        (rest.len() as u64 == u64::from_le_bytes(manifest)).then(|| Self {
            id: u64::from_le_bytes(id),
            time: u64::from_le_bytes(time),
            number: SequenceNumber(u64::from_le_bytes(number)),
            database: DatabaseId(u64::from_le_bytes(database)),
            files,
            manifest: rest.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> BackupDescription {
        let file = |name: &str, bytes, hash| BackupFile { name: name.into(), bytes, hash };
        BackupDescription {
            id: 7,
            time: 1_700_000_000_000,
            number: SequenceNumber(12),
            database: DatabaseId(0x0123_4567_89ab_cdef),
            files: vec![file("000012.branch", 8192, u128::MAX - 1), file("COMPARATOR", 3, 5)],
            manifest: b"a manifest".to_vec(),
        }
    }

    #[test]
    fn it_round_trips_and_damage_is_found() {
        let path = Path::new("/backups/000007.backup");
        let empty = BackupDescription { files: Vec::new(), manifest: Vec::new(), ..description() };
        for description in [description(), empty] {
            let bytes = description.encode();
            assert_eq!(BackupDescription::decode(&bytes, path).unwrap(), description);
            for at in 0..bytes.len() {
                assert!(BackupDescription::decode(&bytes[..at], path).unwrap_err().is_damage(), "cut at {at}");
                let mut flipped = bytes.clone();
                flipped[at] ^= 4;
                let error = BackupDescription::decode(&flipped, path).unwrap_err();
                assert!(matches!(error, Error::Corruption { .. }), "flipped at {at}: {error}");
            }
        }
    }

    /// The checksum fits, but the fields do not: only another program writes this.
    #[test]
    fn fields_that_lie_are_damage() {
        let path = Path::new("/backups/000007.backup");
        for (at, value) in [(48, u64::MAX), (48, 3), (48, 1), (56, 0), (56, 11), (56, u64::MAX)] {
            let mut bytes = description().encode();
            bytes.truncate(bytes.len() - HASH_BYTES);
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            seal(&mut bytes);
            let error = BackupDescription::decode(&bytes, path).unwrap_err();
            assert!(error.to_string().contains("backup description"), "{at}: {error}");
        }
        let mut newer = description().encode();
        newer.truncate(newer.len() - HASH_BYTES);
        newer[8] += 1;
        seal(&mut newer);
        assert!(matches!(BackupDescription::decode(&newer, path), Err(Error::NewerFormat { found: 2, .. })));
    }
}

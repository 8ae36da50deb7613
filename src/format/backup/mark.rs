//! The mark of a directory of backups. Pure; any thread.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `ALVBKDIR` |
//! | 8 | 4 | format version |
//! | 12 | 4 | zero |
//! | 16 | 8 | database id of the store that the backups are of |
//! | 24 | 16 | XXH3-128 of everything before it |

use super::{HASH_BYTES, check, length_error, seal};
use crate::format::FORMAT_VERSION;
use crate::util::{DatabaseId, Result};
use std::path::Path;

/// First bytes.
const MAGIC: [u8; 8] = *b"ALVBKDIR";
/// Bytes of a mark.
pub const MARK_BYTES: usize = 24 + HASH_BYTES;

/// The mark of a directory with backups of this store.
pub fn encode_mark(database: DatabaseId) -> Vec<u8> {
    let mut out = Vec::with_capacity(MARK_BYTES);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&database.0.to_le_bytes());
    seal(&mut out);
    out
}

/// Decodes a mark. `path` is for error messages.
pub fn decode_mark(bytes: &[u8], path: &Path) -> Result<DatabaseId> {
    let body = check(bytes, MAGIC, path)?;
    let fields: &[u8; 24] = body.try_into().map_err(|_| length_error(path, MARK_BYTES, bytes.len()))?;
    let [_, _, database] = fields.as_chunks::<8>().0 else { return Err(length_error(path, MARK_BYTES, bytes.len())) };
    Ok(DatabaseId(u64::from_le_bytes(*database)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_round_trips_and_damage_is_found() {
        let path = Path::new("/backups/BACKUPS");
        let mark = encode_mark(DatabaseId(9));
        assert_eq!(mark.len(), MARK_BYTES);
        assert_eq!(decode_mark(&mark, path).unwrap(), DatabaseId(9));
        for at in 0..mark.len() {
            assert!(decode_mark(&mark[..at], path).is_err(), "cut at {at}");
            let mut flipped = mark.clone();
            flipped[at] ^= 4;
            assert!(decode_mark(&flipped, path).is_err(), "flipped at {at}");
        }
    }
}

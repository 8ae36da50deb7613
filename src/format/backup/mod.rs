//! The files of a backup directory (see also `docs/format/backup.md`). Pure; any thread.
//!
//! Both begin with a magic of 8 bytes and the format version, 4 bytes, which keep their places in every later version, and end with
//! the XXH3-128 of everything before it, 16 bytes.

mod description;
mod mark;

pub use description::{BackupDescription, BackupFile, DESCRIPTION_BYTES_MAX};
pub use mark::{MARK_BYTES, decode_mark, encode_mark};

use super::{FORMAT_VERSION, newer_or_damaged};
use crate::util::hash::content_hash;
use crate::util::{Error, Result};
use std::path::Path;

const HASH_BYTES: usize = 16;

/// Appends the hash of all that is there.
fn seal(out: &mut Vec<u8>) {
    let hash = content_hash(out);
    out.extend_from_slice(&hash.to_le_bytes());
}

/// Checks magic, version and hash. Returns the bytes before the hash.
fn check<'a>(bytes: &'a [u8], magic: [u8; 8], path: &Path) -> Result<&'a [u8]> {
    let parts = bytes.split_last_chunk::<HASH_BYTES>().filter(|(body, _)| body.len() >= 16);
    let Some((body, stored)) = parts else { return Err(length_error(path, 16 + HASH_BYTES, bytes.len())) };
    if body[..8] != magic {
        return Err(Error::corruption(path, 0, "magic", format!("{magic:02x?}"), format!("{:02x?}", &body[..8])));
    }
    let version = u32::from_le_bytes([body[8], body[9], body[10], body[11]]);
    if version > FORMAT_VERSION {
        let mut own = body.to_vec();
        own[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        return Err(newer_or_damaged(path, 8, version, content_hash(&own).to_le_bytes() == *stored));
    }
    let (expected, found) = (content_hash(body), u128::from_le_bytes(*stored));
    if expected != found {
        let (expected, found) = (format!("{expected:032x}"), format!("{found:032x}"));
        return Err(Error::corruption(path, body.len() as u64, "checksum", expected, found));
    }
    if version != FORMAT_VERSION {
        return Err(Error::corruption(path, 8, "format version", FORMAT_VERSION, version));
    }
    Ok(body)
}

fn length_error(path: &Path, expected: usize, found: usize) -> Error {
    Error::corruption(path, 0, "file length", format!("at least {expected}"), found)
}

//! Replays the bytes of a manifest. Pure; any thread.
//!
//! The rule of the end (`docs/recovery.md`, R2): every edit is synced before the next is written, and a torn end is
//! truncated and synced before anything takes its place. So a bad record with nothing valid after it is an edit whose
//! sync never returned, and is ignored. A bad record before a valid one, a gap in the numbers, or a bad first record (a
//! manifest gets its name only once that is synced) is corruption.

use super::ManifestState;
use crate::format::manifest_edit::ManifestEdit;
use crate::format::manifest_header::{self as header, BadRecord, FRAME_BYTES, HEADER_BYTES, RECORD_ALIGNMENT};
use crate::util::{Error, Result};
use std::path::Path;

/// The result of replaying a manifest.
#[derive(Debug)]
pub struct Replayed {
    /// The state after all edits.
    pub state: ManifestState,
    /// Bytes of the first record, which contains the whole state at the time when the file was created.
    pub snapshot_bytes: u64,
    /// Where the last valid record ends.
    pub end: u64,
}

/// Replays a whole manifest. `path` is for error messages.
pub fn replay(file: &[u8], path: &Path) -> Result<Replayed> {
    let identity = header::decode_header(file, path)?;
    let salt = header::record_salt(identity.database);
    let mut state = ManifestState { identity, ..ManifestState::default() };
    let mut snapshot_bytes = 0;
    let mut at = HEADER_BYTES;
    while at < file.len() || snapshot_bytes == 0 {
        let first = snapshot_bytes == 0;
        let record = match header::decode_record(&file[at..], salt) {
            Ok(record) => record,
            Err(bad) if first => return Err(corrupt(path, at, bad)),
            Err(bad) => match find_record(&file[at..], state.edits + 1, salt) {
                Some(_) => return Err(corrupt(path, at, bad)),
                None => break,
            },
        };
        let expected = if first { record.number.max(1) } else { state.edits + 1 };
        if record.number != expected {
            return Err(Error::corruption(path, at as u64 + 8, "edit number", expected, record.number));
        }
        apply(&mut state, record.payload, at + FRAME_BYTES, path)?;
        state.edits = record.number;
        if first {
            snapshot_bytes = record.bytes as u64;
        }
        at += record.bytes;
    }
    Ok(Replayed { state, snapshot_bytes, end: at as u64 })
}

fn apply(state: &mut ManifestState, payload: &[u8], at: usize, path: &Path) -> Result<()> {
    let edit = ManifestEdit::decode(payload).map_err(|malformed| {
        Error::corruption(path, (at + malformed.at) as u64, "manifest edit", malformed.expected, malformed.found)
    })?;
    state.apply(&edit).map_err(|inconsistent| {
        Error::corruption(path, at as u64, "manifest edit", "an edit that fits the previous ones", inconsistent)
    })
}

fn corrupt(path: &Path, at: usize, bad: BadRecord) -> Error {
    Error::corruption(path, at as u64, bad.what, bad.expected, bad.found)
}

/// The offset of a valid record with a number of at least `number` after the front of `bytes`. Numbers are dense and
/// records have a minimum size, which excludes nearly every offset before a checksum is computed.
fn find_record(bytes: &[u8], number: u64, salt: u32) -> Option<usize> {
    let numbers = number..=number.saturating_add((bytes.len() / FRAME_BYTES) as u64);
    (RECORD_ALIGNMENT..bytes.len()).step_by(RECORD_ALIGNMENT).find(|at| {
        let rest = &bytes[*at..];
        let plausible = header::claimed_number(rest).is_some_and(|claimed| numbers.contains(&claimed));
        plausible && header::decode_record(rest, salt).is_ok()
    })
}

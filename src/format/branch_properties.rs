//! The properties of a branch file: the manifest's record of it, stored in the file too, so that repair can rebuild a
//! store from its files and `verify` can check the manifest.
//!
//! Pure functions over bytes; any thread. The bytes are split into pages of kind `Properties`, each with at most
//! `PAYLOAD_BYTES_MAX`, uncompressed. Integers are varints:
//!
//! | what | form |
//! | --- | --- |
//! | smallest encoded key | length, bytes |
//! | largest encoded key | length, bytes |
//! | smallest and largest sequence number | two integers |
//! | entries, tombstones, distinct keys, range tombstones | four integers |
//! | whether the largest key is excluded | 0 or 1 |
//! | comparator's name | length, UTF-8 |
//! | referenced value files | count, then the first number and the differences, which are at least 1 |

use super::manifest_edit::BranchMeta;
use crate::util::{FileNumber, SequenceNumber, varint};

/// The name of the bytewise order.
pub const BYTEWISE: &str = "alluvium.bytewise";

/// Appends the properties of `meta`, without file number and length, which are in the footer.
pub fn encode(meta: &BranchMeta, comparator: &str, out: &mut Vec<u8>) {
    debug_assert!(meta.value_files.is_sorted());
    varint::write_bytes(&meta.key_min, out);
    varint::write_bytes(&meta.key_max, out);
    for word in [meta.number_min.0, meta.number_max.0, meta.entries, meta.tombstones, meta.distinct_keys] {
        varint::write(word, out);
    }
    varint::write(meta.range_tombstones, out);
    varint::write(meta.open_ended.into(), out);
    varint::write_bytes(comparator.as_bytes(), out);
    varint::write(meta.value_files.len() as u64, out);
    let mut last = 0;
    for file in &meta.value_files {
        varint::write(file.0 - last, out);
        last = file.0;
    }
}

/// Decodes what `encode` wrote. Returns the properties, with the given file number and length, and the comparator's
/// name. `None` if the bytes are invalid.
pub fn decode(mut bytes: &[u8], file: FileNumber, file_bytes: u64) -> Option<(BranchMeta, String)> {
    let bytes = &mut bytes;
    let key_min = varint::read_bytes(bytes)?.to_vec();
    let key_max = varint::read_bytes(bytes)?.to_vec();
    let number_min = SequenceNumber(varint::read(bytes)?);
    let number_max = SequenceNumber(varint::read(bytes)?);
    let (entries, tombstones, distinct_keys) = (varint::read(bytes)?, varint::read(bytes)?, varint::read(bytes)?);
    let range_tombstones = varint::read(bytes)?;
    let open_ended = match varint::read(bytes)? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let comparator = std::str::from_utf8(varint::read_bytes(bytes)?).ok()?.to_owned();
    let count = varint::read(bytes)?;
    let mut value_files = Vec::new();
    let mut last = 0u64;
    // Each takes at least one byte, so a wrong count ends the loop before it costs memory.
    for at in 0..count {
        let difference = varint::read(bytes)?;
        if difference == 0 && at > 0 {
            return None;
        }
        last = last.checked_add(difference)?;
        value_files.push(FileNumber(last));
    }
    let meta = BranchMeta {
        file,
        bytes: file_bytes,
        key_min,
        key_max,
        number_min,
        number_max,
        entries,
        tombstones,
        distinct_keys,
        range_tombstones,
        open_ended,
        value_files,
    };
    bytes.is_empty().then_some((meta, comparator))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> BranchMeta {
        BranchMeta {
            file: FileNumber(9),
            bytes: 40960,
            key_min: b"\0\0\0\0a".to_vec(),
            key_max: vec![7; 300],
            number_min: SequenceNumber(1),
            number_max: SequenceNumber::MAX,
            entries: 1 << 40,
            tombstones: 3,
            distinct_keys: 200,
            range_tombstones: 300,
            open_ended: true,
            value_files: [0, 1, 700, u64::MAX].map(FileNumber).to_vec(),
        }
    }

    #[test]
    fn round_trips() {
        for meta in [sample(), BranchMeta { file: FileNumber(9), bytes: 40960, ..BranchMeta::default() }] {
            let mut bytes = Vec::new();
            encode(&meta, BYTEWISE, &mut bytes);
            assert_eq!(decode(&bytes, FileNumber(9), 40960), Some((meta, BYTEWISE.to_owned())));
        }
    }

    #[test]
    fn garbage_is_rejected_or_harmless() {
        let mut bytes = Vec::new();
        encode(&sample(), BYTEWISE, &mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length], FileNumber(9), 40960), None);
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] = value;
                if let Some((meta, _)) = decode(&bad, FileNumber(9), 40960) {
                    assert!(meta.value_files.is_sorted());
                }
            }
        }
    }
}

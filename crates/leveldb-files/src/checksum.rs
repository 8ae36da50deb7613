//! LevelDB's checksums: CRC-32C, masked, because a plain checksum of data that contains checksums is problematic.

use crc_fast::{CrcAlgorithm, Digest};

/// Returns the masked checksum of the concatenated pieces.
pub fn masked(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for piece in pieces {
        digest.update(piece);
    }
    let plain = digest.finalize() as u32;
    plain.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain checksum of "123456789" is known from RFC 3720.
    #[test]
    fn a_known_checksum() {
        let plain: u32 = 0xe306_9283;
        assert_eq!(masked(&[b"1234", b"56789"]), plain.rotate_right(15).wrapping_add(0xa282_ead8));
    }
}

//! Salted CRC-32C. A salt stands for the place that the bytes belong to (store, file, offset), so that stale or
//! misdirected bytes fail the check although they were once written correctly. Pure; any thread.

/// The CRC-32C of `bytes`, combined with `salt`. Equal bytes with different salts never have equal checksums.
pub fn checksum(bytes: &[u8], salt: u32) -> u32 {
    crc_fast::crc32_iscsi(bytes) ^ salt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(checksum(b"123456789", 0), 0xe306_9283);
        assert_eq!(checksum(b"", 0), 0);
        assert_eq!(checksum(&[0; 32], 0), 0x8a91_36aa);
        assert_eq!(checksum(&[0xff; 32], 0), 0x62a8_ab43);
        assert_eq!(checksum(b"123456789", 5), 0xe306_9283 ^ 5);
    }
}

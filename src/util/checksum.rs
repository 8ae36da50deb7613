//! CRC-32C over bytes, salted. A salt names the place that the bytes belong to (store, file, offset), so
//! that stale or misdirected bytes fail although they were once written whole.

/// The CRC-32C of `bytes`, combined with `salt`. Equal bytes under different salts never agree.
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

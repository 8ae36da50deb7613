//! Round trips, golden bytes, and every kind of garbage.

use super::*;

fn header(length: u64) -> ValueFileHeader {
    ValueFileHeader { database: DatabaseId(0x0123_4567_89ab_cdef), file: FileNumber(42), length }
}

fn path() -> &'static Path {
    Path::new("000042.value")
}

#[test]
fn references_round_trip_and_only_their_own_length_decodes() {
    let reference =
        ValueReference { file: FileNumber(0x0102_0304_0506_0708), length: 0x20_3040, checksum: 0xdead_beef };
    let bytes = reference.encode();
    assert_eq!(bytes, [8, 7, 6, 5, 4, 3, 2, 1, 0x40, 0x30, 0x20, 0, 0, 0, 0, 0, 0xef, 0xbe, 0xad, 0xde]);
    assert_eq!(ValueReference::decode(&bytes), Some(reference));
    for length in 0..bytes.len() {
        assert_eq!(ValueReference::decode(&bytes[..length]), None);
    }
    assert_eq!(ValueReference::decode(&[&bytes[..], &[0]].concat()), None);
    let most = ValueReference { length: VALUE_BYTES_MAX as u64, ..reference };
    assert_eq!(ValueReference::decode(&most.encode()), Some(most));
    let over = ValueReference { length: VALUE_BYTES_MAX as u64 + 1, ..reference };
    assert_eq!(ValueReference::decode(&over.encode()), None);
}

#[test]
fn lengths_follow_from_the_length_of_the_value() {
    let payload = PAYLOAD_BYTES as u64;
    for (length, blocks, bytes) in [
        (0, 0, 4096),
        (1, 1, 8192),
        (4092, 1, 8192),
        (4093, 1, 12288),
        (payload, 1, 4096 + 65536),
        (payload + 1, 2, 4096 + 65536 + 4096),
        (1 << 30, 16386, 4096 + 16385 * 65536 + 4096),
    ] {
        assert_eq!((header(length).blocks(), header(length).file_bytes()), (blocks, bytes), "length {length}");
    }
}

#[test]
fn a_header_is_valid_only_for_its_own_file() {
    let mut page = vec![0xff; HEADER_BYTES];
    header(77).encode(&mut page);
    header(77).check(&page, path()).unwrap();
    for other in [
        header(78),
        ValueFileHeader { file: FileNumber(43), ..header(77) },
        ValueFileHeader { database: DatabaseId(1), ..header(77) },
    ] {
        assert!(matches!(other.check(&page, path()), Err(Error::Corruption { .. })));
    }
    for at in 0..page.len() {
        for bit in 0..8 {
            page[at] ^= 1 << bit;
            match header(77).check(&page, path()) {
                Err(Error::Corruption { .. }) => {}
                other => panic!("byte {at}, bit {bit}: {other:?}"),
            }
            page[at] ^= 1 << bit;
        }
    }
    header(77).check(&page, path()).unwrap();
}

#[test]
fn a_header_with_a_valid_checksum_must_have_the_right_fields() {
    for (at, value) in [(8, 0), (12, 1), (16, 9), (24, 9), (32, 9)] {
        let mut page = vec![0; HEADER_BYTES];
        header(77).encode(&mut page);
        page[at] = value;
        let sum = checksum(&page[..HEADER_CHECKSUM_AT], salt(header(77).database, header(77).file, HEADER_SALT));
        page[HEADER_CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        match header(77).check(&page, path()) {
            Err(Error::Corruption { offset, .. }) => assert_eq!(offset, at as u64),
            other => panic!("field at {at}: {other:?}"),
        }
    }
}

#[test]
fn blocks_round_trip_and_every_flipped_byte_is_found() {
    let value: Vec<u8> = (0..PAYLOAD_BYTES + 5000).map(|at| (at / 3) as u8).collect();
    let header = header(value.len() as u64);
    for (index, payload) in value.chunks(PAYLOAD_BYTES).enumerate().map(|(at, payload)| (at as u64, payload)) {
        let mut block = vec![0xff; header.block_bytes(index)];
        let sum = header.encode_block(index, payload, &mut block);
        assert_eq!(header.check_block(index, &block, path()).unwrap(), (payload, sum));
        for at in (0..block.len()).step_by(if index == 0 { 97 } else { 1 }) {
            block[at] ^= 0x10;
            match header.check_block(index, &block, path()) {
                Err(Error::Corruption { offset, .. }) => assert_eq!(offset, ValueFileHeader::block_offset(index)),
                other => panic!("block {index}, byte {at}: {other:?}"),
            }
            block[at] ^= 0x10;
        }
    }
}

#[test]
fn a_block_belongs_to_one_place_of_one_file_of_one_store() {
    let here = header(3 * PAYLOAD_BYTES as u64);
    let mut block = vec![0; BLOCK_BYTES];
    here.encode_block(1, &[5; PAYLOAD_BYTES], &mut block);
    assert!(here.check_block(1, &block, path()).is_ok());
    assert!(here.check_block(0, &block, path()).is_err());
    assert!(ValueFileHeader { file: FileNumber(43), ..here }.check_block(1, &block, path()).is_err());
    assert!(ValueFileHeader { database: DatabaseId(1), ..here }.check_block(1, &block, path()).is_err());
}

#[test]
fn the_root_depends_on_every_block_and_their_order() {
    let root = |sums: &[u32]| sums.iter().fold(header(9).root(), |root, &sum| extend_root(root, sum));
    let all = [root(&[]), root(&[1]), root(&[2]), root(&[1, 2]), root(&[2, 1]), root(&[1, 2, 0])];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one));
    }
}

/// The bytes on disk never change without a new format version.
#[test]
fn golden() {
    let value: Vec<u8> = (0..5000u32).map(|at| ((at * at) >> 3) as u8).collect();
    let header = header(value.len() as u64);
    let mut page = vec![0; HEADER_BYTES];
    header.encode(&mut page);
    assert_eq!(hex(&page[..40]), "414c4c5556414c550100000000000100efcdab89674523012a000000000000008813000000000000");
    let mut block = vec![0; header.block_bytes(0)];
    let sum = header.encode_block(0, &value, &mut block);
    let found = (u32_at(&page, HEADER_CHECKSUM_AT), sum, extend_root(header.root(), sum));
    assert_eq!(found, GOLDEN_CHECKSUMS);
}

const GOLDEN_CHECKSUMS: (u32, u32, u32) = (95607915, 2055064949, 1125607667);

//! Tests of pages of a branch file.

use super::*;

const OWNER: PageOwner = PageOwner { database: DatabaseId(0x1234_5678_9abc), file: FileNumber(17) };

fn sample(stored_len: usize, offset: u64) -> (Vec<u8>, PageHeader) {
    let header = PageHeader {
        kind: PageKind::Leaf,
        compression: Compression::None,
        level: 0,
        stored_len: stored_len as u32,
        raw_len: stored_len as u32,
        offset,
    };
    let mut page = vec![0xee; stored_bytes(stored_len)];
    for (at, byte) in page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + stored_len].iter_mut().enumerate() {
        *byte = at as u8;
    }
    seal(&mut page, &header, OWNER);
    (page, header)
}

#[test]
fn round_trips_at_every_kind_of_length() {
    for stored in [0, 1, SMALL_PAYLOAD_BYTES, SMALL_PAYLOAD_BYTES + 1, 100_000, PAYLOAD_BYTES_MAX] {
        let (page, header) = sample(stored, 8192);
        assert_eq!(page.len() % PAGE_BYTES, 0);
        assert_eq!(check(&page, 8192, OWNER, Path::new("x")).unwrap(), header);
        assert_eq!(payload(&page).len(), stored);
        assert!(payload(&page).iter().enumerate().all(|(at, &byte)| byte == at as u8));
    }
}

#[test]
fn every_flipped_byte_and_every_misplaced_page_is_found() {
    let (page, _) = sample(1000, 4096);
    let path = Path::new("000017.branch");
    for at in 0..page.len() {
        for bit in [0x01, 0x80] {
            let mut bad = page.clone();
            bad[at] ^= bit;
            assert!(check(&bad, 4096, OWNER, path).is_err(), "byte {at}");
        }
    }
    assert!(check(&page, 8192, OWNER, path).is_err());
    assert!(check(&page, 4096, PageOwner { file: FileNumber(18), ..OWNER }, path).is_err());
    assert!(check(&page, 4096, PageOwner { database: DatabaseId(1), ..OWNER }, path).is_err());
    for length in 0..page.len() {
        assert!(check(&page[..length], 4096, OWNER, path).is_err());
    }
    let text = check(&page, 8192, OWNER, path).unwrap_err().to_string();
    assert!(text.contains("000017.branch") && text.contains("8192"), "{text}");
}

#[test]
fn a_page_with_a_valid_checksum_and_a_wrong_header_is_rejected() {
    let (page, _) = sample(1000, 4096);
    for (at, value) in
        [(4, 0), (4, 99), (5, 7), (7, 0), (7, 2), (8, 1), (11, 0xff), (15, 0xff), (16, 1), (24, 1), (31, 1)]
    {
        let mut bad = page.clone();
        bad[at] = value;
        let sum = checksum(&bad[4..], OWNER.salt(4096));
        bad[..4].copy_from_slice(&sum.to_le_bytes());
        assert!(check(&bad, 4096, OWNER, Path::new("x")).is_err(), "byte {at}");
    }
}

/// Regression test: before entries had widths of their own, byte 7 was zero. Such a page, valid as it is, must not be
/// read as a page of the current layout.
#[test]
fn a_page_of_another_layout_is_an_error() {
    let (mut page, _) = sample(1000, 4096);
    page[7] = 0;
    let sum = checksum(&page[4..], OWNER.salt(4096));
    page[..4].copy_from_slice(&sum.to_le_bytes());
    let text = check(&page, 4096, OWNER, Path::new("000017.branch")).unwrap_err().to_string();
    assert!(
        ["000017.branch", "4096", "layout", "expected 1", "found 0"].iter().all(|part| text.contains(part)),
        "{text}"
    );
}

#[test]
fn a_block_with_a_wrong_length_is_rejected() {
    let raw = vec![5u8; 10_000];
    wrong_lengths_are_rejected(&raw, &lz4_flex::block::compress(&raw), Compression::Lz4);
    let mut packed = Vec::new();
    match zstd::Packer::default().pack(&raw, &mut packed) {
        Ok(length) => wrong_lengths_are_rejected(&raw, &packed[..length], Compression::Zstd),
        Err(error) => assert!(!zstd::IS_BUILT_IN && error.to_string().contains("feature `zstd`"), "{error}"),
    }
}

fn wrong_lengths_are_rejected(raw: &[u8], block: &[u8], compression: Compression) {
    let mut header = sample(0, 0).1;
    header.compression = compression;
    header.stored_len = block.len() as u32;
    header.raw_len = raw.len() as u32;
    let mut page = vec![0; stored_bytes(block.len())];
    page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + block.len()].copy_from_slice(block);
    let mut out = vec![0; raw.len()];
    decompress(&page, &header, &mut out, Path::new("x")).unwrap();
    assert_eq!(out, raw);
    for raw_len in [0, 1, 9_999, 10_001, 20_000] {
        header.raw_len = raw_len;
        let mut out = vec![0; raw_len as usize];
        assert!(decompress(&page, &header, &mut out, Path::new("x")).is_err(), "{raw_len}");
    }
}

//! Tests of the footer of a branch file.

use super::*;
use crate::util::FileNumber;
use crate::util::checksum::checksum;

const OWNER: PageOwner = PageOwner { database: DatabaseId(77), file: FileNumber(5) };
const PAGE: u64 = PAGE_BYTES as u64;

fn sample() -> (BranchFooter, Vec<u8>) {
    let footer = BranchFooter {
        file_bytes: 20 * PAGE,
        root: ChildLocation { page: 9, pages: 1, first_key: 0 },
        height: 1,
        leaves: 9,
        index_pages: 1,
        entries: 2_000,
        fingerprints: 1_500,
        fingerprints_at: 10 * PAGE,
        filter_at: 12 * PAGE,
        filter_pages: 4,
        range_tombstones_at: 16 * PAGE,
        properties_at: 17 * PAGE,
        properties_bytes: 7_000,
        common_number: None,
    };
    let mut page = vec![0xcc; PAGE_BYTES];
    footer.encode(OWNER, &mut page);
    (footer, page)
}

fn resum(page: &mut [u8]) {
    let sum = checksum(&page[4..], OWNER.salt(19 * PAGE));
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

fn decode(page: &[u8]) -> Result<BranchFooter> {
    BranchFooter::decode(page, 20 * PAGE, OWNER, Path::new("000005.branch"))
}

#[test]
fn round_trips() {
    let (footer, page) = sample();
    assert_eq!(decode(&page).unwrap(), footer);
}

/// An ingested file has its number in the footer, first 0, then another one. A torn footer is found by its checksum.
#[test]
fn the_common_number_round_trips() {
    let (footer, plain) = sample();
    for number in [SequenceNumber::ZERO, SequenceNumber(77), SequenceNumber(SequenceNumber::MAX.0 - 1)] {
        let ingested = BranchFooter { common_number: Some(number), ..footer };
        let mut page = vec![0xcc; PAGE_BYTES];
        ingested.encode(OWNER, &mut page);
        assert_eq!(decode(&page).unwrap(), ingested);
        // Without the mark the number is not expected, and the other way round.
        page[PAGE_HEADER_BYTES + 50] = 0;
        resum(&mut page);
        assert!(decode(&page).is_err());
    }
    let mut marked = plain;
    marked[PAGE_HEADER_BYTES + 50] = 1;
    resum(&mut marked);
    assert!(decode(&marked).is_err());
    let mut impossible = vec![0; PAGE_BYTES];
    BranchFooter { common_number: Some(SequenceNumber::MAX), ..footer }.encode(OWNER, &mut impossible);
    assert!(decode(&impossible).is_err());
}

/// A file with range tombstones only has no leaves and no root. A file with entries has a root.
#[test]
fn only_a_file_without_entries_has_no_root() {
    let (footer, _) = sample();
    let none = BranchFooter { root: ChildLocation::default(), height: 0, ..footer };
    let empty = BranchFooter { entries: 0, leaves: 0, index_pages: 0, ..none };
    for (footer, good) in [(empty, true), (none, false), (BranchFooter { entries: 0, ..footer }, false)] {
        let mut page = vec![0; PAGE_BYTES];
        footer.encode(OWNER, &mut page);
        assert_eq!(decode(&page).is_ok(), good, "{footer:?}");
    }
}

#[test]
fn every_flipped_byte_is_found() {
    let (_, page) = sample();
    for at in 0..page.len() {
        let mut bad = page.clone();
        bad[at] ^= 0x10;
        match decode(&bad) {
            Err(Error::Corruption { .. }) => {}
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

#[test]
fn wrong_fields_with_a_valid_checksum_are_rejected_or_harmless() {
    let (footer, page) = sample();
    for at in PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + FOOTER_BYTES {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bad = page.clone();
            bad[at] = value;
            resum(&mut bad);
            if let Ok(read) = decode(&bad) {
                assert!(read.root.end() <= read.fingerprints_at && read.fingerprints_at <= read.filter_at);
                assert!(read.filter_at <= read.range_tombstones_at && read.range_tombstones_at <= read.properties_at);
                assert!(read.properties_at < footer.file_bytes);
            }
        }
    }
}

#[test]
fn a_newer_version_is_named() {
    let (_, mut page) = sample();
    page[PAGE_HEADER_BYTES + 8] = 2;
    resum(&mut page);
    let error = decode(&page).unwrap_err();
    assert!(matches!(error, Error::NewerFormat { found: 2, supported: FORMAT_VERSION, .. }), "{error}");
}

#[test]
fn a_file_of_another_store_is_named() {
    let (footer, _) = sample();
    let mut page = vec![0; PAGE_BYTES];
    footer.encode(PageOwner { database: DatabaseId(0xabc), file: FileNumber(5) }, &mut page);
    let text = decode(&page).unwrap_err().to_string();
    assert!(text.contains("0000000000000abc"), "{text}");
}

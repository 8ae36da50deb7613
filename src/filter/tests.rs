//! Tests of the quotient filter: no false negatives, bounds on false positives and size, invalid input.

mod maplet;

use super::quotient::{FilterBuilder, REMAINDER_BITS, may_contain, page_of};
use crate::format::filter_page::{FilterPage, PAGE_PAYLOAD_BYTES, REMAINDER_BITS_MAX};
use crate::util::random::splitmix64 as random;

fn build(fingerprints: &[u32]) -> Vec<Vec<u8>> {
    build_with(REMAINDER_BITS, fingerprints)
}

fn build_with(remainder_bits: u32, fingerprints: &[u32]) -> Vec<Vec<u8>> {
    let mut builder = FilterBuilder::new(remainder_bits);
    fingerprints.iter().for_each(|&fingerprint| builder.add(fingerprint));
    let pages = builder.finish();
    assert!(pages.iter().all(|page| page.len() <= PAGE_PAYLOAD_BYTES));
    pages
}

fn probe(pages: &[Vec<u8>], fingerprint: u32) -> bool {
    let count = pages.len() as u32;
    may_contain(&pages[page_of(fingerprint, count) as usize], fingerprint, count)
}

fn saturated(pages: &[Vec<u8>]) -> usize {
    pages.iter().filter(|page| FilterPage::parse(page).unwrap().saturated()).count()
}

#[test]
fn every_added_fingerprint_is_found() {
    assert!(build(&[]).is_empty());
    for seed in 0..100 {
        let mut state = seed;
        let count = random(&mut state) % 6000;
        // All 32 bits, or few of them: clustered fingerprints with many duplicates.
        let bits = 8 + random(&mut state) % 25;
        let shift = random(&mut state) % (33 - bits);
        println!("seed {seed} count {count} bits {bits} shift {shift}");
        let fingerprints: Vec<u32> =
            (0..count).map(|_| ((random(&mut state) & ((1 << bits) - 1)) << shift) as u32).collect();
        let pages = build(&fingerprints);
        assert!(fingerprints.iter().all(|&fingerprint| probe(&pages, fingerprint)));
    }
}

#[test]
fn small_filters_are_small_and_precise() {
    let mut state = 5;
    for count in [1, 2, 3, 10, 100, 1000, 2000] {
        let fingerprints: Vec<u32> = (0..count).map(|_| random(&mut state) as u32).collect();
        let pages = build(&fingerprints);
        assert_eq!(pages.len(), 1);
        assert!(pages[0].len() <= 32 + 4 * count && pages[0].len() <= 150 + 2 * count, "{count}: {}", pages[0].len());
        assert!(fingerprints.iter().all(|&fingerprint| probe(&pages, fingerprint)));
        let wrong = (0..10_000).filter(|_| probe(&pages, random(&mut state) as u32)).count();
        assert!(wrong < 50, "{count} keys: {wrong} false positives in 10000");
    }
}

#[test]
fn size_and_false_positives_of_large_filters_keep_their_bounds() {
    let mut state = 11;
    for count in [50_000, 2_000_000] {
        let mut fingerprints: Vec<u32> = (0..count).map(|_| random(&mut state) as u32).collect();
        let pages = build(&fingerprints);
        assert!(fingerprints.iter().all(|&fingerprint| probe(&pages, fingerprint)));
        fingerprints.sort_unstable();
        assert_eq!(saturated(&pages), 0);
        let bytes_per_key = (pages.len() * 4096) as f64 / count as f64;
        let strangers = (0..1_000_000)
            .map(|_| random(&mut state) as u32)
            .filter(|other| fingerprints.binary_search(other).is_err());
        let wrong = strangers.filter(|&stranger| probe(&pages, stranger)).count();
        println!("{count} keys: {bytes_per_key:.3} bytes a key, {wrong} false positives in a million");
        assert!(bytes_per_key <= 2.0);
        // Load times 2^-r is 0.8 / 512 = 1562 in a million; three standard deviations are 119.
        let bound = 1_000_000.0 * 0.8 / f64::from(1 << REMAINDER_BITS);
        assert!((wrong as f64) < bound * 1.08, "{wrong} false positives in a million");
    }
}

/// Each bit more halves the false positives, for a sixth of a byte a key.
#[test]
fn size_and_false_positives_follow_the_bits_of_a_remainder() {
    let mut state = 12;
    let mut fingerprints: Vec<u32> = (0..50_000).map(|_| random(&mut state) as u32).collect();
    let pages: Vec<_> = (1..=REMAINDER_BITS_MAX).map(|bits| build_with(bits, &fingerprints)).collect();
    let lists = pages.clone();
    assert!(lists.iter().all(|pages| fingerprints.iter().all(|&fingerprint| probe(pages, fingerprint))));
    fingerprints.sort_unstable();
    let strangers: Vec<u32> = (0..1_000_000)
        .map(|_| random(&mut state) as u32)
        .filter(|other| fingerprints.binary_search(other).is_err())
        .collect();
    for (bits, pages) in (1..).zip(pages) {
        let bytes_per_key = (pages.len() * 4096) as f64 / 50_000.0;
        assert!(bytes_per_key < (f64::from(bits) + 3.0) / 8.0 * 1.4, "{bits} bits: {bytes_per_key} bytes a key");
        let wrong = strangers.iter().filter(|stranger| probe(&pages, **stranger)).count() as f64;
        // The expected number, and four standard deviations.
        let bound = strangers.len() as f64 * 0.8 / f64::from(1 << bits);
        assert!(wrong < bound * 1.03 + 4.0 * bound.sqrt(), "{bits} bits: {wrong} false positives, {bound} expected");
        assert!(wrong > bound / 4.0 || bits > 14, "{bits} bits: only {wrong} false positives");
    }
}

/// Fingerprints crafted to overflow their page cost reads but give no wrong answers and no unbounded number of pages.
#[test]
fn crafted_fingerprints_saturate_a_page_and_nothing_else() {
    let mut state = 13;
    let mut fingerprints: Vec<u32> = (0..200_000).map(|_| random(&mut state) as u32).collect();
    fingerprints.extend((0..500_000).map(|index| 0x8000_0000 + index * 7));
    let pages = build(&fingerprints);
    assert!(fingerprints.iter().all(|&fingerprint| probe(&pages, fingerprint)));
    assert!((1..10).contains(&saturated(&pages)), "{} of {} pages", saturated(&pages), pages.len());
    assert!(pages.len() < 1500);
    assert!(!(0..1000).all(|_| probe(&pages, random(&mut state) as u32)));
}

#[test]
fn every_fingerprint_has_its_page_in_order() {
    let mut state = 17;
    for pages in [1, 2, 3, 47, 1000, 65_537] {
        assert_eq!(page_of(0, pages), 0);
        assert_eq!(page_of(u32::MAX, pages), pages - 1);
        for _ in 0..1000 {
            let (one, other) = (random(&mut state) as u32, random(&mut state) as u32);
            assert!(one > other || page_of(one, pages) <= page_of(other, pages));
        }
    }
}

/// Whatever the bytes are, a lookup returns. An invalid page may contain everything.
#[test]
fn garbage_never_panics() {
    let mut state = 19;
    let fingerprints: Vec<u32> = (0..300).map(|_| random(&mut state) as u32).collect();
    let good = build(&fingerprints).remove(0);
    let probes: Vec<u32> = (0..20).map(|_| random(&mut state) as u32).chain([0, u32::MAX]).collect();
    for length in 0..good.len() {
        assert!(may_contain(&good[..length], fingerprints[0], 1), "cut to {length}");
    }
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[at] ^= 1 << bit;
            for &fingerprint in &probes {
                let _ = may_contain(&bad, fingerprint, 1);
            }
        }
    }
    for length in (0..PAGE_PAYLOAD_BYTES).step_by(37) {
        let mut bad: Vec<u8> = (0..length).map(|_| random(&mut state) as u8).collect();
        for header in [false, true] {
            if header && length >= 16 {
                bad[..16].copy_from_slice(&good[..16]);
            }
            for &fingerprint in &probes {
                let _ = may_contain(&bad, fingerprint, 3);
            }
        }
    }
    let mut padded = good.clone();
    padded.resize(PAGE_PAYLOAD_BYTES, 0xff);
    assert!(fingerprints.iter().all(|&fingerprint| may_contain(&padded, fingerprint, 1)));
}

/// The bytes of a small filter, so that a change of the format is noticed.
#[test]
fn the_format_on_disk_never_changes() {
    let pages = build(&[0x1000_0000, 0x1000_0001, 0x8000_0000, 0xffff_ffff]);
    assert_eq!(pages, [GOLDEN]);
}

// Quotients 0, 3 and 5 of 6 with remainders 192, 0 and 511. The two neighbours have the same quotient and remainder.
const GOLDEN: &[u8] =
    &[1, 9, 0, 0, 6, 0, 0, 0, 9, 0, 0, 0, 3, 0, 0, 0, 0x01, 0x06, 0, 0, 0x10, 0, 0, 0x90, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];

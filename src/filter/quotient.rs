//! The quotient filter of a branch, built at once from all its fingerprints (SplinterDB §2, §5). Each page covers an
//! equal range of fingerprints. Pure. A builder belongs to one thread.
//!
//! Within a page a fingerprint consists of a quotient, which selects a slot, and a remainder, which is stored in that
//! slot or, if it is taken, as close after it as sorted order allows. Three bits of every slot say which remainders
//! belong to which quotient. So a lookup reads the page's header and a few neighbouring slots: one or two cache lines.
//!
//! Invariants:
//! 1. No false negative: every added fingerprint is found, including duplicates and clustered ones. A page with too
//!    many fingerprints is written as saturated, and an invalid payload may contain everything.
//! 2. Page, quotient and remainder are digits of one number (multiply-shift), so their order is the order of the
//!    fingerprints.
//! 3. The last `SPARE_SLOTS` slots of a page have no quotient. A page never wraps around and never spills into the
//!    next.
//!
//! Cost with the usual r = 9 bits of a remainder: at most 2 bytes a key in filters of many pages. False positives: at most
//! load × 2^-r, 0.16 %, as long as the filter has so few keys that 32-bit fingerprints rarely collide (n / 2^32: 0.05 % at
//! two million). One bit more costs 0.16 bytes a key and halves them.

use crate::format::filter_page::{FilterPage, FilterPageWriter, REMAINDER_BITS_MAX, Slot, slot_offset, slots_max};

/// The usual bits of a remainder. With three bits of metadata a slot is a byte and a half.
pub const REMAINDER_BITS: u32 = 9;
/// Percentage of quotients that have a remainder in a page with the planned number of keys.
const LOAD_PERCENT: u32 = 80;
/// Slots after the last quotient's slot. At 80 % load a run is pushed that far once in 10^12 pages.
const SPARE_SLOTS: u32 = 64;
/// Each attempt has an eighth more pages than the one before; the last has three times as many as the first.
const ATTEMPTS_MAX: u32 = 10;

/// The quotients of a full page with remainders of these bits.
const fn quotients_max(remainder_bits: u32) -> u32 {
    slots_max(remainder_bits) - SPARE_SLOTS
}

/// Collects fingerprints, with four bytes of memory each.
#[derive(Debug)]
pub struct FilterBuilder {
    remainder_bits: u32,
    fingerprints: Vec<u32>,
}

impl FilterBuilder {
    /// A builder without fingerprints, for remainders of these bits, from 1 to `REMAINDER_BITS_MAX`.
    pub fn new(remainder_bits: u32) -> Self {
        debug_assert!((1..=REMAINDER_BITS_MAX).contains(&remainder_bits), "{remainder_bits} bits");
        Self { remainder_bits, fingerprints: Vec::new() }
    }

    /// Adds a fingerprint (`util::hash::fingerprint`), in any order, any number of times.
    pub fn add(&mut self, fingerprint: u32) {
        self.fingerprints.push(fingerprint);
    }

    /// The payloads of the filter's pages; empty if nothing was added.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        self.fingerprints.sort_unstable();
        self.fingerprints.dedup();
        let keys_per_page = u64::from(quotients_max(self.remainder_bits) * LOAD_PERCENT / 100);
        let mut pages = (self.fingerprints.len() as u64).div_ceil(keys_per_page) as u32;
        for _ in 0..ATTEMPTS_MAX {
            if let Some(payloads) = build(&self.fingerprints, self.remainder_bits, pages, false) {
                return payloads;
            }
            pages += pages / 8 + 1;
        }
        // Fingerprints are hashes. Only keys chosen to collide get here; they cost reads but never give wrong answers.
        build(&self.fingerprints, self.remainder_bits, pages, true).unwrap_or_default()
    }
}

/// The page for `fingerprint` in a filter of `pages` pages.
pub fn page_of(fingerprint: u32, pages: u32) -> u32 {
    digits(fingerprint, pages).0
}

/// The offset at which a lookup begins in the payload of page `page_of(fingerprint, pages)`, for prefetching. (A filter
/// of one page may have fewer quotients, and one may have other remainders than usual; then the lookup begins elsewhere.)
pub fn slot_at(fingerprint: u32, pages: u32) -> usize {
    let (_, rest) = digits(fingerprint, pages);
    let (quotient, _) = split(rest, quotients_max(REMAINDER_BITS), REMAINDER_BITS);
    slot_offset(quotient, REMAINDER_BITS)
}

/// Whether a key with this fingerprint may be present, from the payload of page `page_of(fingerprint, pages)`.
pub fn may_contain(payload: &[u8], fingerprint: u32, pages: u32) -> bool {
    let Some(page) = FilterPage::parse(payload) else { return true };
    if page.saturated() {
        return true;
    }
    let (_, rest) = digits(fingerprint, pages);
    let (quotient, remainder) = split(rest, page.quotients(), page.remainder_bits());
    page.quotients() > 0 && run_contains(&page, quotient, remainder)
}

/// The first digit of `value`, as a fraction of 2^32, in base `base`, and the rest, again as a fraction.
fn digits(value: u32, base: u32) -> (u32, u32) {
    let product = u64::from(value) * u64::from(base);
    ((product >> 32) as u32, product as u32)
}

fn split(value: u32, quotients: u32, remainder_bits: u32) -> (u32, u32) {
    let (quotient, rest) = digits(value, quotients);
    (quotient, rest >> (32 - remainder_bits))
}

/// Looks for `remainder` in the run of `quotient`. Every loop ends within the page, whatever the slots contain.
fn run_contains(page: &FilterPage<'_>, quotient: u32, remainder: u32) -> bool {
    if !page.slot(quotient).occupied() {
        return false;
    }
    // Back to the start of the cluster. The number of occupied quotients on the way is the number of runs to skip.
    let mut at = quotient;
    let mut runs = 0;
    while page.slot(at).shifted() {
        let Some(before) = at.checked_sub(1) else { return true };
        at = before;
        runs += u32::from(page.slot(at).occupied());
    }
    while runs > 0 {
        at += 1;
        if at >= page.slots() {
            return true;
        }
        runs -= u32::from(!page.slot(at).continuation());
    }
    loop {
        let stored = page.slot(at).remainder();
        if stored >= remainder {
            return stored == remainder;
        }
        at += 1;
        if at >= page.slots() || !page.slot(at).continuation() {
            return false;
        }
    }
}

/// Builds all pages from sorted fingerprints. Returns `None` if one has too many fingerprints and `saturate` is false.
fn build(fingerprints: &[u32], remainder_bits: u32, pages: u32, saturate: bool) -> Option<Vec<Vec<u8>>> {
    let mut payloads = Vec::with_capacity(pages as usize);
    let mut entries = Vec::with_capacity(slots_max(remainder_bits) as usize);
    let mut rest = fingerprints;
    let quotients_max = quotients_max(remainder_bits);
    let quotients = if pages == 1 { quotients_for(fingerprints.len(), quotients_max) } else { quotients_max };
    for page in 0..pages {
        let length = rest.partition_point(|&fingerprint| page_of(fingerprint, pages) <= page);
        let (own, others) = rest.split_at(length);
        rest = others;
        entries.clear();
        entries.extend(own.iter().map(|&fingerprint| split(digits(fingerprint, pages).1, quotients, remainder_bits)));
        entries.dedup();
        match build_page(&entries, remainder_bits, quotients) {
            Some(payload) => payloads.push(payload),
            None if saturate => payloads.push(FilterPageWriter::saturated(remainder_bits)),
            None => return None,
        }
    }
    Some(payloads)
}

/// The number of quotients of a filter of one page, so that a small filter takes little space.
fn quotients_for(keys: usize, quotients_max: u32) -> u32 {
    let wanted = keys as u64 * 100 / u64::from(LOAD_PERCENT) + 1;
    wanted.min(u64::from(quotients_max)) as u32
}

/// Builds one page from ascending and distinct (quotient, remainder) pairs. Returns `None` if they do not fit.
fn build_page(entries: &[(u32, u32)], remainder_bits: u32, quotients: u32) -> Option<Vec<u8>> {
    let stored = u32::try_from(entries.len()).ok()?;
    let slots = quotients + stored.min(SPARE_SLOTS);
    if stored > slots {
        return None;
    }
    let mut page = FilterPageWriter::new(remainder_bits, quotients, slots, stored);
    let mut free = 0;
    for run in entries.chunk_by(|one, next| one.0 == next.0) {
        let quotient = run[0].0;
        free = free.max(quotient);
        page.set(quotient, Slot::OCCUPIED);
        for (index, &(_, remainder)) in run.iter().enumerate() {
            if free >= slots {
                return None;
            }
            let continuation = if index > 0 { Slot::CONTINUATION } else { 0 };
            let shifted = if free != quotient { Slot::SHIFTED } else { 0 };
            page.set(free, remainder << crate::format::filter_page::METADATA_BITS | continuation | shifted);
            free += 1;
        }
    }
    Some(page.finish())
}

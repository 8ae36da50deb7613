//! The quotient filter of a branch, built at once from all its fingerprints (SplinterDB §2, §5; design.md, Branch
//! files), in pages that each answer for an equal range of fingerprints. Pure; a builder belongs to one thread.
//!
//! Inside a page a fingerprint is a quotient, which picks a slot, and a remainder, which is stored: in its slot or, where
//! that is taken, as close behind it as sorted order allows. Three bits of every slot tell which remainders belong to
//! which quotient. So a probe reads the page's header and a few neighbouring slots: one or two cache lines.
//!
//! Invariants:
//! 1. No false negative: whatever was added is found, duplicates and clustered fingerprints included. A page that its
//!    fingerprints overflow is written as saturated, and a payload that makes no sense may contain everything.
//! 2. Page, quotient and remainder are digits of one number (multiply-shift), so their order is that of fingerprints.
//! 3. Quotients leave `SPARE_SLOTS` at a page's end, and a page never wraps round or spills into the next.
//!
//! Cost: at most 2 bytes a key in filters of many pages. False positives: at most load × 2^-r, 0.16 %, as long as the
//! filter holds so few keys that 32-bit fingerprints do not collide by themselves (n / 2^32: 0.05 % at two million).

use crate::format::filter_page::{FilterPage, FilterPageWriter, Slot, slot_offset, slots_max};

/// Bits of a remainder: with three of metadata a slot is a byte and a half.
pub const REMAINDER_BITS: u32 = 9;
/// Share of quotients that hold a remainder where the page is as full as it should be, in percent.
const LOAD_PERCENT: u32 = 80;
/// Slots behind the last quotient's. A run at 80 % load is pushed that far once in 10^12 pages.
const SPARE_SLOTS: u32 = 64;
/// With an eighth more pages each time, the last attempt has three times as many as the first.
const ATTEMPTS_MAX: u32 = 10;

const SLOTS_MAX: u32 = slots_max(REMAINDER_BITS);
const QUOTIENTS_MAX: u32 = SLOTS_MAX - SPARE_SLOTS;
const KEYS_PER_PAGE: u32 = QUOTIENTS_MAX * LOAD_PERCENT / 100;

/// Gathers fingerprints; four bytes of memory each.
#[derive(Debug, Default)]
pub struct FilterBuilder {
    fingerprints: Vec<u32>,
}

impl FilterBuilder {
    /// A builder without fingerprints.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a fingerprint (`base::hash::fingerprint`), in any order, any number of times.
    pub fn add(&mut self, fingerprint: u32) {
        self.fingerprints.push(fingerprint);
    }

    /// The payloads of the filter's pages; none where nothing was added.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        self.fingerprints.sort_unstable();
        self.fingerprints.dedup();
        let mut pages = (self.fingerprints.len() as u64).div_ceil(u64::from(KEYS_PER_PAGE)) as u32;
        for _ in 0..ATTEMPTS_MAX {
            if let Some(payloads) = build(&self.fingerprints, pages, false) {
                return payloads;
            }
            pages += pages / 8 + 1;
        }
        // Fingerprints are a hash's; only keys made to collide come here, and cost reads, not answers.
        build(&self.fingerprints, pages, true).unwrap_or_default()
    }
}

/// The page that answers for `fingerprint` in a filter of `pages` pages.
pub fn page_of(fingerprint: u32, pages: u32) -> u32 {
    digits(fingerprint, pages).0
}

/// Where in the payload of page `page_of(fingerprint, pages)` a look-up begins: for fetching it ahead. (A filter of one page
/// may have fewer quotients, and begin elsewhere.)
pub fn slot_at(fingerprint: u32, pages: u32) -> usize {
    let (_, rest) = digits(fingerprint, pages);
    let (quotient, _) = split(rest, QUOTIENTS_MAX, REMAINDER_BITS);
    slot_offset(quotient, REMAINDER_BITS)
}

/// Whether a key with this fingerprint may be there, by the payload of page `page_of(fingerprint, pages)`.
pub fn may_contain(payload: &[u8], fingerprint: u32, pages: u32) -> bool {
    let Some(page) = FilterPage::parse(payload) else { return true };
    if page.saturated() {
        return true;
    }
    let (_, rest) = digits(fingerprint, pages);
    let (quotient, remainder) = split(rest, page.quotients(), page.remainder_bits());
    page.quotients() > 0 && run_contains(&page, quotient, remainder)
}

/// The first digit of `value` as a fraction of 2^32, in base `base`, and what is left of it, again as a fraction.
fn digits(value: u32, base: u32) -> (u32, u32) {
    let product = u64::from(value) * u64::from(base);
    ((product >> 32) as u32, product as u32)
}

fn split(value: u32, quotients: u32, remainder_bits: u32) -> (u32, u32) {
    let (quotient, rest) = digits(value, quotients);
    (quotient, rest >> (32 - remainder_bits))
}

/// Looks for `remainder` in the run of `quotient`. Every loop ends within the page, whatever the slots say.
fn run_contains(page: &FilterPage<'_>, quotient: u32, remainder: u32) -> bool {
    if !page.slot(quotient).occupied() {
        return false;
    }
    // Back to the start of the cluster; how many occupied quotients lie from there to ours is how many runs to pass.
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

/// Builds all pages from sorted fingerprints; `None` where one overflows and `saturate` does not allow for it.
fn build(fingerprints: &[u32], pages: u32, saturate: bool) -> Option<Vec<Vec<u8>>> {
    let mut payloads = Vec::with_capacity(pages as usize);
    let mut entries = Vec::with_capacity(SLOTS_MAX as usize);
    let mut rest = fingerprints;
    let quotients = if pages == 1 { quotients_for(fingerprints.len()) } else { QUOTIENTS_MAX };
    for page in 0..pages {
        let length = rest.partition_point(|&fingerprint| page_of(fingerprint, pages) <= page);
        let (own, others) = rest.split_at(length);
        rest = others;
        entries.clear();
        entries.extend(own.iter().map(|&fingerprint| split(digits(fingerprint, pages).1, quotients, REMAINDER_BITS)));
        entries.dedup();
        match build_page(&entries, quotients) {
            Some(payload) => payloads.push(payload),
            None if saturate => payloads.push(FilterPageWriter::saturated(REMAINDER_BITS)),
            None => return None,
        }
    }
    Some(payloads)
}

/// Quotients of a filter that is one page, so that a small one is small.
fn quotients_for(keys: usize) -> u32 {
    let wanted = keys as u64 * 100 / u64::from(LOAD_PERCENT) + 1;
    wanted.min(u64::from(QUOTIENTS_MAX)) as u32
}

/// Builds one page from (quotient, remainder) pairs, ascending and distinct; `None` where they do not fit.
fn build_page(entries: &[(u32, u32)], quotients: u32) -> Option<Vec<u8>> {
    let stored = u32::try_from(entries.len()).ok()?;
    let slots = quotients + stored.min(SPARE_SLOTS);
    if stored > slots {
        return None;
    }
    let mut page = FilterPageWriter::new(REMAINDER_BITS, quotients, slots, stored);
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

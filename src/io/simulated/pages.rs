//! The bytes of a simulated file in pages that copies share until one of them is written to, so that an image of the
//! disk costs counters, not bytes. Plain data.
//!
//! Invariants:
//! 1. There are as many pages as the length needs. A page that is `None` is all zeroes.
//! 2. Bytes of the last page after the length are zero.

use crate::util::sync::Arc;

/// The unit that cuts keep or lose.
pub(super) const SECTOR: usize = 512;
/// The unit of sharing and of capacity.
pub(super) const PAGE: usize = 4096;
/// Sectors in a page.
pub(super) const SECTORS: usize = PAGE / SECTOR;

type Page = [u8; PAGE];

static ZEROES: Page = [0; PAGE];

/// Bytes from 0 to a length.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    pages: Vec<Option<Arc<Page>>>,
    length: usize,
}

impl Pages {
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Truncates, or extends with zeroes.
    pub(super) fn resize(&mut self, length: usize) {
        self.pages.resize(length.div_ceil(PAGE), None);
        let kept = length % PAGE;
        if length < self.length
            && kept > 0
            && let Some(Some(last)) = self.pages.last_mut()
        {
            Arc::make_mut(last)[kept..].fill(0);
        }
        self.length = length;
    }

    /// A page's bytes; those after the length are zeroes.
    pub(super) fn page(&self, page: usize) -> &Page {
        self.pages.get(page).and_then(Option::as_deref).unwrap_or(&ZEROES)
    }

    /// Fills `out` from `offset` on; bytes after the length are zeroes.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        let mut at = 0;
        while at < out.len() {
            let (page, inside) = ((offset + at) / PAGE, (offset + at) % PAGE);
            let count = (PAGE - inside).min(out.len() - at);
            out[at..at + count].copy_from_slice(&self.page(page)[inside..inside + count]);
            at += count;
        }
    }

    /// Stores `bytes` at `offset`; extends the file if they end after the length.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        if offset + bytes.len() > self.length {
            self.resize(offset + bytes.len());
        }
        let mut at = 0;
        while at < bytes.len() {
            let (page, inside) = ((offset + at) / PAGE, (offset + at) % PAGE);
            let count = (PAGE - inside).min(bytes.len() - at);
            let piece = &bytes[at..at + count];
            match &mut self.pages[page] {
                None if *piece == ZEROES[..count] => {}
                slot @ None => {
                    let mut fresh = ZEROES;
                    fresh[inside..inside + count].copy_from_slice(piece);
                    *slot = Some(Arc::new(fresh));
                }
                Some(old) => Arc::make_mut(old)[inside..inside + count].copy_from_slice(piece),
            }
            at += count;
        }
    }

    /// Copies a sector from another state of the file, up to both lengths; the rest of this one stays.
    pub(super) fn take_sector(&mut self, from: &Self, sector: usize) {
        let (start, page) = (sector * SECTOR, sector / SECTORS);
        let end = (start + SECTOR).min(self.length).min(from.length);
        if start < end {
            let inside = start % PAGE;
            self.write(start, &from.page(page)[inside..inside + end - start]);
        }
    }

    /// Takes over a whole page, shared. Requires equal lengths.
    pub(super) fn take_page(&mut self, from: &Self, page: usize) {
        debug_assert_eq!(self.length, from.length);
        self.pages[page].clone_from(&from.pages[page]);
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        self.read(0, &mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn pages_are_a_vector_of_bytes_and_copies_stay_as_they_were() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let (mut pages, mut model) = (Pages::default(), Vec::new());
            let mut copies = Vec::new();
            for round in 0..60 {
                let at = random.below(3 * PAGE as u64) as usize;
                match random.below(4) {
                    0 => {
                        pages.resize(at);
                        model.resize(at, 0);
                    }
                    1 => copies.push((pages.clone(), model.clone())),
                    _ => {
                        let bytes = vec![(round % 3) as u8; random.below(2 * PAGE as u64) as usize];
                        pages.write(at, &bytes);
                        model.resize(model.len().max(at + bytes.len()), 0);
                        model[at..at + bytes.len()].copy_from_slice(&bytes);
                    }
                }
                assert_eq!(pages.to_vec(), model, "seed {seed}, round {round}");
            }
            for (copy, model) in copies {
                assert_eq!(copy.to_vec(), model, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_sector_is_taken_over_as_far_as_both_go() {
        let (mut to, mut from) = (Pages::default(), Pages::default());
        to.write(0, &[1; 2000]);
        from.write(0, &[2; 700]);
        to.take_sector(&from, 1);
        to.take_sector(&from, 3);
        let mut expected = vec![1; 2000];
        expected[512..700].fill(2);
        assert_eq!(to.to_vec(), expected);
        to.resize(700);
        to.take_page(&from, 0);
        assert_eq!(to.to_vec(), [2; 700]);
    }
}

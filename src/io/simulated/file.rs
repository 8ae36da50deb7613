//! One simulated file: its current and its durable bytes. Plain data under the disk's lock, but for the mapped head.
//!
//! Invariants:
//! 1. `bytes.len()` is the current length. Where there is a `head`, it holds the current bytes of its own length, and
//!    what `bytes` has there is stale; behind it `bytes` is current.
//! 2. A sector that differs from its durable state is in `dirty`, or lies under the head (`find_dirty` adds it), or
//!    was given up by a failed sync (`lost`; the kernel then takes it for clean, and so do later syncs).

use super::bits::Bits;
use super::mapping::MapMemory;
use super::random::Random;
use crate::base::sync::Arc;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;

/// What a cut keeps or loses as a whole.
pub(super) const SECTOR: usize = 512;
/// What takes up capacity as a whole.
pub(super) const PAGE: usize = 4096;

/// The bytes of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    bytes: Vec<u8>,
    head: Option<Arc<MapMemory>>,
    durable: Vec<u8>,
    dirty: Bits,
    lost: BTreeMap<usize, Vec<u8>>,
    pages: Bits,
    hold: Arc<()>,
}

impl File {
    /// Keeps the file although no name leads to it, until dropped.
    pub(super) fn hold(&self) -> Arc<()> {
        Arc::clone(&self.hold)
    }

    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.hold) > 1
    }

    pub(super) fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of capacity that it takes.
    pub(super) fn used(&self) -> u64 {
        self.pages.count() * PAGE as u64
    }

    pub(super) fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len()).filter(|&end| end <= self.length());
        let end = end.ok_or(ErrorKind::UnexpectedEof)?;
        let mapped = self.head_length().clamp(offset, end) - offset;
        if let Some(head) = &self.head
            && mapped > 0
        {
            head.read(offset, &mut out[..mapped]);
        }
        out[mapped..].copy_from_slice(&self.bytes[offset + mapped..end]);
        Ok(())
    }

    /// Writes as far as `room` pages of new capacity go; `StorageFull` where that is not the end.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], room: u64) -> Result<()> {
        let fits = self.take_pages(offset..offset + bytes.len(), room) - offset;
        if fits > 0 {
            self.store(offset, &bytes[..fits]);
        }
        if fits < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.mark_dirty(offset.min(self.length())..end);
        if self.length() < end {
            self.bytes.resize(end, 0);
        }
        let mapped = self.head_length().clamp(offset, end) - offset;
        if let Some(head) = &self.head
            && mapped > 0
        {
            head.write(offset, &bytes[..mapped]);
        }
        self.bytes[offset + mapped..end].copy_from_slice(&bytes[mapped..]);
    }

    /// Takes capacity for a range; returns how far it reached.
    pub(super) fn take_pages(&mut self, range: Range<usize>, room: u64) -> usize {
        let mut left = room;
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            if self.pages.contains(page) {
                continue;
            }
            if left == 0 {
                return (page * PAGE).max(range.start);
            }
            left -= 1;
            self.pages.insert(page);
        }
        range.end
    }

    pub(super) fn set_length(&mut self, length: usize) -> Result<()> {
        if self.head.as_ref().is_some_and(|head| Arc::strong_count(head) == 1) {
            self.unmap();
        }
        if length < self.head_length() {
            return Err(Error::new(ErrorKind::Unsupported, "the simulated disk does not cut mapped files"));
        }
        let old = self.length();
        self.bytes.resize(length, 0);
        if length > old {
            self.mark_dirty(old..length);
        } else {
            self.dirty.truncate(length.div_ceil(SECTOR));
            self.pages.truncate(length.div_ceil(PAGE));
            self.lost.split_off(&length.div_ceil(SECTOR));
        }
        Ok(())
    }

    /// The whole file as mapped memory; the same memory as long as the length is the same.
    pub(super) fn map(&mut self) -> Result<Arc<MapMemory>> {
        if self.length() == 0 {
            return Err(Error::new(ErrorKind::InvalidInput, "an empty file cannot be mapped"));
        }
        if let Some(head) = &self.head {
            if head.length() == self.length() {
                return Ok(Arc::clone(head));
            }
            if Arc::strong_count(head) > 1 {
                return Err(Error::new(ErrorKind::Unsupported, "the file grew under a mapping that is still in use"));
            }
        }
        self.unmap();
        let head = Arc::new(MapMemory::new(&self.bytes));
        self.head = Some(Arc::clone(&head));
        Ok(head)
    }

    /// Parts the file from its mapping: what was stored so far stays, what comes later reaches nobody.
    pub(super) fn unmap(&mut self) {
        self.find_dirty();
        if let Some(head) = self.head.take() {
            head.read(0, &mut self.bytes[..head.length()]);
        }
    }

    /// Parts it from everyone who holds or maps it.
    pub(super) fn detach(&mut self) {
        self.unmap();
        self.hold = Arc::default();
    }

    pub(super) fn sync(&mut self) {
        self.find_dirty();
        self.durable.resize(self.length(), 0);
        for sector in std::mem::take(&mut self.dirty).iter() {
            self.lost.remove(&sector);
            self.carry_over(sector);
        }
    }

    /// A sync that fails: of what was dirty, some is durable; the rest counts as clean from now on and is lost.
    pub(super) fn sync_in_part(&mut self, random: &mut Random) {
        self.find_dirty();
        if random.chance(50) {
            self.durable.resize(self.length(), 0);
        }
        for sector in std::mem::take(&mut self.dirty).iter() {
            if random.chance(50) {
                self.lost.remove(&sector);
                self.carry_over(sector);
            } else {
                self.lost.insert(sector, self.sector(sector));
            }
        }
    }

    /// Everything, what a failed sync gave up included, is durable: a file system that was unmounted in good order.
    pub(super) fn settle(&mut self) {
        self.unmap();
        self.durable.clone_from(&self.bytes);
        self.dirty.clear();
        self.lost.clear();
    }

    /// What a loss of power leaves.
    pub(super) fn cut(&mut self, random: &mut Random) {
        self.detach();
        let length = if random.chance(50) { self.length() } else { self.durable.len() };
        let percent = random.below(5) * 25;
        self.durable.resize(length, 0);
        for sector in std::mem::take(&mut self.dirty).iter() {
            if random.chance(percent) {
                self.carry_over(sector);
            }
        }
        self.bytes.clone_from(&self.durable);
        self.lost.clear();
        self.pages.clear();
        self.take_pages(0..length, u64::MAX);
    }

    pub(super) fn current(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        if let Some(head) = &self.head {
            head.read(0, &mut bytes[..head.length()]);
        }
        bytes
    }

    pub(super) fn durable(&self) -> &[u8] {
        &self.durable
    }

    pub(super) fn corrupt(&mut self, offset: usize, xor: u8) {
        let mut byte = [0];
        self.read(offset, &mut byte).expect("the byte to corrupt lies in the file");
        byte[0] ^= xor;
        match &self.head {
            Some(head) if offset < head.length() => head.write(offset, &byte),
            _ => self.bytes[offset] = byte[0],
        }
        if let Some(durable) = self.durable.get_mut(offset) {
            *durable ^= xor;
        }
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.set_length(length.min(self.length())).expect("the file to cut is not mapped");
        self.durable.truncate(length);
    }

    fn head_length(&self) -> usize {
        self.head.as_ref().map_or(0, |head| head.length())
    }

    fn mark_dirty(&mut self, range: Range<usize>) {
        for sector in range.start / SECTOR..range.end.div_ceil(SECTOR) {
            self.dirty.insert(sector);
        }
    }

    /// Adds what was stored under the head to the dirty sectors.
    fn find_dirty(&mut self) {
        let Some(head) = &self.head else { return };
        let mut buffer = [0; SECTOR];
        for sector in 0..head.length().div_ceil(SECTOR) {
            if self.dirty.contains(sector) {
                continue;
            }
            let start = sector * SECTOR;
            let current = &mut buffer[..SECTOR.min(head.length() - start)];
            head.read(start, current);
            let durable = self.durable.get(start..start + current.len());
            let given_up = self.lost.get(&sector).is_some_and(|lost| lost == current);
            if durable != Some(&*current) && !given_up {
                self.dirty.insert(sector);
            }
        }
    }

    /// The current bytes of a sector, cut at the end of the file.
    fn sector(&self, sector: usize) -> Vec<u8> {
        let start = (sector * SECTOR).min(self.length());
        let mut bytes = vec![0; SECTOR.min(self.length() - start)];
        self.read(start, &mut bytes).expect("the sector lies in the file");
        bytes
    }

    /// Makes a sector durable, as far as the durable length goes.
    fn carry_over(&mut self, sector: usize) {
        let bytes = self.sector(sector);
        let start = (sector * SECTOR).min(self.durable.len());
        let count = bytes.len().min(self.durable.len() - start);
        self.durable[start..start + count].copy_from_slice(&bytes[..count]);
    }
}

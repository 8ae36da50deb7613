//! One simulated file: what the process sees of it and what the disk has of it. Plain data under the disk's lock;
//! copies share their pages.
//!
//! Invariants:
//! 1. `current` is the page cache over the disk. If the file is mapped, stores to the mapping are absorbed before
//!    anything else reads it (`disk`).
//! 2. A sector in which `current` and `durable` differ is in one of three sets. `dirty`: the kernel will write it.
//!    `lost`: the kernel takes it for clean, after a failed sync or on a disk that lies; a read past the page cache
//!    returns the durable bytes. `volatile`: it was written past the page cache, and the sync after it failed; it is in
//!    the disk's own cache, is visible, and becomes durable with the next sync.

use super::bits::Bits;
use super::mapping::MapMemory;
use super::pages::{PAGE, Pages, SECTOR, SECTORS};
use super::random::Random;
use std::io::{ErrorKind, Result};
use std::ops::Range;

/// The bytes of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    current: Pages,
    durable: Pages,
    /// The durable state before the last sync that changed it.
    older: Pages,
    dirty: Bits,
    /// Those of the dirty ones that were written past the page cache.
    direct: Bits,
    lost: Bits,
    volatile: Bits,
    /// Pages that take capacity.
    taken: Bits,
}

/// The path of a read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the page cache.
    Cached,
    /// Past it.
    Direct,
}

impl File {
    pub(super) fn length(&self) -> usize {
        self.current.length()
    }

    /// Bytes of capacity that it takes.
    pub(super) fn used(&self) -> u64 {
        self.taken.count() * PAGE as u64
    }

    /// Whether a cut, a sync or an eviction would change nothing.
    pub(super) fn is_settled(&self) -> bool {
        let clean = self.dirty.is_empty() && self.lost.is_empty() && self.volatile.is_empty();
        clean && self.durable.length() == self.length()
    }

    pub(super) fn current(&self) -> &Pages {
        &self.current
    }

    pub(super) fn durable(&self) -> &Pages {
        &self.durable
    }

    pub(super) fn read(&self, offset: usize, out: &mut [u8], way: Way) -> Result<()> {
        let end = offset.checked_add(out.len()).filter(|&end| end <= self.length());
        let end = end.ok_or(ErrorKind::UnexpectedEof)?;
        self.current.read(offset, out);
        if way == Way::Direct && !self.lost.is_empty() {
            for sector in self.lost.iter().filter(|sector| (offset..end).contains(&(sector * SECTOR))) {
                let stop = end.min((sector + 1) * SECTOR);
                self.durable.read(sector * SECTOR, &mut out[sector * SECTOR - offset..stop - offset]);
            }
        }
        Ok(())
    }

    /// Reads what was durable before the last sync.
    pub(super) fn read_older(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.read(offset, out, Way::Cached)?;
        self.older.read(offset, out);
        Ok(())
    }

    /// Writes until `room` pages of new capacity are used; `StorageFull` if that is not enough.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], room: u64, way: Way) -> Result<()> {
        let fits = self.take_pages(offset..offset + bytes.len(), room) - offset;
        if fits > 0 {
            self.mark_dirty(offset.min(self.length())..offset + fits);
            if way == Way::Direct {
                sectors(offset..offset + fits).for_each(|sector| {
                    self.direct.insert(sector);
                });
            }
            self.current.write(offset, &bytes[..fits]);
        }
        if fits < bytes.len() { Err(ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    /// A write that the disk only claims to have done. If it goes through the page cache, the page cache has it.
    pub(super) fn write_nowhere(&mut self, offset: usize, bytes: &[u8], room: u64, way: Way) -> Result<()> {
        let (end, old_end) = (offset + bytes.len(), self.length());
        match way {
            Way::Cached => self.write(offset, bytes, room, way)?,
            Way::Direct if end > old_end => self.write(old_end, &vec![0; end - old_end], room, way)?,
            Way::Direct => {}
        }
        for sector in sectors(offset..end) {
            if way == Way::Cached && self.dirty.remove(sector) {
                self.lost.insert(sector);
            }
        }
        Ok(())
    }

    /// Bytes of another place that the disk stores here, unnoticed by the page cache.
    pub(super) fn hit(&mut self, offset: usize, bytes: &[u8]) {
        let end = (offset + bytes.len()).min(self.durable.length());
        if offset < end {
            self.durable.write(offset, &bytes[..end - offset]);
            for sector in sectors(offset..end) {
                if !self.dirty.contains(sector) {
                    self.lost.insert(sector);
                }
            }
        }
    }

    /// Takes capacity for a range; returns how far it sufficed.
    pub(super) fn take_pages(&mut self, range: Range<usize>, room: u64) -> usize {
        let mut left = room;
        for page in range.start / PAGE..range.end.div_ceil(PAGE) {
            if self.taken.contains(page) {
                continue;
            }
            if left == 0 {
                return (page * PAGE).max(range.start);
            }
            left -= 1;
            self.taken.insert(page);
        }
        range.end
    }

    pub(super) fn set_length(&mut self, length: usize) {
        let old = self.length();
        self.current.resize(length);
        if length > old {
            self.mark_dirty(old..length);
        } else {
            for sectors in [&mut self.dirty, &mut self.direct, &mut self.lost, &mut self.volatile] {
                sectors.truncate(length.div_ceil(SECTOR));
            }
            self.taken.truncate(length.div_ceil(PAGE));
        }
    }

    /// Whether anything was stored to the mapping since it was last absorbed.
    pub(super) fn differs_from(&self, map: &MapMemory) -> bool {
        (0..map.length().div_ceil(PAGE)).any(|page| self.page_differs(map, page))
    }

    fn page_differs(&self, map: &MapMemory, page: usize) -> bool {
        let (start, bytes) = (page * PAGE, self.current.page(page));
        !map.equals(start, &bytes[..PAGE.min(map.length() - start)])
    }

    /// Takes over the stores to the mapping.
    pub(super) fn absorb(&mut self, map: &MapMemory) {
        let mut bytes = [0; PAGE];
        for page in 0..map.length().div_ceil(PAGE) {
            if !self.page_differs(map, page) {
                continue;
            }
            let start = page * PAGE;
            let count = PAGE.min(map.length() - start);
            map.read(start, &mut bytes[..count]);
            for at in (0..count).step_by(SECTOR) {
                let sector = &bytes[at..count.min(at + SECTOR)];
                if self.current.page(page)[at..at + sector.len()] != *sector {
                    self.current.write(start + at, sector);
                    self.mark_dirty(start + at..start + at + sector.len());
                }
            }
        }
    }

    pub(super) fn sync(&mut self) {
        for sector in std::mem::take(&mut self.volatile).iter() {
            self.dirty.insert(sector);
        }
        if self.dirty.is_empty() && self.durable.length() == self.length() {
            return;
        }
        self.older.clone_from(&self.durable);
        self.durable.resize(self.length());
        self.direct.clear();
        let mut shared = usize::MAX;
        for sector in std::mem::take(&mut self.dirty).iter() {
            let page = sector / SECTORS;
            if page == shared {
                continue;
            }
            if (page * SECTORS..(page + 1) * SECTORS).any(|sector| self.lost.contains(sector)) {
                self.durable.take_sector(&self.current, sector);
            } else {
                // Invariant 2: the page's other sectors are equal already.
                self.durable.take_page(&self.current, page);
                shared = page;
            }
        }
    }

    /// A sync that fails, or that the disk only claims to have done: a part of the dirty data is durable; the rest
    /// counts as clean from now on and is lost.
    pub(super) fn sync_in_part(&mut self, random: &mut Random) {
        self.older.clone_from(&self.durable);
        if random.chance(50) {
            self.durable.resize(self.length());
        }
        let direct = std::mem::take(&mut self.direct);
        for sector in std::mem::take(&mut self.dirty).iter() {
            if !random.chance(50) || !self.carry_over(sector) {
                if direct.contains(sector) {
                    self.volatile.insert(sector)
                } else {
                    self.lost.insert(sector)
                };
            }
        }
    }

    /// A sync of which one sector went to a wrong place; returns its place and bytes.
    pub(super) fn sync_but_one(&mut self, random: &mut Random) -> Option<(usize, Vec<u8>)> {
        let dirty: Vec<usize> = self.dirty.iter().collect();
        let old = self.durable.clone();
        self.sync();
        let sector = *dirty.get(random.below(dirty.len().max(1) as u64) as usize)?;
        let start = sector * SECTOR;
        let mut bytes = vec![0; SECTOR.min(self.length().checked_sub(start)?)];
        old.read(start, &mut bytes);
        self.durable.write(start, &bytes);
        self.lost.insert(sector);
        self.current.read(start, &mut bytes);
        Some((start, bytes))
    }

    /// The kernel writes back when it chooses: a part of the dirty data, as it is now, becomes durable.
    pub(super) fn write_back(&mut self, random: &mut Random) {
        if random.chance(50) {
            self.durable.resize(self.length());
        }
        let percent = (1 + random.below(4)) * 25;
        for sector in self.dirty.clone().iter() {
            if random.chance(percent) && self.carry_over(sector) {
                self.dirty.remove(sector);
            }
        }
    }

    /// The page cache forgets what it takes for clean; returns the sectors whose contents change by that.
    pub(super) fn evict(&mut self) -> Vec<usize> {
        let lost: Vec<usize> = std::mem::take(&mut self.lost).iter().collect();
        for &sector in &lost {
            let start = sector * SECTOR;
            let mut bytes = vec![0; SECTOR.min(self.length() - start)];
            self.durable.read(start, &mut bytes);
            self.current.write(start, &bytes);
        }
        lost
    }

    /// A clean unmount: dirty data is written, lost data is gone.
    pub(super) fn settle(&mut self) {
        self.sync();
        self.evict();
    }

    /// What a power cut leaves.
    pub(super) fn cut(&mut self, random: &mut Random) {
        let (from, to) = (self.durable.length(), self.length());
        let length = match random.below(3) {
            0 => from,
            1 => to,
            _ => from.min(to) + random.below(from.abs_diff(to) as u64 + 1) as usize,
        };
        let percent = random.below(5) * 25;
        self.durable.resize(length);
        for sector in std::mem::take(&mut self.dirty).iter() {
            if random.chance(percent) {
                self.carry_over(sector);
            }
        }
        self.current.clone_from(&self.durable);
        self.direct.clear();
        self.lost.clear();
        self.volatile.clear();
        self.taken.clear();
        self.take_pages(0..length, u64::MAX);
    }

    /// Flips bits of one byte at rest, in both states.
    pub(super) fn corrupt(&mut self, offset: usize, xor: u8) {
        for state in [&mut self.current, &mut self.durable] {
            if offset < state.length() {
                let byte = state.page(offset / PAGE)[offset % PAGE] ^ xor;
                state.write(offset, &[byte]);
            }
        }
    }

    pub(super) fn truncate(&mut self, length: usize) {
        self.set_length(length.min(self.length()));
        self.durable.resize(length.min(self.durable.length()));
    }

    fn mark_dirty(&mut self, range: Range<usize>) {
        for sector in sectors(range) {
            self.dirty.insert(sector);
            self.direct.remove(sector);
            self.lost.remove(sector);
            self.volatile.remove(sector);
        }
    }

    /// Makes a sector durable up to the durable length; returns whether that was all of it.
    fn carry_over(&mut self, sector: usize) -> bool {
        self.durable.take_sector(&self.current, sector);
        ((sector + 1) * SECTOR).min(self.length()) <= self.durable.length()
    }
}

fn sectors(range: Range<usize>) -> Range<usize> {
    range.start / SECTOR..range.end.div_ceil(SECTOR)
}

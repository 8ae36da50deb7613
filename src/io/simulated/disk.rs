//! The state of the simulated disk and the process that uses it. Everything here runs under the disk's one lock.
//!
//! Invariants:
//! 1. The state of the disk is in `names` and `files`, shared with copies until it changes. The state of the process
//!    (open files, mappings, locks, faults) ends with it.
//! 2. If a file is mapped, its `current` bytes and the mapping are equal once `absorb` has run, and stay so: every
//!    change of `current` then updates the mapping (`refresh`). Every function here that reads a file absorbs first.

mod death;
mod names;

use super::directory::FileId;
use super::fault::{Effect, Errno, Part};
use super::faults::Faults;
use super::file::{File, Way};
use super::mapping::MapMemory;
use super::operation::Operation;
use super::pages::{PAGE, SECTOR};
use super::random::Random;
use crate::io::{Life, LockMode, LockPart};
use crate::util::sync::Arc;
use names::Directories;
pub(super) use names::{DirectoryId, FIRST_PATH};
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

/// A held lock, by its ticket.
#[derive(Clone, Debug)]
struct HeldLock {
    directory: DirectoryId,
    /// `None`: the directory itself.
    file: Option<FileId>,
    part: LockPart,
    mode: LockMode,
}

/// The whole state.
#[derive(Debug)]
pub(super) struct Disk {
    names: Arc<Directories>,
    files: BTreeMap<FileId, Arc<File>>,
    next_file: u64,
    opened: BTreeMap<FileId, Opened>,
    locks: BTreeMap<u64, HeldLock>,
    next_ticket: u64,
    process: u64,
    boot: u64,
    /// The instance of the file system: each mount is another one.
    instance: u64,
    pub(super) life_known: bool,
    pub(super) maps_safely: bool,
    pub(super) capacity: Option<u64>,
    pub(super) faults: Faults,
    time: Duration,
    random: Random,
    recorder: Option<Recorder>,
    /// The operations that faults made fail since the process began.
    pub(super) failed: Vec<(Operation, String)>,
}

/// The process's view of a file.
#[derive(Debug, Default)]
struct Opened {
    /// Shared with every handle, so that the file is kept even if no name leads to it.
    hold: Arc<()>,
    map: Option<Arc<MapMemory>>,
}

/// Collects an image of the disk before every operation that finds it changed.
#[derive(Debug, Default)]
struct Recorder {
    points: Vec<(Operation, String, Disk)>,
    /// Whether something has changed since the last image.
    changed: bool,
}

/// An operation that was counted and judged. The operation itself calls `permit` or `perform`, or fails in part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    failure: Option<(Errno, Part)>,
    damage: Option<Effect>,
}

impl Request {
    /// Continues, unless a fault fails the operation. For operations that change nothing.
    pub(super) fn permit(self) -> Result<()> {
        self.failure.map_or(Ok(()), |(errno, _)| Err(errno.error()))
    }

    /// Performs an indivisible change. If a fault fails the operation, the change happens only with `part=all`.
    pub(super) fn perform<T>(self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.failure {
            None => change(),
            Some((errno, Part::None | Part::Some)) => Err(errno.error()),
            Some((errno, Part::All)) => change().and_then(|_| Err(errno.error())),
        }
    }
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            names: Arc::new(Directories::new()),
            files: BTreeMap::new(),
            next_file: 1,
            opened: BTreeMap::new(),
            locks: BTreeMap::new(),
            next_ticket: 1,
            process: 1,
            boot: 1,
            instance: 1,
            life_known: true,
            maps_safely: true,
            capacity: None,
            faults: Faults::default(),
            time: Duration::ZERO,
            random: Random::new(seed),
            recorder: None,
            failed: Vec::new(),
        }
    }

    pub(super) fn process(&self) -> u64 {
        self.process
    }

    /// The disk's own time.
    pub(super) fn time(&self) -> Duration {
        self.time
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.time = self.time.saturating_add(time);
    }

    /// Every operation begins here. An error if the process is dead, or dies here.
    pub(super) fn begin(
        &mut self,
        process: u64,
        operation: Operation,
        (directory, name): (DirectoryId, &str),
    ) -> Result<Request> {
        if process != self.process {
            return Err(dead());
        }
        self.record(operation, name);
        let verdict = self.faults.judge(operation, name, &mut self.random);
        if verdict.crash {
            self.kill();
            return Err(dead());
        }
        self.pass(operation.time());
        let mut damage = None;
        for effect in verdict.effects {
            match effect {
                Effect::Slow(time) => self.pass(time),
                Effect::WriteBack => self.write_back(),
                Effect::Evict => self.evict(),
                Effect::Rot => self.rot(directory, name),
                effect => damage = damage.or(Some(effect).filter(|effect| effect.applies_to(operation))),
            }
        }
        let failure = verdict.failure.map(|(errno, part)| {
            let usual = if operation.has_parts() { Part::Some } else { Part::None };
            match part.unwrap_or(usual) {
                Part::Some if !operation.has_parts() && self.random.chance(50) => (errno, Part::All),
                part => (errno, part),
            }
        });
        if failure.is_some() {
            self.failed.push((operation, name.to_owned()));
        }
        Ok(Request { failure, damage })
    }

    /// From now on `points` gets an image of every state before which the process could die.
    pub(super) fn start_recording(&mut self) {
        self.recorder = Some(Recorder { points: Vec::new(), changed: true });
    }

    /// The images since the last call. The next operation takes one in any case.
    pub(super) fn points(&mut self) -> Vec<(Operation, String, Self)> {
        let Some(recorder) = &mut self.recorder else { return Vec::new() };
        recorder.changed = true;
        std::mem::take(&mut recorder.points)
    }

    fn record(&mut self, operation: Operation, name: &str) {
        if self.recorder.is_none() {
            return;
        }
        self.absorb_all();
        if self.recorder.as_ref().is_some_and(|recorder| recorder.changed) {
            let image = self.image();
            if let Some(recorder) = &mut self.recorder {
                recorder.changed = false;
                recorder.points.push((operation, name.to_owned(), image));
            }
        }
    }

    fn note_change(&mut self) {
        if let Some(recorder) = &mut self.recorder {
            recorder.changed = true;
        }
    }

    /// A file that a handle or a name leads to, with the stores to its mapping.
    pub(super) fn file(&mut self, id: FileId) -> &File {
        self.absorb(id);
        self.files.get(&id).expect("files with names or handles are kept")
    }

    /// The same, mutable.
    fn file_mut(&mut self, id: FileId) -> &mut File {
        self.absorb(id);
        self.note_change();
        Arc::make_mut(self.files.get_mut(&id).expect("files with names or handles are kept"))
    }

    fn absorb(&mut self, id: FileId) {
        let Some(map) = self.map_of(id) else { return };
        let file = self.files.get_mut(&id).expect("mapped files are kept");
        // Usually nothing was stored, and the bytes stay shared.
        let unused = Arc::strong_count(&map) <= 2;
        if file.differs_from(&map) {
            Arc::make_mut(file).absorb(&map);
            self.note_change();
        }
        if unused && let Some(opened) = self.opened.get_mut(&id) {
            opened.map = None;
        }
    }

    fn absorb_all(&mut self) {
        let mapped: Vec<FileId> =
            self.opened.iter().filter(|(_, opened)| opened.map.is_some()).map(|(id, _)| *id).collect();
        mapped.into_iter().for_each(|id| self.absorb(id));
    }

    fn map_of(&self, id: FileId) -> Option<Arc<MapMemory>> {
        self.opened.get(&id)?.map.clone()
    }

    /// Updates a mapping after its file's current bytes changed.
    fn refresh(&mut self, id: FileId, offset: usize, length: usize) {
        let Some(map) = self.map_of(id) else { return };
        let end = map.length().min(offset + length);
        if offset < end {
            let mut bytes = vec![0; end - offset];
            self.files[&id].current().read(offset, &mut bytes);
            map.write(offset, &bytes);
        }
    }

    pub(super) fn create(&mut self, directory: DirectoryId, name: &str) -> Result<FileId> {
        let id = FileId(self.next_file);
        self.names_mut(directory).create(name, id)?;
        self.next_file += 1;
        self.files.insert(id, Arc::default());
        Ok(id)
    }

    /// Keeps the file even if no name leads to it, until dropped.
    pub(super) fn hold(&mut self, id: FileId) -> Arc<()> {
        Arc::clone(&self.opened.entry(id).or_default().hold)
    }

    /// The whole file as mapped memory; the same memory as long as the length is the same.
    pub(super) fn map(&mut self, id: FileId) -> Result<Arc<MapMemory>> {
        let room = self.room();
        let length = self.file(id).length();
        if length == 0 {
            return Err(Error::new(ErrorKind::InvalidInput, "an empty file cannot be mapped"));
        }
        // A real disk would kill the process at the first store that finds no space. Report that now.
        if self.capacity.is_some() && self.file_mut(id).take_pages(0..length, room) < length {
            return Err(ErrorKind::StorageFull.into());
        }
        match self.map_of(id) {
            Some(map) if map.length() == length => return Ok(map),
            Some(_) => {
                let what = "the file grew under a mapping that is still in use";
                return Err(Error::new(ErrorKind::Unsupported, what));
            }
            None => {}
        }
        let map = Arc::new(MapMemory::new(self.file(id).current()));
        self.opened.entry(id).or_default().map = Some(Arc::clone(&map));
        Ok(map)
    }

    pub(super) fn set_length(&mut self, request: Request, id: FileId, length: usize) -> Result<()> {
        self.absorb(id);
        if self.map_of(id).is_some_and(|map| length < map.length()) {
            return Err(Error::new(ErrorKind::Unsupported, "the simulated disk does not cut mapped files"));
        }
        request.perform(|| {
            self.file_mut(id).set_length(length);
            Ok(())
        })
    }

    pub(super) fn read(&mut self, request: Request, id: FileId, out: &mut [u8], offset: u64, way: Way) -> Result<()> {
        request.permit()?;
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        match request.damage {
            Some(Effect::Stale) => self.file(id).read_older(offset, out),
            Some(Effect::Misdirect) => {
                self.file(id).read(offset, out, way)?;
                match self.elsewhere(id, offset, out.len()) {
                    Some((other, at)) => self.file(other).read(at, out, way),
                    None => Ok(()),
                }
            }
            Some(Effect::Flip) => {
                self.file(id).read(offset, out, way)?;
                flip(out, &mut self.random);
                Ok(())
            }
            _ => self.file(id).read(offset, out, way),
        }
    }

    pub(super) fn write(&mut self, request: Request, id: FileId, bytes: &[u8], offset: u64, way: Way) -> Result<()> {
        let (room, offset) = (self.room(), offset as usize);
        let count = match request.failure {
            Some((_, Part::None)) => 0,
            Some((_, Part::Some)) => self.random.below((bytes.len() / SECTOR) as u64 + 1) as usize * SECTOR,
            Some((_, Part::All)) | None => bytes.len(),
        };
        let mut bytes = std::borrow::Cow::Borrowed(&bytes[..count]);
        let done = match request.damage {
            Some(Effect::Stale) => self.file_mut(id).write_nowhere(offset, &bytes, room, way),
            Some(Effect::Misdirect) => {
                let there = self.elsewhere(id, offset, bytes.len());
                let done = self.file_mut(id).write_nowhere(offset, &bytes, room, way);
                if let Some((other, at)) = there {
                    self.file_mut(other).hit(at, &bytes);
                }
                done
            }
            damage => {
                if damage == Some(Effect::Flip) {
                    flip(bytes.to_mut(), &mut self.random);
                }
                self.file_mut(id).write(offset, &bytes, room, way)
            }
        };
        self.refresh(id, offset, bytes.len());
        request.permit().and(done)
    }

    pub(super) fn sync(&mut self, request: Request, id: FileId) -> Result<()> {
        if self.file(id).is_settled() {
            return request.permit();
        }
        let mut random = Random::new(self.random.next());
        match (request.failure, request.damage) {
            (Some((_, Part::None)), _) => {}
            (Some((_, Part::Some)), _) | (_, Some(Effect::Stale)) => self.file_mut(id).sync_in_part(&mut random),
            (_, Some(Effect::Misdirect)) => {
                let astray = self.file_mut(id).sync_but_one(&mut random);
                if let Some((offset, bytes)) = astray
                    && let Some((other, at)) = self.elsewhere(id, offset, bytes.len())
                {
                    self.file_mut(other).hit(at, &bytes);
                }
            }
            _ => self.file_mut(id).sync(),
        }
        request.permit()
    }

    /// Another position with as many bytes, if there is one: in the same file or in another.
    fn elsewhere(&mut self, id: FileId, offset: usize, length: usize) -> Option<(FileId, usize)> {
        let own = self.random.chance(50);
        let mut places = Vec::new();
        for other in self.names.named().into_iter().filter(|other| (*other == id) == own) {
            let last = (self.files[&other].length() + 1).checked_sub(length.max(1));
            places.extend((0..last.unwrap_or(0)).step_by(SECTOR).map(|at| (other, at)));
        }
        places.retain(|place| *place != (id, offset));
        (!places.is_empty()).then(|| places[self.random.below(places.len() as u64) as usize])
    }

    /// The kernel writes some dirty data back, and may commit some of the names.
    fn write_back(&mut self) {
        let mut random = Random::new(self.random.next());
        self.absorb_all();
        for id in self.unsettled() {
            if random.chance(50) {
                self.file_mut(id).write_back(&mut random);
            }
        }
        for directory in self.names.unsettled() {
            if random.chance(25) {
                self.names_mut(directory).sync_in_part(&mut random);
            }
        }
    }

    fn evict(&mut self) {
        self.absorb_all();
        for id in self.unsettled() {
            for sector in self.file_mut(id).evict() {
                self.refresh(id, sector * SECTOR, SECTOR);
            }
        }
    }

    fn unsettled(&self) -> Vec<FileId> {
        self.files.iter().filter(|(_, file)| !file.is_settled()).map(|(id, _)| *id).collect()
    }

    fn rot(&mut self, directory: DirectoryId, name: &str) {
        let Ok(id) = self.names(directory).find(name) else { return };
        let length = self.file(id).length() as u64;
        if length > 0 {
            let (offset, bit) = (self.random.below(length) as usize, self.random.below(8));
            self.corrupt(id, offset, 1 << bit);
        }
    }

    pub(super) fn corrupt(&mut self, id: FileId, offset: usize, xor: u8) {
        assert!(offset < self.file(id).length(), "the byte to corrupt lies in the file");
        self.file_mut(id).corrupt(offset, xor);
        self.refresh(id, offset, 1);
    }

    pub(super) fn truncate(&mut self, id: FileId, length: usize) {
        self.absorb(id);
        assert!(self.map_of(id).is_none(), "the file to cut is not mapped");
        self.file_mut(id).truncate(length);
    }

    /// A ticket for the lock; `None` if another holder excludes it.
    pub(super) fn lock(
        &mut self,
        directory: DirectoryId,
        name: &str,
        part: LockPart,
        mode: LockMode,
    ) -> Result<Option<u64>> {
        if self.names(directory).find(name).is_err() {
            if mode == LockMode::Shared {
                return Err(ErrorKind::NotFound.into());
            }
            self.create(directory, name)?;
        }
        let file = Some(self.names(directory).find(name)?);
        Ok(self.hold_lock(HeldLock { directory, file, part, mode }))
    }

    /// The same for the directory itself.
    pub(super) fn lock_directory(&mut self, directory: DirectoryId) -> Result<Option<u64>> {
        self.names(directory).check_exists()?;
        Ok(self.hold_lock(HeldLock { directory, file: None, part: LockPart::Writer, mode: LockMode::Exclusive }))
    }

    fn hold_lock(&mut self, lock: HeldLock) -> Option<u64> {
        let of = |held: &HeldLock| (held.directory, held.file, held.part);
        let meets = |held: &HeldLock| of(held) == of(&lock);
        let alone = lock.mode == LockMode::Exclusive;
        if self.locks.values().any(|held| meets(held) && (alone || held.mode == LockMode::Exclusive)) {
            return None;
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.locks.insert(ticket, lock);
        Some(ticket)
    }

    /// Whether the name still leads to the locked file. The locks of a dead process stay as they were.
    pub(super) fn is_lock_in_place(&self, ticket: u64, name: &str) -> bool {
        match self.locks.get(&ticket).and_then(|held| Some((held.directory, held.file?))) {
            Some((directory, file)) => self.names(directory).find(name).is_ok_and(|found| found == file),
            None => true,
        }
    }

    /// Tickets are never reused, so the ticket of a dead process unlocks no other lock.
    pub(super) fn unlock(&mut self, ticket: u64) {
        self.locks.remove(&ticket);
    }

    pub(super) fn used(&self) -> u64 {
        let named = self.names.named();
        self.files
            .iter()
            .filter(|(id, _)| is_held(&self.opened, **id) || named.contains(id))
            .map(|(_, file)| file.used())
            .sum()
    }

    /// Free bytes, if there is a limit.
    pub(super) fn available(&self) -> Option<u64> {
        self.capacity.map(|_| self.room() * PAGE as u64)
    }

    /// Free pages.
    fn room(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()) / PAGE as u64)
    }

    /// Forgets files that nothing leads to.
    pub(super) fn collect(&mut self) {
        let reachable = self.names.reachable();
        let opened = &self.opened;
        self.files.retain(|id, _| is_held(opened, *id) || reachable.contains(id));
        let files = &self.files;
        // A mapping without a holder is absorbed when the file is next read.
        self.opened.retain(|id, opened| {
            files.contains_key(id) && (Arc::strong_count(&opened.hold) > 1 || opened.map.is_some())
        });
    }

    pub(super) fn life(&self) -> Option<Life> {
        self.life_known.then_some(Life { boot: self.boot, instance: self.instance })
    }

    pub(super) fn random(&mut self) -> u64 {
        self.random.next()
    }
}

/// Whether a handle or a mapping leads to the file.
fn is_held(opened: &BTreeMap<FileId, Opened>, id: FileId) -> bool {
    opened.get(&id).is_some_and(|opened| Arc::strong_count(&opened.hold) > 1)
}

/// Changes one bit.
fn flip(bytes: &mut [u8], random: &mut Random) {
    if !bytes.is_empty() {
        let bit = random.below(bytes.len() as u64 * 8) as usize;
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

fn dead() -> Error {
    Error::other("the process that used the simulated disk is dead")
}

//! The state of the simulated disk and the process that uses it. Everything here runs under the disk's one lock.

use super::directory::{Directory, FileId};
use super::fault::{Faults, Operation, Verdict};
use super::file::{File, PAGE};
use super::mapping::MapMemory;
use super::random::Random;
use crate::base::sync::Arc;
use crate::io::{Life, LockMode, LockPart};
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};

/// A lock that is held, by its ticket.
#[derive(Clone, Debug)]
struct HeldLock {
    name: String,
    part: LockPart,
    mode: LockMode,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) names: Directory,
    files: BTreeMap<FileId, File>,
    next_file: u64,
    locks: BTreeMap<u64, HeldLock>,
    next_ticket: u64,
    process: u64,
    boot: u64,
    mount: u64,
    pub(super) life_known: bool,
    pub(super) capacity: Option<u64>,
    pub(super) faults: Faults,
    random: Random,
}

/// An operation that was counted and judged. It is for the operation to ask `permit`, or to fail in part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    failure: Option<ErrorKind>,
}

impl Request {
    /// Goes on, unless a fault says that the operation fails. For operations that fail without any effect.
    pub(super) fn permit(self) -> Result<()> {
        self.failure.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl Disk {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            names: Directory::new(),
            files: BTreeMap::new(),
            next_file: 1,
            locks: BTreeMap::new(),
            next_ticket: 1,
            process: 1,
            boot: 1,
            mount: 1,
            life_known: true,
            capacity: None,
            faults: Faults::default(),
            random: Random::new(seed),
        }
    }

    pub(super) fn process(&self) -> u64 {
        self.process
    }

    /// The gate of every operation. An error if the process is dead, or dies here.
    pub(super) fn begin(&mut self, process: u64, operation: Operation, name: &str) -> Result<Request> {
        if process != self.process {
            return Err(dead());
        }
        match self.faults.judge(operation, name) {
            Verdict::Go => Ok(Request { failure: None }),
            Verdict::Fail(kind) => Ok(Request { failure: Some(kind) }),
            Verdict::Crash => {
                self.kill();
                Err(dead())
            }
        }
    }

    /// A file that a handle or a name leads to.
    pub(super) fn file(&mut self, id: FileId) -> &mut File {
        self.files.get_mut(&id).expect("files with names or handles are kept")
    }

    pub(super) fn file_named(&mut self, name: &str) -> &mut File {
        let id = self.names.find(name).unwrap_or_else(|_| panic!("there is no file {name:?}"));
        self.file(id)
    }

    pub(super) fn create(&mut self, name: &str) -> Result<FileId> {
        let id = FileId(self.next_file);
        self.names.create(name, id)?;
        self.next_file += 1;
        self.files.insert(id, File::default());
        Ok(id)
    }

    pub(super) fn map(&mut self, id: FileId) -> Result<Arc<MapMemory>> {
        let room = self.room();
        let file = self.file(id);
        let length = file.length();
        // Where a real disk would kill the process at the first store that finds no room, say so now.
        if file.take_pages(0..length, room) < length {
            return Err(ErrorKind::StorageFull.into());
        }
        file.map()
    }

    pub(super) fn write(&mut self, request: Request, id: FileId, bytes: &[u8], offset: usize) -> Result<()> {
        let room = self.room();
        let Some(kind) = request.failure else { return self.file(id).write(offset, bytes, room) };
        // A write that fails may have done its first part.
        let sectors = self.random.below((bytes.len() / super::file::SECTOR) as u64 + 1) as usize;
        let _ = self.file(id).write(offset, &bytes[..sectors * super::file::SECTOR], room);
        Err(kind.into())
    }

    pub(super) fn sync(&mut self, request: Request, id: FileId) -> Result<()> {
        let Some(kind) = request.failure else {
            self.file(id).sync();
            return Ok(());
        };
        let mut random = Random::new(self.random.next());
        self.file(id).sync_in_part(&mut random);
        Err(kind.into())
    }

    pub(super) fn sync_directory(&mut self, request: Request) -> Result<()> {
        self.names.check_exists()?;
        if let Some(kind) = request.failure {
            self.names.sync_in_part(&mut self.random);
            return Err(kind.into());
        }
        self.names.sync();
        self.collect();
        Ok(())
    }

    /// A ticket for the lock, or `None` where others forbid it.
    pub(super) fn lock(&mut self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<u64>> {
        if self.names.find(name).is_err() {
            if mode == LockMode::Shared {
                return Err(ErrorKind::NotFound.into());
            }
            self.create(name)?;
        }
        let meets = |held: &HeldLock| held.name == name && held.part == part;
        let alone = mode == LockMode::Exclusive;
        if self.locks.values().any(|held| meets(held) && (alone || held.mode == LockMode::Exclusive)) {
            return Ok(None);
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.locks.insert(ticket, HeldLock { name: name.to_owned(), part, mode });
        Ok(Some(ticket))
    }

    /// Tickets are never used twice, so one of a dead process opens nobody else's lock.
    pub(super) fn unlock(&mut self, ticket: u64) {
        self.locks.remove(&ticket);
    }

    pub(super) fn used(&self) -> u64 {
        let named: Vec<FileId> = self.names.current.values().copied().collect();
        self.files.iter().filter(|(id, file)| file.is_held() || named.contains(id)).map(|(_, file)| file.used()).sum()
    }

    /// Pages still free.
    fn room(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()) / PAGE as u64)
    }

    /// Forgets files that nothing leads to.
    pub(super) fn collect(&mut self) {
        let names = &self.names;
        self.files.retain(|id, file| file.is_held() || names.refers_to(*id));
    }

    pub(super) fn life(&self) -> Option<Life> {
        self.life_known.then_some(Life { boot: self.boot, mount: self.mount })
    }

    pub(super) fn random(&mut self) -> u64 {
        self.random.next()
    }

    /// Ends the process; returns the number of the next.
    pub(super) fn kill(&mut self) -> u64 {
        self.files.values_mut().for_each(File::detach);
        self.next_process()
    }

    pub(super) fn power_cut(&mut self, seed: u64, new_boot: bool) -> u64 {
        let mut random = Random::new(seed);
        self.names.cut(&mut random);
        self.files.values_mut().for_each(|file| file.cut(&mut random));
        self.boot += u64::from(new_boot);
        self.mount += 1;
        self.next_process()
    }

    pub(super) fn remount(&mut self) -> u64 {
        self.kill();
        self.files.values_mut().for_each(File::settle);
        self.names.sync();
        self.mount += 1;
        self.next_process()
    }

    fn next_process(&mut self) -> u64 {
        self.locks.clear();
        self.faults.clear();
        self.collect();
        self.process += 1;
        self.process
    }

    /// A copy as `kill` would leave it.
    pub(super) fn fork(&self) -> Self {
        let mut files = self.files.clone();
        files.values_mut().for_each(File::detach);
        let mut fork = Self {
            names: self.names.clone(),
            files,
            locks: BTreeMap::new(),
            faults: Faults::default(),
            random: self.random.clone(),
            ..*self
        };
        fork.collect();
        fork
    }

    pub(super) fn current_image(&self) -> BTreeMap<String, Vec<u8>> {
        self.names.current.iter().map(|(name, id)| (name.clone(), self.files[id].current())).collect()
    }

    pub(super) fn durable_image(&self) -> BTreeMap<String, Vec<u8>> {
        self.names.durable.iter().map(|(name, id)| (name.clone(), self.files[id].durable().to_vec())).collect()
    }
}

fn dead() -> Error {
    Error::other("the process that used the simulated disk is dead")
}

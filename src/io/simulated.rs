//! A disk in memory that fails on command, for tests (feature `testing`). Any thread may call anything here.
//!
//! It keeps two states: the *current* one, which the process sees, and the *durable* one, which survives a power cut.
//! `sync` makes a file's bytes and length durable, `sync_directory` the names. A synced file whose name is not synced
//! may be gone after a power cut, as on ext4. What was not synced survives a cut in part: every 512-byte sector is old
//! or new independently, the length is old, new or between, every directory operation is done or not. Everything random
//! comes from seeds.
//!
//! A `SimulatedStorage` is one *process's* view of the disk. `kill`, `power_cut` and `remount` end that process: they
//! return the view of the next one, and every later call on the old view, its files and its mappings is an error.
//! Stores to an old mapping are harmless and have no effect.
//!
//! Faults are expressions (grammar in `fault`): `disk.inject("(sync name=MANIFEST nth=2) -> eio")`. They fail
//! operations, kill the process before one, damage what is read, written or at rest, misdirect or lose it, write dirty
//! data back early, evict the page cache, or take time on the disk's clock (`clock`); every operation takes some. After
//! a failed sync the kernel takes the pages for clean: what it did not write is visible in the page cache until it is
//! evicted, and not past the page cache, as on Linux.
//!
//! `at` is the same process's view of another directory of the same disk: with files, locks and names of its own, but
//! files may be linked from one to the other. Faults apply in all directories.
//!
//! `record_crashes` collects an image of the disk before every operation, so that one run yields every crash that it
//! could have. Images share what neither side has changed since, so they cost little.
//!
//! Invariants:
//! 1. All state is under one lock, so that an image of the disk (`clone_disk`, `kill`, `power_cut`) is a state between
//!    two calls. Only stores to mapped memory bypass the lock: an image that is taken meanwhile has each of them or
//!    not, and has every store that came before the call that takes the image.
//! 2. Every operation goes through `Disk::begin`, which counts it, fails it if a fault says so, and refuses it if the
//!    process is dead.
//! 3. The assumption about sectors: one of 512 bytes is old or new, never mixed; and a rewrite that was not synced
//!    changes no sector that it does not name.

mod bits;
mod clock;
mod directory;
mod disk;
mod fault;
mod faults;
mod file;
mod handles;
mod mapping;
mod operation;
mod pages;
mod parse;
mod random;
#[cfg(test)]
mod tests;

pub use fault::{Effect, Errno, Fault, NamePattern, Part};
pub use operation::Operation;
pub use parse::{FaultSyntaxError, parse_faults};

use super::{Clock, Life, LockGuard, LockMode, LockPart, MappedFile, OpenMode, Storage, StorageFile};
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, Result};
use clock::{RunningClock, SteppedClock};
use disk::{DirectoryId, Disk, FIRST_PATH, Request};
use handles::{Handle, SimulatedFile, SimulatedLock, SimulatedMap};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A moment at which the process could die.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    /// The operation before which it dies.
    pub operation: Operation,
    /// The file of the operation; empty for the directory.
    pub name: String,
    /// The disk as a kill leaves it, for the next process. Call `power_cut` on a clone of it for a power cut.
    pub disk: SimulatedStorage,
}

/// One process's view of a simulated disk. Clones are the same process.
#[derive(Clone, Debug)]
pub struct SimulatedStorage {
    disk: Arc<Mutex<Disk>>,
    process: u64,
    directory: DirectoryId,
    path: Arc<PathBuf>,
}

impl SimulatedStorage {
    /// An empty disk of unlimited capacity whose directory exists. Equal seeds and equal calls give equal results.
    pub fn new(seed: u64) -> Self {
        Self::over(Disk::new(seed))
    }

    fn over(disk: Disk) -> Self {
        let process = disk.process();
        let path = Arc::new(PathBuf::from(FIRST_PATH));
        Self { disk: Arc::new(Mutex::new(disk)), process, directory: DirectoryId::FIRST, path }
    }

    fn next_process(&self, process: u64) -> Self {
        Self { process, ..self.clone() }
    }

    /// This process's view of the directory at `path`, on the same disk. It does not exist until it is created.
    pub fn at(&self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let directory = self.disk.lock().directory_at(&path);
        Self { directory, path: Arc::new(path), ..self.clone() }
    }

    /// The process dies: everything current survives in the same life, locks are released, faults are removed.
    pub fn kill(&self) -> Self {
        let process = self.disk.lock().kill();
        self.next_process(process)
    }

    /// A power cut: what was not synced survives in part, chosen by `seed`; boot and mount are new.
    pub fn power_cut(&self, seed: u64) -> Self {
        let process = self.disk.lock().power_cut(seed, true);
        self.next_process(process)
    }

    /// The disk disappears under the mount and is mounted again within the same boot: a power cut for the data.
    pub fn mount_lost(&self, seed: u64) -> Self {
        let process = self.disk.lock().power_cut(seed, false);
        self.next_process(process)
    }

    /// A clean unmount and a new mount: everything survives and is durable, the mount is new.
    pub fn remount(&self) -> Self {
        let process = self.disk.lock().remount();
        self.next_process(process)
    }

    /// A copy of the disk with the same current and durable state and the same life, as `kill` would leave it. This one
    /// continues.
    pub fn clone_disk(&self) -> Self {
        Self::over(self.disk.lock().fork())
    }

    /// Sets whether `life()` is known from now on, or `None`.
    pub fn set_life_known(&self, known: bool) {
        self.disk.lock().life_known = known;
    }

    /// Sets whether the log may be written through mappings; if not, it is written by `write_all_at`.
    pub fn set_maps_safely(&self, safely: bool) {
        self.disk.lock().maps_safely = safely;
    }

    /// Adds faults, written as expressions. Panics if they do not parse, since tests write them.
    pub fn inject(&self, expressions: &str) {
        match parse_faults(expressions) {
            Ok(faults) => self.inject_faults(faults),
            Err(error) => panic!("{error}"),
        }
    }

    /// Adds faults.
    pub fn inject_faults(&self, faults: impl IntoIterator<Item = Fault>) {
        let mut disk = self.disk.lock();
        faults.into_iter().for_each(|fault| disk.faults.add(fault));
    }

    /// Removes all faults.
    pub fn clear_faults(&self) {
        self.disk.lock().faults.clear();
    }

    /// The process dies just before its `nth` operation from now (1 is the next), of any kind.
    pub fn crash_at(&self, nth: u64) {
        self.inject(&format!("(any nth={nth}) -> crash"));
    }

    /// From now on an image of the disk is taken before every operation that finds it changed, for `crash_points`.
    pub fn record_crashes(&self) {
        self.disk.lock().start_recording();
    }

    /// The images since the last call, oldest first. The operation after this call makes one in any case.
    pub fn crash_points(&self) -> Vec<CrashPoint> {
        let points = self.disk.lock().points();
        let point = |(operation, name, disk)| CrashPoint { operation, name, disk: Self::over(disk) };
        points.into_iter().map(point).collect()
    }

    /// The operations that faults made fail since the process began, with their files.
    pub fn failed_operations(&self) -> Vec<(Operation, String)> {
        self.disk.lock().failed.clone()
    }

    /// The disk's own time: the duration of all operations so far, slow ones longer, and what passed by `advance` and
    /// by sleeping.
    pub fn now(&self) -> Duration {
        self.disk.lock().time()
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        self.disk.lock().pass(time);
    }

    /// Whether this view's process is dead.
    pub fn is_dead(&self) -> bool {
        self.disk.lock().process() != self.process
    }

    /// The number of operations of a kind since the disk was made, including failed ones.
    pub fn operation_count(&self, operation: Operation) -> u64 {
        self.disk.lock().faults.count(operation)
    }

    /// The number of operations of all kinds.
    pub fn operations(&self) -> u64 {
        self.disk.lock().faults.total()
    }

    /// Limits the bytes of all files, in pages of 4 KiB; `None` removes the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk.lock().capacity = bytes;
    }

    /// Bytes that files take now, in pages of 4 KiB.
    pub fn used(&self) -> u64 {
        self.disk.lock().used()
    }

    /// Flips bits of one byte, in the current and the durable state. Requires that the file exists and is that long.
    pub fn corrupt(&self, name: &str, offset: u64, xor: u8) {
        let mut disk = self.disk.lock();
        let id = disk.id_of(self.directory, name);
        disk.corrupt(id, offset as usize, xor);
    }

    /// Truncates a file, in the current and the durable state. Requires that the file exists and is not mapped.
    pub fn truncate(&self, name: &str, length: u64) {
        let mut disk = self.disk.lock();
        let id = disk.id_of(self.directory, name);
        disk.truncate(id, length as usize);
    }

    /// The files as the process sees them.
    pub fn current_image(&self) -> BTreeMap<String, Vec<u8>> {
        self.disk.lock().current_image(self.directory)
    }

    /// The files that are certain to survive a power cut, with the bytes that are certain to be in them.
    pub fn durable_image(&self) -> BTreeMap<String, Vec<u8>> {
        self.disk.lock().durable_image(self.directory)
    }

    fn run<T>(
        &self,
        operation: Operation,
        name: &str,
        act: impl FnOnce(&mut Disk, Request) -> std::io::Result<T>,
    ) -> Result<T> {
        self.handle(name).run(operation, act)
    }

    fn handle(&self, name: &str) -> Handle {
        Handle {
            disk: Arc::clone(&self.disk),
            process: self.process,
            directory: self.directory,
            path: self.path.join(name),
            name: name.to_owned(),
        }
    }
}

impl Storage for SimulatedStorage {
    fn path(&self) -> &Path {
        &self.path
    }

    fn create_directory(&self) -> Result<()> {
        self.run(Operation::CreateDirectory, "", |disk, request| {
            request.perform(|| {
                disk.names_mut(self.directory).exists = true;
                Ok(())
            })
        })
    }

    fn directory_exists(&self) -> Result<bool> {
        self.run(Operation::List, "", |disk, request| request.permit().map(|()| disk.names(self.directory).exists))
    }

    fn list(&self) -> Result<Vec<String>> {
        self.run(Operation::List, "", |disk, request| {
            request.permit()?;
            disk.names(self.directory).check_exists()?;
            Ok(disk.names(self.directory).current.keys().cloned().collect())
        })
    }

    fn open(&self, name: &str, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
        let create = matches!(mode, OpenMode::Create | OpenMode::CreateDirect);
        let operation = if create { Operation::Create } else { Operation::Open };
        let (id, hold) = self.run(operation, name, |disk, request| {
            let id = request.perform(|| {
                if create { disk.create(self.directory, name) } else { disk.names(self.directory).find(name) }
            })?;
            Ok((id, disk.hold(id)))
        })?;
        Ok(Arc::new(SimulatedFile::new(self.handle(name), id, hold, mode)))
    }

    fn map(&self, name: &str) -> Result<Arc<dyn MappedFile>> {
        let (id, hold, memory) = self.run(Operation::Map, name, |disk, request| {
            request.permit()?;
            let id = disk.names(self.directory).find(name)?;
            let memory = disk.map(id)?;
            Ok((id, disk.hold(id), memory))
        })?;
        Ok(Arc::new(SimulatedMap::new(self.handle(name), id, hold, memory)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.run(Operation::Rename, from, |disk, request| {
            request.perform(|| {
                disk.names_mut(self.directory).rename(from, to)?;
                disk.collect();
                Ok(())
            })
        })
    }

    fn other_directory(&self, path: &Path) -> Result<Arc<dyn Storage>> {
        if path.starts_with(&*self.path) {
            let text = format!("{} lies in the directory {}; choose one outside", path.display(), self.path.display());
            return Err(Error::InvalidArgument(text));
        }
        Ok(Arc::new(self.at(path)))
    }

    fn link_into(&self, from: &str, target: &dyn Storage, to: &str) -> Result<bool> {
        self.run(Operation::Link, from, |disk, request| {
            match request.perform(|| disk.link((self.directory, from), (target.path(), to))) {
                Err(error) if error.kind() == ErrorKind::CrossesDevices => Ok(false),
                linked => linked.map(|()| true),
            }
        })
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.run(Operation::Remove, name, |disk, request| {
            request.perform(|| {
                disk.names_mut(self.directory).remove(name)?;
                disk.collect();
                Ok(())
            })
        })
    }

    fn sync_directory(&self) -> Result<()> {
        self.run(Operation::SyncDirectory, "", |disk, request| disk.sync_directory(request, self.directory))
    }

    fn available(&self) -> Result<Option<u64>> {
        Ok(self.disk.lock().available())
    }

    fn capacity(&self) -> Result<Option<u64>> {
        Ok(self.disk.lock().capacity)
    }

    fn lock(&self, name: &str, part: LockPart, mode: LockMode) -> Result<Option<Box<dyn LockGuard>>> {
        let ticket = self.run(Operation::Lock, name, |disk, request| {
            request.permit()?;
            disk.lock(self.directory, name, part, mode)
        })?;
        Ok(ticket.map(|ticket| Box::new(SimulatedLock::new(self.handle(name), ticket)) as Box<dyn LockGuard>))
    }

    fn lock_directory(&self) -> Result<Option<Box<dyn LockGuard>>> {
        let ticket = self.run(Operation::Lock, "", |disk, request| {
            request.permit()?;
            disk.lock_directory(self.directory)
        })?;
        Ok(ticket.map(|ticket| Box::new(SimulatedLock::new(self.handle(""), ticket)) as Box<dyn LockGuard>))
    }

    fn remove_directory(&self) -> Result<()> {
        self.run(Operation::RemoveDirectory, "", |disk, request| {
            request.perform(|| disk.names_mut(self.directory).remove_directory())
        })
    }

    fn life(&self) -> Option<Life> {
        self.disk.lock().life()
    }

    fn maps_safely(&self) -> bool {
        self.disk.lock().maps_safely
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(RunningClock(Arc::clone(&self.disk)))
    }

    fn deterministic_clock(&self) -> Arc<dyn Clock> {
        Arc::new(SteppedClock(Arc::clone(&self.disk)))
    }

    fn random(&self) -> u64 {
        self.disk.lock().random()
    }
}

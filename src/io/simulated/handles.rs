//! The handles of a process of the simulated disk: open files, mappings, locks. Any thread.

use super::directory::FileId;
use super::disk::{DirectoryId, Disk, Request};
use super::file::Way;
use super::mapping::MapMemory;
use super::operation::Operation;
use crate::io::{LockGuard, MappedFile, OpenMode, StorageFile};
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, Result};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A process's access to a name.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) disk: Arc<Mutex<Disk>>,
    pub(super) process: u64,
    pub(super) directory: DirectoryId,
    pub(super) path: PathBuf,
    pub(super) name: String,
}

impl Handle {
    /// One operation, from its count to its effect, under the lock.
    pub(super) fn run<T>(
        &self,
        operation: Operation,
        act: impl FnOnce(&mut Disk, Request) -> io::Result<T>,
    ) -> Result<T> {
        let mut disk = self.disk.lock();
        let done = disk
            .begin(self.process, operation, (self.directory, &self.name))
            .and_then(|request| act(&mut disk, request));
        done.map_err(|error| Error::io(operation.verb(), &self.path, error))
    }
}

/// An open simulated file.
#[derive(Debug)]
pub(super) struct SimulatedFile {
    handle: Handle,
    id: FileId,
    _hold: Arc<()>,
    mode: OpenMode,
}

impl SimulatedFile {
    pub(super) fn new(handle: Handle, id: FileId, hold: Arc<()>, mode: OpenMode) -> Self {
        Self { handle, id, _hold: hold, mode }
    }

    fn assert_aligned(&self, bytes: &[u8], offset: u64) {
        if self.way() == Way::Direct {
            let all = bytes.as_ptr().addr() | bytes.len() | offset as usize;
            assert!(all.is_multiple_of(IO_ALIGNMENT), "unaligned direct I/O on {}", self.handle.path.display());
        }
    }

    fn way(&self) -> Way {
        match self.mode {
            OpenMode::ReadDirect
            | OpenMode::ReadPages
            | OpenMode::ReadCached
            | OpenMode::WriteDirect
            | OpenMode::CreateDirect => Way::Direct,
            OpenMode::Read | OpenMode::ReadWrite | OpenMode::Create => Way::Cached,
        }
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.mode {
            OpenMode::Read | OpenMode::ReadDirect | OpenMode::ReadPages | OpenMode::ReadCached => {
                Err(ErrorKind::PermissionDenied.into())
            }
            OpenMode::ReadWrite | OpenMode::Create | OpenMode::WriteDirect | OpenMode::CreateDirect => Ok(()),
        }
    }
}

impl StorageFile for SimulatedFile {
    fn path(&self) -> &Path {
        &self.handle.path
    }

    fn length(&self) -> Result<u64> {
        self.handle.run(Operation::Length, |disk, request| {
            request.permit()?;
            Ok(disk.file(self.id).length() as u64)
        })
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.assert_aligned(buffer, offset);
        self.handle.run(Operation::Read, |disk, request| disk.read(request, self.id, buffer, offset, self.way()))
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.assert_aligned(bytes, offset);
        self.handle.run(Operation::Write, |disk, request| {
            self.check_writable()?;
            disk.write(request, self.id, bytes, offset, self.way())
        })
    }

    fn set_length(&self, length: u64) -> Result<()> {
        self.handle.run(Operation::SetLength, |disk, request| {
            self.check_writable()?;
            disk.set_length(request, self.id, length as usize)
        })
    }

    fn sync(&self) -> Result<()> {
        self.handle.run(Operation::Sync, |disk, request| disk.sync(request, self.id))
    }
}

/// A mapped simulated file.
#[derive(Debug)]
pub(super) struct SimulatedMap {
    handle: Handle,
    id: FileId,
    _hold: Arc<()>,
    memory: Arc<MapMemory>,
}

impl SimulatedMap {
    pub(super) fn new(handle: Handle, id: FileId, hold: Arc<()>, memory: Arc<MapMemory>) -> Self {
        Self { handle, id, _hold: hold, memory }
    }
}

impl MappedFile for SimulatedMap {
    fn path(&self) -> &Path {
        &self.handle.path
    }

    fn pointer(&self) -> *mut u8 {
        self.memory.pointer()
    }

    fn length(&self) -> usize {
        self.memory.length()
    }

    fn prepare(&self, _offset: usize, _length: usize) {}

    fn check_writeback(&self) -> Result<()> {
        self.handle.run(Operation::CheckWriteback, |_, request| request.permit())
    }

    fn sync(&self) -> Result<()> {
        self.handle.run(Operation::MapSync, |disk, request| disk.sync(request, self.id))
    }
}

/// A lock of the simulated disk.
#[derive(Debug)]
pub(super) struct SimulatedLock {
    handle: Handle,
    ticket: u64,
}

impl SimulatedLock {
    pub(super) fn new(handle: Handle, ticket: u64) -> Self {
        Self { handle, ticket }
    }
}

impl LockGuard for SimulatedLock {
    fn is_in_place(&self) -> Result<bool> {
        Ok(self.handle.disk.lock().is_lock_in_place(self.ticket, &self.handle.name))
    }
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        self.handle.disk.lock().unlock(self.ticket);
    }
}

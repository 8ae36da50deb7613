//! The simulated machine's shared memory: pieces that outlive the process and the mount, and are lost with the power.
//! Faults refer to it by the name `memory`; it takes none of the disk's capacity.

use super::handles::{Handle, SimulatedFile, SimulatedMap};
use super::operation::Operation;
use crate::io::{MappedFile, OpenMode, SharedMemory, StorageFile};
use crate::util::Result;
use crate::util::sync::Arc;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of all of it in faults.
const NAME: &str = "memory";

/// One process's view of it.
#[derive(Debug)]
pub(super) struct SimulatedMemory {
    process: Handle,
}

impl SimulatedMemory {
    /// For the process of a handle.
    pub(super) fn new(process: Handle) -> Self {
        Self { process: Handle { path: PathBuf::from("/simulated-memory"), name: NAME.to_owned(), ..process } }
    }

    fn handle(&self, piece: u64) -> Handle {
        let Handle { disk, process, .. } = &self.process;
        Handle { disk: Arc::clone(disk), process: *process, path: self.path_of(piece), name: NAME.to_owned() }
    }
}

impl SharedMemory for SimulatedMemory {
    fn outlives_process(&self) -> bool {
        self.process.disk.lock().pieces.outlives
    }

    fn path_of(&self, piece: u64) -> PathBuf {
        Path::new("/simulated-memory").join(format!("{piece:016x}"))
    }

    fn list(&self) -> Result<Vec<u64>> {
        self.process.run(Operation::List, |disk, request| {
            request.permit()?;
            Ok(disk.pieces.files.keys().copied().collect())
        })
    }

    fn create(&self, piece: u64, length: usize) -> Result<Arc<dyn MappedFile>> {
        let handle = self.handle(piece);
        let (id, hold, memory) = handle.run(Operation::Create, |disk, request| {
            request.permit()?;
            if disk.pieces.files.contains_key(&piece) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            let id = disk.create_piece(piece, length);
            let memory = disk.map(id)?;
            Ok((id, disk.hold(id), memory))
        })?;
        Ok(Arc::new(SimulatedMap::new(handle, id, hold, memory)))
    }

    fn open(&self, piece: u64) -> Result<Option<Arc<dyn StorageFile>>> {
        let handle = self.handle(piece);
        let found = handle.run(Operation::Open, |disk, request| {
            request.permit()?;
            let id = disk.pieces.files.get(&piece).copied();
            Ok(id.map(|id| (id, disk.hold(id))))
        })?;
        Ok(found
            .map(|(id, hold)| Arc::new(SimulatedFile::new(handle, id, hold, OpenMode::Read)) as Arc<dyn StorageFile>))
    }

    fn remove(&self, piece: u64) -> Result<()> {
        self.handle(piece).run(Operation::Remove, |disk, request| {
            request.perform(|| {
                disk.remove_piece(piece).ok_or(ErrorKind::NotFound)?;
                Ok(())
            })
        })
    }
}

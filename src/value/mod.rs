//! Value files: large values, each in a file of its own, so that only references to them go through the log and merges.
//! Any thread may call any method.
//!
//! The order that makes a reference safe: `write` returns before the writer puts the reference into the log, and the
//! log calls `sync` here before it syncs itself. So a durable log record never refers to a value that is not durable,
//! unless the process died in between; recovery checks that with `is_complete`.
//!
//! Invariants:
//! 1. A file whose contents or name are not known to be durable is in `Pending` (as an open file, or because
//!    `names_made` is above `names_synced`). While `Pending` is not empty, `unsynced` is true. Both change under the
//!    lock of `pending`.
//! 2. If `unsynced` reads as false, every value file whose `write` happened before the read is durable: that `write`
//!    stored true, and only a successful sync of that file stores false. A relaxed load is enough, because "happened
//!    before" already orders the caller after the store (the caller has waited until the record was sealed).
//! 3. Lock order: `syncing`, then `pending`. No I/O runs under `pending`.
//! 4. The first failed sync is recorded. Its effect on the disk is unknown, so every later sync fails, too.

mod buffers;
#[cfg(test)]
mod tests;

pub use crate::format::value_file::ValueReference;

use crate::format::value_file::{BLOCK_BYTES, HEADER_BYTES, PAYLOAD_BYTES, ValueFileHeader, extend_root};
use crate::io::{AlignedBuffer, OpenMode, Storage, StorageFile};
use crate::util::limits::VALUE_BYTES_MAX;
use crate::util::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::util::{DatabaseId, Error, FileNumber, Result};
use buffers::{Buffers, PIECE_BLOCKS};
use std::io::ErrorKind;

/// Most value files that stay open until the next sync. Beyond it, `write` syncs its own file at once, so that the open
/// files of a store that never syncs are bounded.
const OPEN_FILES_MAX: usize = 64;

/// The name of a value file.
pub fn value_file_name(file: FileNumber) -> String {
    format!("{file}.value")
}

/// The store of value file `file` according to its header page; `None` if the header is invalid.
pub fn claimed_owner(page: &[u8], file: FileNumber) -> Option<DatabaseId> {
    let database = DatabaseId(u64::from_le_bytes(*page.get(16..)?.first_chunk()?));
    ValueFileHeader::decode(page, database, file, std::path::Path::new("")).ok().map(|header| header.database)
}

/// All value files of a store.
#[derive(Debug)]
pub struct ValueFiles {
    storage: Arc<dyn Storage>,
    mode: OpenMode,
    database: DatabaseId,
    buffers: Buffers,
    unsynced: AtomicBool,
    pending: Mutex<Pending>,
    syncing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Pending {
    files: Vec<(FileNumber, Arc<dyn StorageFile>)>,
    names_made: u64,
    names_synced: u64,
    failed: Option<Error>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.names_made == self.names_synced && self.failed.is_none()
    }
}

impl ValueFiles {
    /// The value files in `storage`. No I/O.
    pub fn new(storage: Arc<dyn Storage>, database: DatabaseId) -> Self {
        Self {
            storage,
            mode: OpenMode::ReadPages,
            database,
            buffers: Buffers::default(),
            unsynced: AtomicBool::new(false),
            pending: Mutex::default(),
            syncing: Mutex::default(),
        }
    }

    /// The same, with files opened in this mode for reads of users.
    #[must_use]
    pub fn read_in(self, mode: OpenMode) -> Self {
        Self { mode, ..self }
    }

    /// Writes `value` to the new value file `file`. When it returns, the kernel has the bytes; they are durable after
    /// `sync`. After an error the file is removed, if the disk allows it.
    pub fn write(&self, file: FileNumber, value: &[u8]) -> Result<ValueReference> {
        if let Some(error) = &self.pending.lock().failed {
            return Err(error.clone());
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::InvalidArgument(format!(
                "a value of {} bytes; {VALUE_BYTES_MAX} are allowed",
                value.len()
            )));
        }
        let name = value_file_name(file);
        let header = ValueFileHeader { database: self.database, file, length: value.len() as u64 };
        let handle = self.storage.open(&name, OpenMode::CreateDirect)?;
        let written = self.write_blocks(&*handle, &header, value).and_then(|checksum| {
            self.keep_until_sync(file, handle)?;
            Ok(ValueReference { file, length: header.length, checksum })
        });
        if written.is_err() {
            // The first error is the cause. If the rest of the file cannot be removed either, nothing more can be said;
            // a file without a reference is removed at the next opening.
            let _ = self.storage.remove(&name);
        }
        written
    }

    /// The error of a value for which there is no space.
    pub fn no_space(&self) -> Error {
        Error::io(
            "write a large value and leave the reserve free in",
            self.storage.path(),
            ErrorKind::StorageFull.into(),
        )
    }

    /// Streams header and blocks through one buffer. Returns the root checksum.
    fn write_blocks(&self, handle: &dyn StorageFile, header: &ValueFileHeader, value: &[u8]) -> Result<u32> {
        let mut buffer = self.buffers.take();
        header.encode(&mut buffer[..HEADER_BYTES]);
        let (mut filled, mut offset, mut root) = (HEADER_BYTES, 0, header.root());
        for (payload, index) in value.chunks(PAYLOAD_BYTES).zip(0..) {
            let block = header.block_bytes(index);
            if filled + block > buffer.len() {
                handle.write_all_at(&buffer[..filled], offset)?;
                offset += filled as u64;
                filled = 0;
            }
            root = extend_root(root, header.encode_block(index, payload, &mut buffer[filled..filled + block]));
            filled += block;
        }
        handle.write_all_at(&buffer[..filled], offset)?;
        debug_assert_eq!(offset + filled as u64, header.file_bytes());
        self.buffers.give(buffer);
        Ok(root)
    }

    fn keep_until_sync(&self, file: FileNumber, handle: Arc<dyn StorageFile>) -> Result<()> {
        let crowded = self.pending.lock().files.len() >= OPEN_FILES_MAX;
        if crowded {
            handle.sync().map_err(|error| self.record_failure(error))?;
        }
        let mut pending = self.pending.lock();
        if !crowded {
            pending.files.push((file, handle));
        }
        pending.names_made += 1;
        self.unsynced.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes every value file whose `write` has returned durable: contents first, then names. If there is nothing to
    /// do, it costs one load. After a failure every call returns that failure.
    pub fn sync(&self) -> Result<()> {
        if !self.unsynced.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A thread that comes while another one syncs waits for it: its files may be among those being synced.
        let _turn = self.syncing.lock();
        let (files, names_made) = {
            let pending = self.pending.lock();
            match &pending.failed {
                Some(error) => return Err(error.clone()),
                None if pending.is_empty() => return Ok(()),
                None => (pending.files.clone(), pending.names_made),
            }
        };
        let synced = files.iter().try_for_each(|(_, handle)| handle.sync());
        synced.and_then(|()| self.storage.sync_directory()).map_err(|error| self.record_failure(error))?;
        let mut pending = self.pending.lock();
        pending.files.retain(|(file, _)| !files.iter().any(|(done, _)| done == file));
        pending.names_synced = names_made;
        self.unsynced.store(!pending.is_empty(), Ordering::Relaxed);
        Ok(())
    }

    /// Records the first failure and returns the current one.
    fn record_failure(&self, error: Error) -> Error {
        let mut pending = self.pending.lock();
        self.unsynced.store(true, Ordering::Relaxed);
        pending.failed.get_or_insert_with(|| error.clone());
        error
    }

    /// Reads the value into `out`, replacing its contents, and checks all of it. After an error `out` is empty.
    pub fn read(&self, reference: &ValueReference, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        let done = self.for_each_payload(reference, self.mode, |payload| {
            // Only after the first block has proved that the length is right.
            if out.is_empty() {
                out.reserve_exact(reference.length as usize);
            }
            out.extend_from_slice(payload);
        });
        if done.is_err() {
            out.clear();
        }
        done
    }

    /// Reads and checks the value without returning it.
    pub fn verify(&self, reference: &ValueReference) -> Result<()> {
        self.for_each_payload(reference, OpenMode::ReadDirect, |_| ())
    }

    /// Checks the header of a value file, and that the file has the length that follows from it. Returns the value's
    /// length.
    pub fn check_header(&self, file: FileNumber) -> Result<u64> {
        let handle = self.storage.open(&value_file_name(file), OpenMode::ReadDirect)?;
        let length = handle.length()?;
        if length < HEADER_BYTES as u64 {
            return Err(Error::corruption(handle.path(), 0, "length of a value file", "a header page", length));
        }
        let mut page = AlignedBuffer::new(HEADER_BYTES);
        handle.read_exact_at(&mut page, 0)?;
        let header = ValueFileHeader::decode(&page, self.database, file, handle.path())?;
        if length != header.file_bytes() {
            return Err(Error::corruption(handle.path(), 0, "length of a value file", header.file_bytes(), length));
        }
        Ok(header.length)
    }

    /// Whether the value exists, complete and valid. Fails only if that cannot be determined.
    pub fn is_complete(&self, reference: &ValueReference) -> Result<bool> {
        match self.verify(reference) {
            Ok(()) => Ok(true),
            Err(Error::Corruption { .. }) => Ok(false),
            Err(Error::Io { source, .. }) if is_absence(source.kind()) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes the value file. Nothing may refer to it any more. It is not an error if the file does not exist.
    pub fn remove(&self, file: FileNumber) -> Result<()> {
        self.pending.lock().files.retain(|(number, _)| *number != file);
        match self.storage.remove(&value_file_name(file)) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Passes the checked payloads to `take`, in order. If it returns `Ok`, they were the value.
    fn for_each_payload(&self, reference: &ValueReference, mode: OpenMode, mut take: impl FnMut(&[u8])) -> Result<()> {
        let header = ValueFileHeader { database: self.database, file: reference.file, length: reference.length };
        let handle = self.storage.open(&value_file_name(reference.file), mode)?;
        let (path, length) = (handle.path(), handle.length()?);
        if length != header.file_bytes() {
            return Err(Error::corruption(path, 0, "length of a value file", header.file_bytes(), length));
        }
        let mut buffer = self.buffers.take();
        let (mut offset, mut index, mut root) = (0, 0, header.root());
        while offset < length {
            let count = (length - offset).min(buffer.len() as u64) as usize;
            let count = if offset == 0 { count } else { count.min(PIECE_BLOCKS * BLOCK_BYTES) };
            handle.read_exact_at(&mut buffer[..count], offset)?;
            let mut piece = &buffer[..count];
            if offset == 0 {
                let (page, rest) = piece.split_at(HEADER_BYTES);
                header.check(page, path)?;
                piece = rest;
            }
            while !piece.is_empty() {
                let (block, rest) = piece.split_at(header.block_bytes(index));
                let (payload, sum) = header.check_block(index, block, path)?;
                take(payload);
                root = extend_root(root, sum);
                (index, piece) = (index + 1, rest);
            }
            offset += count as u64;
        }
        self.buffers.give(buffer);
        if root != reference.checksum {
            return Err(Error::corruption(path, 0, "root checksum of a value", reference.checksum, root));
        }
        Ok(())
    }
}

fn is_absence(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::UnexpectedEof)
}

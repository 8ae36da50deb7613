//! The manifest file: created under another name, extended edit by edit, and rotated when it has grown.
//!
//! It has one owner, who holds the edit mutex.
//!
//! Invariants:
//! 1. `state` is the result of replaying the file's synced bytes up to `end`.
//! 2. When `append` has returned a number, that edit and all before it are durable.
//! 3. After a failure of unknown effect nothing is written to the file any more. A later sync of the same file could
//!    succeed without the lost pages, because the kernel marks pages clean after a failed `fsync`.
//! 4. The name `MANIFEST` always refers to a complete, synced file.
//! 5. The file is closed between edits only if all its bytes are synced, so no failure of a later writeback is missed.

use super::replay::{Replayed, replay};
use super::{MANIFEST_NAME, MANIFEST_NEW_NAME, ManifestState};
use crate::format::manifest_edit::{Identity, ManifestEdit};
use crate::format::manifest_header::{self as header, HEADER_BYTES, PAYLOAD_BYTES_MAX};
use crate::io::{OpenMode, Storage, StorageFile};
use crate::util::sync::Arc;
use crate::util::{Error, Result};

/// A manifest is rotated when it exceeds this many times the size of its snapshot.
const ROTATE_RATIO: u64 = 4;
/// A manifest below this size is not rotated.
const ROTATE_BYTES_MIN: u64 = 64 << 10;
/// Rotation keeps manifests shorter than this. It bounds the memory that opening allocates for an invalid file.
const FILE_BYTES_MAX: u64 = (ROTATE_RATIO + 2) * PAYLOAD_BYTES_MAX as u64;

/// An open manifest.
#[derive(Debug)]
pub struct Manifest {
    storage: Arc<dyn Storage>,
    /// `None` while a quiet store does without the descriptor.
    file: Option<Arc<dyn StorageFile>>,
    state: ManifestState,
    /// The offset of the next record.
    end: u64,
    /// Whether the file has bytes after `end`, from an unfinished write.
    torn: bool,
    /// The file is rotated once it is longer than this.
    rotate_past: u64,
    /// Whether a `MANIFEST.new` that is not there now is not there after a power cut either: since the directory was
    /// synced none was removed.
    names_synced: bool,
    /// Why nothing is written any more.
    poison: Option<Error>,
    /// Reused for every record.
    buffer: Vec<u8>,
}

/// Replays the manifest of a store without opening it for writing or making its bytes durable. For read-only openers,
/// `verify` and repair.
pub fn read_state(storage: &dyn Storage) -> Result<ManifestState> {
    let file = open_file(storage, OpenMode::Read)?;
    Ok(read(&*file)?.0.state)
}

/// The identity in the manifest's header, for when its edits cannot be read. `None` if the header is lost, too.
pub fn read_identity(storage: &dyn Storage) -> Result<Option<Identity>> {
    let file = match open_file(storage, OpenMode::Read) {
        Err(Error::NoStore { .. }) => return Ok(None),
        file => file?,
    };
    let mut page = vec![0; file.length()?.min(HEADER_BYTES as u64) as usize];
    match file.read_exact_at(&mut page, 0).and_then(|()| header::decode_header(&page, file.path())) {
        Ok(identity) => Ok(Some(identity)),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the manifest, if there is one, by one that contains just this state, with one rename. For repair and conversion. The
/// state's `edits` is the number of its one record.
pub fn replace(storage: &dyn Storage, state: &ManifestState) -> Result<()> {
    if let Err(found) = state.check() {
        return Err(Error::corruption(&storage.path_of(MANIFEST_NEW_NAME), 0, "new tree", "a consistent one", found));
    }
    let buffer = image(state);
    let length = (buffer.len() - HEADER_BYTES) as u64;
    if length > PAYLOAD_BYTES_MAX as u64 {
        return Err(Error::InvalidArgument(format!("a manifest of {length} bytes")));
    }
    write_new(storage, &buffer, false)?;
    install_new(storage)
}

/// The bytes of a manifest that contains just this state. The state's `edits` is the number of its one record.
pub fn image(state: &ManifestState) -> Vec<u8> {
    let mut buffer = Vec::new();
    fill(state, &state.snapshot_edit(), &mut buffer);
    buffer
}

impl Manifest {
    /// Creates the manifest of a new store, with `first` as edit 1. Fails if there is one already.
    pub fn create(storage: Arc<dyn Storage>, identity: Identity, first: &ManifestEdit) -> Result<Self> {
        if storage.list()?.iter().any(|name| name == MANIFEST_NAME) {
            let path = storage.path_of(MANIFEST_NAME);
            return Err(Error::InvalidArgument(format!("{} already exists", path.display())));
        }
        let mut state = ManifestState { identity, edits: 1, ..ManifestState::default() };
        let applied = state.apply(first);
        assert!(applied.is_ok(), "the first manifest edit is inconsistent: {applied:?}");
        let mut buffer = Vec::new();
        fill(&state, first, &mut buffer);
        write_new(&*storage, &buffer, false)?;
        install_new(&*storage)?;
        let file = open_file(&*storage, OpenMode::ReadWrite)?;
        let end = buffer.len() as u64;
        let rotate_past = rotate_past(end);
        let names_synced = true;
        Ok(Self { storage, file: Some(file), state, end, torn: false, rotate_past, names_synced, poison: None, buffer })
    }

    /// Opens the manifest of a store for writing and replays it. Syncs file and directory first, so that what an
    /// earlier process wrote or renamed without a sync becomes durable before anything relies on it. Changes no byte.
    pub fn open(storage: Arc<dyn Storage>) -> Result<Self> {
        let file = open_file(&*storage, OpenMode::ReadWrite)?;
        file.sync()?;
        storage.sync_directory()?;
        let (replayed, length) = read(&*file)?;
        let Replayed { state, snapshot_bytes, end } = replayed;
        let (torn, rotate_past) = (end < length, rotate_past(HEADER_BYTES as u64 + snapshot_bytes));
        let names_synced = true;
        let buffer = Vec::new();
        Ok(Self { storage, file: Some(file), state, end, torn, rotate_past, names_synced, poison: None, buffer })
    }

    /// The result of all edits so far.
    pub fn state(&self) -> &ManifestState {
        &self.state
    }

    /// Bytes of the file, up to the end of the last edit.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// Makes `edit` durable and applies it. Returns its number. An edit that does not fit the state is a bug and fails
    /// an assertion.
    ///
    /// If the disk is full, nothing has changed and a later append may succeed. After any other failure it is unknown
    /// whether the next open will find the edit, so files that it adds or drops must stay, and every later append fails
    /// with the same error.
    pub fn append(&mut self, edit: &ManifestEdit) -> Result<u64> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        let fits = self.state.validate(edit);
        assert!(fits.is_ok(), "an inconsistent manifest edit: {fits:?}");
        let number = self.state.edits + 1;
        self.buffer.clear();
        let salt = header::record_salt(self.state.identity.database);
        header::encode_record(number, salt, &mut self.buffer, |out| edit.encode(out));
        debug_assert_eq!(decoded(&self.buffer, salt).as_ref(), Some(edit), "an edit that does not read back");
        self.write_record()?;
        self.state.install(edit);
        self.state.edits = number;
        if self.end > self.rotate_past {
            self.rotate_if_space()?;
        }
        Ok(number)
    }

    /// As `append`, but writes a new file with the whole state. For the first edit of an opening: what was read from
    /// the old file may be only in the page cache, after a failed sync of the previous process, and no later sync would
    /// report it. Then an edit appended there would be durable after a hole.
    ///
    /// If the disk has no space for another file, the edit is appended to the old file.
    pub fn append_in_new_file(&mut self, edit: &ManifestEdit) -> Result<u64> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        let fits = self.state.validate(edit);
        assert!(fits.is_ok(), "an inconsistent manifest edit: {fits:?}");
        let before = self.state.clone();
        self.state.install(edit);
        self.state.edits += 1;
        match self.rotate() {
            Ok(()) => Ok(self.state.edits),
            Err(error) => {
                self.state = before;
                if error.is_disk_full() { self.append(edit) } else { Err(error) }
            }
        }
    }

    /// Replaces the file by a new one with one snapshot. `append` calls it when the file has grown.
    pub fn rotate(&mut self) -> Result<()> {
        if let Some(poison) = &self.poison {
            return Err(poison.clone());
        }
        fill(&self.state, &self.state.snapshot_edit(), &mut self.buffer);
        let names_synced = std::mem::take(&mut self.names_synced);
        if let Err(error) = write_new(&*self.storage, &self.buffer, names_synced) {
            // The old file is complete and stays the manifest. A full disk is temporary; other errors are not.
            return Err(if error.is_disk_full() { error } else { self.poisoned(error) });
        }
        let opened = install_new(&*self.storage).and_then(|()| open_file(&*self.storage, OpenMode::ReadWrite));
        self.file = Some(opened.map_err(|error| self.poisoned(error))?);
        self.end = self.buffer.len() as u64;
        (self.torn, self.names_synced) = (false, true);
        self.rotate_past = rotate_past(self.end);
        Ok(())
    }

    /// Writes `buffer` as the next record and syncs it.
    fn write_record(&mut self) -> Result<()> {
        let file = self.file().map_err(|error| self.poisoned(error))?;
        if self.torn {
            self.truncate(&*file).map_err(|error| self.poisoned(error))?;
        }
        if let Err(error) = file.write_all_at(&self.buffer, self.end) {
            // Part of the record, or all of it, may be in the file. The store may continue only if that is certainly
            // undone. Otherwise the next open could find an edit that was reported as failed.
            let undone = error.is_disk_full() && self.truncate(&*file).is_ok();
            return Err(if undone { error } else { self.poisoned(error) });
        }
        file.sync().map_err(|error| self.poisoned(error))?;
        self.end += self.buffer.len() as u64;
        Ok(())
    }

    /// Closes the file until the next edit, so that a quiet store needs one descriptor less.
    pub fn release_file(&mut self) {
        if !self.torn && self.poison.is_none() {
            self.file = None;
        }
    }

    /// The file, opened again if it was released. Another program may have replaced it meanwhile.
    fn file(&mut self) -> Result<Arc<dyn StorageFile>> {
        if let Some(file) = &self.file {
            return Ok(Arc::clone(file));
        }
        let file = open_file(&*self.storage, OpenMode::ReadWrite)?;
        let length = file.length()?;
        if length != self.end {
            let expected = format!("{}, as this process left it", self.end);
            return Err(Error::corruption(file.path(), 0, "manifest length", expected, length));
        }
        self.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Truncates the file after the last valid record, durably.
    fn truncate(&mut self, file: &dyn StorageFile) -> Result<()> {
        file.set_length(self.end)?;
        file.sync()?;
        self.torn = false;
        Ok(())
    }

    /// Rotates, or postpones it if the disk is full: the edit that led here is durable already.
    fn rotate_if_space(&mut self) -> Result<()> {
        match self.rotate() {
            Err(error) if error.is_disk_full() && self.poison.is_none() => {
                self.rotate_past = self.end.saturating_add(ROTATE_BYTES_MIN);
                Ok(())
            }
            result => result,
        }
    }

    /// Records the first error of unknown effect. It is never "disk full", because that promises the caller that
    /// nothing has changed.
    fn poisoned(&mut self, error: Error) -> Error {
        let error = match error {
            full if full.is_disk_full() => Error::ReadOnly { reason: format!("{full}, with unknown effect") },
            error => error,
        };
        self.poison.get_or_insert(error).clone()
    }
}

fn open_file(storage: &dyn Storage, mode: OpenMode) -> Result<Arc<dyn StorageFile>> {
    storage.open(MANIFEST_NAME, mode).map_err(|error| match error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Error::NoStore { path: storage.path().to_path_buf(), reason: format!("it has no {MANIFEST_NAME}") }
        }
        error => error,
    })
}

/// Reads and replays the file. Also returns its length.
fn read(file: &dyn StorageFile) -> Result<(Replayed, u64)> {
    let length = file.length()?;
    if length > FILE_BYTES_MAX {
        let expected = format!("at most {FILE_BYTES_MAX}");
        return Err(Error::corruption(file.path(), 0, "manifest length", expected, length));
    }
    // The header first, so that a file that is not a manifest does not allocate memory.
    let mut bytes = vec![0; length.min(HEADER_BYTES as u64) as usize];
    file.read_exact_at(&mut bytes, 0)?;
    header::decode_header(&bytes, file.path())?;
    bytes.resize(length as usize, 0);
    file.read_exact_at(&mut bytes[HEADER_BYTES..], HEADER_BYTES as u64)?;
    Ok((replay(&bytes, file.path())?, length))
}

/// Fills `buffer` with a whole manifest whose only record is `edit`, with the state's last number.
fn fill(state: &ManifestState, edit: &ManifestEdit, buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.extend_from_slice(&header::encode_header(&state.identity));
    let salt = header::record_salt(state.identity.database);
    header::encode_record(state.edits, salt, buffer, |out| edit.encode(out));
}

/// Writes a manifest under its temporary name and makes bytes and name durable. The name `MANIFEST` is not touched. If
/// it fails, the leftover file is removed here, by the next attempt or by the next open.
///
/// If there may be a leftover after a power cut, the directory is synced before the rename, too. POSIX does not order
/// two changes of a directory, and a rename that survives a power cut without the creation before it would give the name
/// to the leftover.
fn write_new(storage: &dyn Storage, bytes: &[u8], names_synced: bool) -> Result<()> {
    let is_leftover = storage.list()?.iter().any(|name| name == MANIFEST_NEW_NAME);
    if is_leftover {
        storage.remove(MANIFEST_NEW_NAME)?;
    }
    let file = storage.open(MANIFEST_NEW_NAME, OpenMode::Create)?;
    let mut written = file.write_all_at(bytes, 0).and_then(|()| file.sync());
    if is_leftover || !names_synced {
        written = written.and_then(|()| storage.sync_directory());
    }
    if written.is_err() {
        // The first error is returned. A file left behind here is removed by the next attempt.
        let _ = storage.remove(MANIFEST_NEW_NAME);
    }
    written
}

/// Renames a synced new manifest to `MANIFEST`, durably.
fn install_new(storage: &dyn Storage) -> Result<()> {
    storage.rename(MANIFEST_NEW_NAME, MANIFEST_NAME)?;
    storage.sync_directory()
}

/// The size beyond which a file is rotated whose header and snapshot have `snapshot` bytes.
fn rotate_past(snapshot: u64) -> u64 {
    snapshot.saturating_mul(ROTATE_RATIO).max(ROTATE_BYTES_MIN)
}

/// Decodes a record that was just encoded.
fn decoded(record: &[u8], salt: u32) -> Option<ManifestEdit> {
    ManifestEdit::decode(header::decode_record(record, salt).ok()?.payload).ok()
}

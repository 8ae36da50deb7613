//! Reads the files of a backup: verifies them, or makes a store of them. Any thread.
//!
//! Invariant: a restored store gets its manifest last, once every other file was read with the right checksum and is durable.
//! Until then its directory has the mark of an unfinished checkpoint (`checkpoint/target.rs`).

use super::create::Hex;
use super::directory::{self, Directory};
use super::report::{BackupVerification, RestoreReport};
use super::whole_file::{self, Content};
use crate::branch::{file_name, maplet_name};
use crate::engine::directory::leveldb_guard;
use crate::engine::tools::checkpoint::target::Target;
use crate::engine::types::verification::CheckProgress;
use crate::format::backup::{BackupDescription, BackupFile};
use crate::manifest::{self, MANIFEST_NAME, ManifestState};
use crate::util::planted::planted;
use crate::util::{Error, Result};
use crate::value::value_file_name;
use std::collections::BTreeSet;
use std::path::Path;

/// Reads all files of a backup.
pub(super) fn verify(
    directory: &Directory,
    id: u64,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<BackupVerification> {
    let _kept = directory.keep_files()?;
    let mut found = BackupVerification::default();
    let description = match directory.read(id) {
        Err(error) if error.is_damage() => {
            found.damage.push(error);
            return Ok(found);
        }
        description => description?,
    };
    if let Err(error) = state_of(directory, &description) {
        found.damage.push(error);
    }
    each_file(&description, progress, |file| {
        match read_checked(directory, file, |name| whole_file::read(directory.storage(), name, &|| Ok(()))) {
            Ok(()) => {
                found.files += 1;
                found.bytes += file.bytes;
                Ok(())
            }
            Err(error) if error.is_damage() => {
                found.damage.push(error);
                Ok(())
            }
            Err(error) => Err(error),
        }
    })?;
    Ok(found)
}

/// Makes a store of a backup in the directory at `path`.
pub(super) fn restore(
    directory: &Directory,
    id: u64,
    path: &Path,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<RestoreReport> {
    let _kept = directory.keep_files()?;
    let description = directory.read(id)?;
    let state = state_of(directory, &description)?;
    let target = Target::create(directory.storage().other_directory(path)?)?;
    match fill(directory, &description, &target, &state, progress) {
        Ok(report) => {
            target.finish();
            Ok(report)
        }
        Err(error) => {
            target.discard();
            Err(error)
        }
    }
}

fn fill(
    directory: &Directory,
    description: &BackupDescription,
    target: &Target,
    state: &ManifestState,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<RestoreReport> {
    let mut report = RestoreReport { id: description.id, number: description.number.0, ..RestoreReport::default() };
    planted!(Bug::RestorePublishedFirst => { target.publish(state)?; });
    each_file(description, progress, |file| {
        let to = (target.storage(), &file.name[..]);
        let copy = |shared: &str| whole_file::copy((directory.storage(), shared), to, &|| Ok(()));
        read_checked(directory, file, copy)?;
        report.files += 1;
        report.bytes += file.bytes;
        Ok(())
    })?;
    leveldb_guard::ensure(target.storage());
    target.publish(state)?;
    Ok(report)
}

fn each_file(
    description: &BackupDescription,
    progress: &mut dyn FnMut(CheckProgress<'_>),
    mut act: impl FnMut(&BackupFile) -> Result<()>,
) -> Result<()> {
    let bytes_total = description.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.bytes));
    let mut bytes_done = 0_u64;
    for file in &description.files {
        progress(CheckProgress { file: &file.name, bytes_done, bytes_total });
        act(file)?;
        bytes_done = bytes_done.saturating_add(file.bytes);
    }
    progress(CheckProgress { file: MANIFEST_NAME, bytes_done, bytes_total });
    Ok(())
}

/// Calls `read` with the name of a file in the directory. An error if the content is not the one in the description.
fn read_checked(directory: &Directory, file: &BackupFile, read: impl FnOnce(&str) -> Result<Content>) -> Result<()> {
    let shared = directory::shared_name(&file.name, file.hash);
    let found = read(&shared)?;
    let path = directory.storage().path_of(&shared);
    if found.bytes != file.bytes {
        return Err(Error::corruption(&path, 0, "file length", file.bytes, found.bytes));
    }
    if planted!(found.hash != file.hash, Bug::RestoreUnchecked => false) {
        return Err(Error::corruption(&path, 0, "file checksum", Hex(file.hash), Hex(found.hash)));
    }
    Ok(())
}

/// The state of the restored store. An error if the backup does not have all files of it.
fn state_of(directory: &Directory, description: &BackupDescription) -> Result<ManifestState> {
    let path = directory.storage().path_of(&directory::description_name(description.id));
    let state = manifest::replay(&description.manifest, &path)?.state;
    let names: BTreeSet<_> = description.files.iter().map(|file| &file.name[..]).collect();
    let branches = state.branches.values().map(|meta| file_name(meta.file));
    let maplets = state.maplets.values().map(|meta| maplet_name(meta.file));
    let values = state.branches.values().flat_map(|meta| &meta.value_files).map(|value| value_file_name(*value));
    match branches.chain(maplets).chain(values).find(|name| !names.contains(&name[..])) {
        None => Ok(state),
        Some(name) => Err(Error::corruption(&path, 0, "backup description", format!("the file {name}"), "none")),
    }
}

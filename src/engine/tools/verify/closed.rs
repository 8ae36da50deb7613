//! Checks the files of a closed store, even of one that cannot be opened. Changes nothing. One thread.

use super::changes::check_changes;
use super::findings::Findings;
use super::log::LogCheck;
use crate::branch::{self, Branch, BranchReport, Maplet};
use crate::disk;
use crate::engine::directory::listing::Directory;
use crate::engine::directory::owners::Owners;
use crate::engine::tools::offline::{Readers, lock_out_writers};
use crate::engine::types::verification::{CheckProgress, Depth, Verification};
use crate::format::manifest_edit::{BranchMeta, MapletMeta};
use crate::format::value_file::ValueReference;
use crate::io::Storage;
use crate::log::salvage::found_segments;
use crate::manifest::{MANIFEST_NAME, ManifestState, read_state};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use crate::value::value_file_name;
use std::collections::BTreeSet;

/// Takes the writer's lock and lists all damage.
///
/// # Errors
/// `NoStore`, `AlreadyOpen`, `Io` if a file could not be checked.
pub(crate) fn verify_closed(
    storage: &Arc<dyn Storage>,
    depth: Depth,
    progress: &mut dyn FnMut(CheckProgress<'_>),
) -> Result<Verification> {
    Directory::list(&**storage)?;
    let _lock = lock_out_writers(&**storage)?;
    let directory = Directory::list(&**storage)?;
    let mut findings = Findings::new(depth, progress);
    findings.begin(MANIFEST_NAME);
    let state = match read_state(&**storage) {
        Err(Error::NoStore { .. }) => {
            let path = storage.path_of(MANIFEST_NAME);
            findings.damage(Error::corruption(&path, 0, "file", "one that the store needs", "none"));
            None
        }
        read => findings.take(read)?,
    };
    let mut segments = found_segments(&**storage)?;
    let owners = Owners::read(&**storage, &directory, &segments)?;
    if let Some(state) = &state {
        segments.retain(|segment| segment.number >= state.log_files_from);
    }
    let database = match &state {
        Some(state) => Some(state.identity.database),
        None => owners.majority(MANIFEST_NAME),
    };
    let Some(database) = database else { return Ok(findings.found) };
    findings.found.other_stores = owners.of_other_stores(database).map(|(name, _)| name.to_owned()).collect();
    if let Some(state) = &state {
        let branches = directory.branches.iter().filter(|file| !state.branches.contains_key(*file));
        let maplets = directory.maplets.iter().filter(|file| !state.maplets.contains_key(*file));
        let branches = branches.map(|file| branch::file_name(*file));
        let unreferenced = branches.chain(maplets.map(|file| branch::maplet_name(*file)));
        findings.found.unreferenced = unreferenced.filter(|name| !findings.found.other_stores.contains(name)).collect();
    }
    let readers = Readers::new(storage, database, directory.next_file);
    findings.add_total(segments.iter().map(|segment| segment.bytes).sum());
    let log = LogCheck { storage: &**storage, readers: &readers, state: state.as_ref(), segments: &segments };
    log.check_manifest(&mut findings);
    let mut values = BTreeSet::new();
    match &state {
        Some(state) => check_named(&**storage, &readers, state, &mut values, &mut findings)?,
        None => check_without_manifest(&readers, &directory, &mut findings)?,
    }
    log.run(&mut values, &mut findings)?;
    check_changes(&**storage, database, &mut findings)?;
    // If something is damaged, the reference to a value may be what is lost.
    if findings.is_deep() && state.is_some() && findings.found.is_valid() {
        let files = directory.values.iter().filter(|file| !values.contains(*file)).map(|file| value_file_name(*file));
        let files: Vec<_> = files.filter(|name| !findings.found.other_stores.contains(name)).collect();
        findings.found.unreferenced.extend(files);
    }
    Ok(findings.found)
}

/// Checks the tree and the files that the manifest names.
fn check_named(
    storage: &dyn Storage,
    readers: &Readers,
    state: &ManifestState,
    values: &mut BTreeSet<FileNumber>,
    findings: &mut Findings<'_>,
) -> Result<()> {
    let is_tree = state.check().map_err(|found| {
        let path = storage.path_of(MANIFEST_NAME);
        findings.damage(Error::corruption(&path, 0, "structure of the tree", "a consistent tree", found));
    });
    findings.add_total(state.branches.values().map(|meta| meta.bytes).sum());
    for meta in state.branches.values() {
        check_branch(readers, &Branch::new(&readers.branches, meta.clone()), values, findings)?;
    }
    if is_tree.is_ok() {
        check_tree(readers, state, findings)?;
    }
    let branch = |file: &FileNumber| state.branches.get(file).cloned();
    state.maplets.values().try_for_each(|meta| check_maplet(readers, meta, &branch, findings))
}

/// Checks the nodes of a consistent manifest, and the order of versions in its branches.
pub(crate) fn check_tree(readers: &Readers, state: &ManifestState, findings: &mut Findings<'_>) -> Result<()> {
    findings.begin(MANIFEST_NAME);
    let deep = findings.is_deep();
    disk::check_stored(&readers.branches, state, deep, &mut |found| findings.take(found).map(|_| ()))
}

/// Checks a maplet against the branches that it covers.
pub(crate) fn check_maplet(
    readers: &Readers,
    meta: &MapletMeta,
    branch: &dyn Fn(&FileNumber) -> Option<BranchMeta>,
    findings: &mut Findings<'_>,
) -> Result<()> {
    findings.begin(&branch::maplet_name(meta.file));
    let covered = meta.columns.iter().flat_map(|column| &column.branches).filter_map(branch);
    let covered: Vec<_> = covered.map(|meta| Branch::new(&readers.branches, meta)).collect();
    findings.take(Maplet::new(&readers.branches, meta.clone()).verify(&covered, findings.is_deep()))?;
    Ok(())
}

/// Checks every file by itself, since no manifest says which files belong to the tree.
fn check_without_manifest(readers: &Readers, directory: &Directory, findings: &mut Findings<'_>) -> Result<()> {
    let mut values = BTreeSet::new();
    for file in &directory.branches {
        findings.begin(&branch::file_name(*file));
        if let Some(meta) = findings.take(Branch::read_meta(&readers.branches, *file))? {
            findings.add_total(meta.bytes);
            check_branch(readers, &Branch::new(&readers.branches, meta), &mut values, findings)?;
        }
    }
    for file in directory.values.iter().filter(|file| !values.contains(*file)) {
        findings.take(readers.values.check_header(*file))?;
        findings.found.checked.value_files += 1;
    }
    Ok(())
}

/// Checks one branch file and the value files that it refers to. `values` are the value files checked so far.
pub(crate) fn check_branch(
    readers: &Readers,
    branch: &Arc<Branch>,
    values: &mut BTreeSet<FileNumber>,
    findings: &mut Findings<'_>,
) -> Result<()> {
    let meta = branch.meta();
    findings.begin(&branch::file_name(meta.file));
    let report = branch.examine(findings.is_deep(), &mut |error| findings.damage(error))?;
    findings.count(&report);
    findings.add_done(meta.bytes);
    check_values(readers, &report, &meta.value_files, values, findings)
}

/// Checks the values that a branch refers to: completely if its entries were read, otherwise only their headers.
fn check_values(
    readers: &Readers,
    report: &BranchReport,
    named: &[FileNumber],
    values: &mut BTreeSet<FileNumber>,
    findings: &mut Findings<'_>,
) -> Result<()> {
    for bytes in &report.value_references {
        let Some(reference) = ValueReference::decode(bytes) else { continue };
        if values.insert(reference.file) {
            findings.begin(&value_file_name(reference.file));
            findings.found.checked.value_files += 1;
            if findings.take(readers.values.verify(&reference))?.is_some() {
                findings.found.checked.bytes += reference.length;
            }
        }
    }
    for file in named {
        if values.insert(*file) {
            findings.found.checked.value_files += 1;
            findings.take(readers.values.check_header(*file))?;
        }
    }
    Ok(())
}

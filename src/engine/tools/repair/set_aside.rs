//! Sets damaged files aside: keeps them under names that end with `.damaged`, so that repair destroys no data that it
//! could not use (`docs/recovery.md`, Repair). Repair holds all locks; one thread.
//!
//! The `.damaged` name is created before the new manifest is installed, and the original name is removed after that.
//! The original name of the manifest is replaced by the new one. A crash in between leaves both names, and the next
//! opening or repair removes the original one.

use crate::engine::directory::store_files::{DAMAGED_SUFFIX, StoreFile};
use crate::engine::types::repair_report::RepairReport;
use crate::io::Storage;
use crate::manifest::MANIFEST_NAME;
use crate::util::Result;

/// Damaged manifests get numbered names below this. When all are taken, the newest replaces the first.
const MANIFESTS_MAX: u32 = 1000;

/// Links each of the files that exist to its `.damaged` name.
pub(crate) fn link_as_damaged(storage: &dyn Storage, names: &[String], report: &mut RepairReport) -> Result<()> {
    let present = storage.list()?;
    for name in names.iter().filter(|name| present.contains(name)) {
        let damaged = damaged_name(name, &present);
        if present.contains(&damaged) {
            // File numbers are never reused, so an earlier, interrupted repair left this link to the same file. (Or it
            // is a manifest, and all numbered names are taken.)
            storage.remove(&damaged)?;
        }
        storage.link(name, &damaged)?;
        report.set_aside.push(damaged);
    }
    if report.set_aside.is_empty() { Ok(()) } else { storage.sync_directory() }
}

fn damaged_name(name: &str, present: &[String]) -> String {
    let plain = format!("{name}{DAMAGED_SUFFIX}");
    if name != MANIFEST_NAME || !present.contains(&plain) {
        return plain;
    }
    let numbered = |count: u32| format!("{name}.{count}{DAMAGED_SUFFIX}");
    (2..MANIFESTS_MAX).map(numbered).find(|name| !present.contains(name)).unwrap_or(plain)
}

/// Removes these names: the original names of damaged files, and other files that the new manifest does not need.
pub(crate) fn remove_originals(storage: &dyn Storage, names: &[String]) -> Result<()> {
    let present = storage.list()?;
    for name in names.iter().filter(|name| present.contains(name)) {
        debug_assert!(StoreFile::parse(name).is_some_and(|file| file != StoreFile::Manifest));
        storage.remove(name)?;
    }
    storage.sync_directory()
}

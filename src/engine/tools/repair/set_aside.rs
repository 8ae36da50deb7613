//! Keeping damaged files under another name, so that nothing is destroyed that could not be used. One thread.
//!
//! A second name comes before the new manifest and the first name goes after it: a crash between leaves both, and the next
//! opening or repair removes the first.

use crate::engine::directory::store_files::{DAMAGED_SUFFIX, StoreFile};
use crate::engine::types::repair_report::RepairReport;
use crate::io::Storage;
use crate::manifest::MANIFEST_NAME;
use crate::util::Result;

/// Manifests set aside at most.
const MANIFESTS_MAX: u32 = 1000;

/// Gives each file its second name.
pub(crate) fn keep(storage: &dyn Storage, names: &[String], report: &mut RepairReport) -> Result<()> {
    let present = storage.list()?;
    for name in names.iter().filter(|name| present.contains(name)) {
        let aside = second_name(name, &present);
        if present.contains(&aside) {
            // File numbers are never used twice, so this is what an earlier repair left that did not get further.
            storage.remove(&aside)?;
        }
        storage.link(name, &aside)?;
        report.set_aside.push(aside);
    }
    if report.set_aside.is_empty() { Ok(()) } else { storage.sync_directory() }
}

fn second_name(name: &str, present: &[String]) -> String {
    let plain = format!("{name}{DAMAGED_SUFFIX}");
    if name != MANIFEST_NAME || !present.contains(&plain) {
        return plain;
    }
    let numbered = |count: u32| format!("{name}.{count}{DAMAGED_SUFFIX}");
    (2..MANIFESTS_MAX).map(numbered).find(|name| !present.contains(name)).unwrap_or(plain)
}

/// Takes the first names away, and whatever else the new manifest has no use for.
pub(crate) fn remove(storage: &dyn Storage, names: &[String]) -> Result<()> {
    let present = storage.list()?;
    for name in names.iter().filter(|name| present.contains(name)) {
        debug_assert!(StoreFile::parse(name).is_some_and(|file| file != StoreFile::Manifest));
        storage.remove(name)?;
    }
    storage.sync_directory()
}

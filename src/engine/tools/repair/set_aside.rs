//! Keeps damaged files under another name, so that repair destroys no data that it could not use. One thread.
//!
//! The second name is created before the new manifest is installed, and the first name is removed after that. A crash
//! in between leaves both names. The next opening or repair removes the first.

use crate::engine::directory::store_files::{DAMAGED_SUFFIX, StoreFile};
use crate::engine::types::repair_report::RepairReport;
use crate::io::Storage;
use crate::manifest::MANIFEST_NAME;
use crate::util::Result;

/// At most this many damaged manifests are kept.
const MANIFESTS_MAX: u32 = 1000;

/// Gives each file its second name.
pub(crate) fn keep(storage: &dyn Storage, names: &[String], report: &mut RepairReport) -> Result<()> {
    let present = storage.list()?;
    for name in names.iter().filter(|name| present.contains(name)) {
        let second = second_name(name, &present);
        if present.contains(&second) {
            // File numbers are never reused, so an earlier, interrupted repair left this link.
            storage.remove(&second)?;
        }
        storage.link(name, &second)?;
        report.set_aside.push(second);
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

/// Removes the first names, and the other files that the new manifest does not need.
pub(crate) fn remove(storage: &dyn Storage, names: &[String]) -> Result<()> {
    let present = storage.list()?;
    for name in names.iter().filter(|name| present.contains(name)) {
        debug_assert!(StoreFile::parse(name).is_some_and(|file| file != StoreFile::Manifest));
        storage.remove(name)?;
    }
    storage.sync_directory()
}

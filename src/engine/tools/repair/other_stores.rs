//! Files of other stores in this store's directory. Repair reads none of them and sets them all aside. Plain data.

use crate::engine::directory::owners::{self, Owners};
use crate::engine::directory::store_files::StoreFile;
use crate::engine::types::repair_report::{Loss, RepairReport};
use crate::util::{DatabaseId, FileNumber};
use std::collections::BTreeMap;

/// The warning names at most this many files. All files are in `RepairReport::set_aside`.
const NAMED_MAX: usize = 10;

/// The files by name, with the ids of their stores.
pub(crate) struct OtherStores(BTreeMap<String, DatabaseId>);

impl OtherStores {
    /// The files that do not belong to `database`.
    pub(crate) fn new(owners: &Owners, database: DatabaseId) -> Self {
        Self(owners.of_other_stores(database).map(|(name, owner)| (name.to_owned(), owner)).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Describes a file of another store; `None` if the file is not one.
    pub(crate) fn describe(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|owner| owners::describe(*owner))
    }

    /// The value files of other stores, each with its description.
    pub(crate) fn values(&self) -> impl Iterator<Item = (FileNumber, String)> {
        self.0.iter().filter_map(|(name, owner)| match StoreFile::parse(name) {
            Some(StoreFile::Value(file)) => Some((file, owners::describe(*owner))),
            _ => None,
        })
    }

    /// Adds the files to the report. Without a manifest, each of them may have replaced a file of this store, so each
    /// is a loss. With a manifest, files that replaced one of this store are listed already; the others are a warning.
    pub(crate) fn add_to(&self, report: &mut RepairReport) {
        let listed = |name: &String| report.losses.iter().any(|loss| loss.file == *name);
        let rest: Vec<_> = self.0.iter().filter(|(name, _)| !listed(name)).collect();
        if report.manifest_lost.is_some() {
            rest.iter()
                .for_each(|(name, owner)| report.lose(Loss::of_file((*name).clone(), owners::describe(**owner))));
        } else if !rest.is_empty() {
            let some = rest.iter().take(NAMED_MAX).map(|(name, owner)| format!("{name} {}", owners::describe(**owner)));
            let some = some.collect::<Vec<_>>().join(", ");
            report.warn(&format!("{} files that the manifest does not name were set aside: {some}", rest.len()));
        }
    }
}

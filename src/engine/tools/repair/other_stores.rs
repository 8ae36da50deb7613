//! The files of other stores that lie among this one's: none is read, all are set aside. Plain data.

use crate::engine::directory::owners::{self, Owners};
use crate::engine::directory::store_files::StoreFile;
use crate::engine::types::repair_report::{Loss, RepairReport};
use crate::util::{DatabaseId, FileNumber};
use std::collections::BTreeMap;

/// Files that the warning names; all stand in `set_aside`.
const NAMED_MAX: usize = 10;

/// See the module. By name, with the ids of their stores.
pub(crate) struct Foreign(BTreeMap<String, DatabaseId>);

impl Foreign {
    /// Those that do not belong to `database`.
    pub(crate) fn new(owners: &Owners, database: DatabaseId) -> Self {
        Self(owners.foreign(database).map(|(name, owner)| (name.to_owned(), owner)).collect())
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

    /// What is to be said of this file, if it is one of them.
    pub(crate) fn told(&self, name: &str) -> Option<String> {
        self.0.get(name).map(|owner| owners::told(*owner))
    }

    /// The value files among them, and what is to be said of each.
    pub(crate) fn values(&self) -> impl Iterator<Item = (FileNumber, String)> {
        self.0.iter().filter_map(|(name, owner)| match StoreFile::parse(name) {
            Some(StoreFile::Value(file)) => Some((file, owners::told(*owner))),
            _ => None,
        })
    }

    /// Lists them. Where nothing says which files this store had, one of them may have stood under each of the names; else those
    /// that took the place of one are listed already.
    pub(crate) fn tell(&self, report: &mut RepairReport) {
        let listed = |name: &String| report.losses.iter().any(|loss| loss.file == *name);
        let rest: Vec<_> = self.0.iter().filter(|(name, _)| !listed(name)).collect();
        if report.manifest_lost.is_some() {
            rest.iter().for_each(|(name, owner)| report.lose(Loss::of_file((*name).clone(), owners::told(**owner))));
        } else if !rest.is_empty() {
            let some = rest.iter().take(NAMED_MAX).map(|(name, owner)| format!("{name} {}", owners::told(**owner)));
            let some = some.collect::<Vec<_>>().join(", ");
            report.warn(&format!("{} files that the manifest does not name were set aside: {some}", rest.len()));
        }
    }
}

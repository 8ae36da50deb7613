//! Checks which value files are intact. Each file is read at most once. One thread.

use crate::engine::types::repair_report::{Loss, LostKeys, RepairReport};
use crate::format::value_file::ValueReference;
use crate::merge::EntryRef;
use crate::util::{FileNumber, Kind, Result};
use crate::value::{ValueFiles, value_file_name};
use std::collections::BTreeMap;

/// The value files of a store and the results of their checks.
pub(crate) struct ValueCheck<'a> {
    files: &'a ValueFiles,
    /// The checked files; `Some` describes the damage.
    checked: BTreeMap<FileNumber, Option<String>>,
}

impl<'a> ValueCheck<'a> {
    /// `other_stores` are value files of other stores, each with its description. Their values count as lost.
    pub(crate) fn new(files: &'a ValueFiles, other_stores: impl Iterator<Item = (FileNumber, String)>) -> Self {
        Self { files, checked: other_stores.map(|(file, description)| (file, Some(description))).collect() }
    }

    /// Whether the value with this encoded reference exists and is intact.
    pub(crate) fn has(&mut self, reference: &[u8]) -> Result<bool> {
        let Some(reference) = ValueReference::decode(reference) else { return Ok(false) };
        if let Some(damage) = self.checked.get(&reference.file) {
            return Ok(damage.is_none());
        }
        let damage = match self.files.verify(&reference) {
            Ok(()) => None,
            Err(error) if error.is_damage() => Some(error.of_missing_file().to_string()),
            Err(error) => return Err(error),
        };
        Ok(self.checked.entry(reference.file).or_insert(damage).is_none())
    }

    /// The entry to write. An entry whose value is lost becomes a tombstone, so that no older version shows instead.
    pub(crate) fn entry_to_keep<'e>(&mut self, entry: EntryRef<'e>, report: &mut RepairReport) -> Result<EntryRef<'e>> {
        if entry.kind != Kind::ValueReference || self.has(entry.value)? {
            return Ok(entry);
        }
        let reference = ValueReference::decode(entry.value);
        let damage = reference.and_then(|reference| self.checked.get(&reference.file)?.clone());
        report.values_lost += 1;
        report.lose(Loss {
            keys: Some(LostKeys::one(entry.key)),
            numbers: Some(entry.number.0..=entry.number.0),
            ..Loss::of_file(
                reference.map_or_else(String::new, |reference| value_file_name(reference.file)),
                damage.unwrap_or_else(|| "the reference to the value is malformed".to_owned()),
            )
        });
        report.warn("keys whose values are lost are absent now; older values of these keys do not show");
        Ok(EntryRef { kind: Kind::Delete, value: &[], ..entry })
    }

    /// Files that exist and are damaged, or belong to another store.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = FileNumber> + '_ {
        self.checked.iter().filter(|(_, damage)| damage.is_some()).map(|(file, _)| *file)
    }
}

//! Which value files are still whole, each read once. One thread.

use crate::engine::types::repair_report::{Loss, LostKeys, RepairReport};
use crate::format::value_file::ValueReference;
use crate::merge::EntryRef;
use crate::util::{FileNumber, Kind, Result};
use crate::value::{ValueFiles, value_file_name};
use std::collections::BTreeMap;

/// See the module.
pub(crate) struct Values<'a> {
    files: &'a ValueFiles,
    /// By file: what is wrong with it, if anything.
    seen: BTreeMap<FileNumber, Option<String>>,
}

impl<'a> Values<'a> {
    /// `foreign` are files of other stores, and what is to be said of each.
    pub(crate) fn new(files: &'a ValueFiles, foreign: impl Iterator<Item = (FileNumber, String)>) -> Self {
        Self { files, seen: foreign.map(|(file, told)| (file, Some(told))).collect() }
    }

    /// Whether the value that these bytes refer to is there and whole.
    pub(crate) fn has(&mut self, reference: &[u8]) -> Result<bool> {
        let Some(reference) = ValueReference::decode(reference) else { return Ok(false) };
        if let Some(wrong) = self.seen.get(&reference.file) {
            return Ok(wrong.is_none());
        }
        let wrong = match self.files.verify(&reference) {
            Ok(()) => None,
            Err(error) if error.is_damage() => Some(error.of_missing_file().to_string()),
            Err(error) => return Err(error),
        };
        Ok(self.seen.entry(reference.file).or_insert(wrong).is_none())
    }

    /// The entry as it is to be kept: a tombstone where its value is lost, so that no older version shows instead.
    pub(crate) fn kept<'e>(&mut self, entry: EntryRef<'e>, report: &mut RepairReport) -> Result<EntryRef<'e>> {
        if entry.kind != Kind::ValueReference || self.has(entry.value)? {
            return Ok(entry);
        }
        let reference = ValueReference::decode(entry.value);
        let wrong = reference.and_then(|reference| self.seen.get(&reference.file)?.clone());
        report.values_lost += 1;
        report.lose(Loss {
            keys: Some(LostKeys::one(entry.key)),
            numbers: Some(entry.number.0..=entry.number.0),
            ..Loss::of_file(
                reference.map_or_else(String::new, |reference| value_file_name(reference.file)),
                wrong.unwrap_or_else(|| "a malformed reference".to_owned()),
            )
        });
        report.warn("keys whose value is lost are absent now; no older value of them shows");
        Ok(EntryRef { kind: Kind::Delete, value: &[], ..entry })
    }

    /// Files that are there and damaged.
    pub(crate) fn damaged(&self) -> impl Iterator<Item = FileNumber> + '_ {
        self.seen.iter().filter(|(_, wrong)| wrong.is_some()).map(|(file, _)| *file)
    }
}

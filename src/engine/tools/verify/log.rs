//! Checks the log of a closed store: the headers, and in a deep check also the records and whether recovery succeeds.
//! One thread.

use super::findings::Findings;
use crate::engine::tools::offline::Readers;
use crate::format::value_file::ValueReference;
use crate::io::Storage;
use crate::log::salvage::{FoundRecord, FoundSegment};
use crate::log::{self, RecoveryInput};
use crate::manifest::ManifestState;
use crate::util::{Error, FileNumber, Kind, Result};
use std::collections::BTreeSet;

/// The log to check.
pub(crate) struct LogCheck<'a> {
    pub(crate) storage: &'a dyn Storage,
    pub(crate) readers: &'a Readers,
    /// Without a manifest, only the segments themselves can be checked.
    pub(crate) state: Option<&'a ManifestState>,
    pub(crate) segments: &'a [FoundSegment],
}

impl LogCheck<'_> {
    /// Lists the damage of the log. A deep check adds to `named` the value files that records refer to.
    pub(crate) fn run(&self, named: &mut BTreeSet<FileNumber>, findings: &mut Findings<'_>) -> Result<()> {
        let Self { storage, readers, segments, .. } = *self;
        let database = readers.branches.database;
        let mut valid = true;
        for segment in segments {
            findings.begin(&segment.name());
            findings.found.checked.log_segments += 1;
            let Some(header) = findings.take(segment.header.clone())? else {
                valid = false;
                continue;
            };
            if header.database != database {
                let (expected, found) = (database.to_string(), header.database.to_string());
                let path = storage.path_of(&segment.name());
                findings.damage(Error::corruption(&path, 16, "database id of a log segment", expected, found));
                valid = false;
            }
        }
        let Some(state) = self.state else { return Ok(()) };
        self.check_presence(state, findings);
        valid &= self.check_manifest(findings);
        if !findings.is_deep() {
            return Ok(());
        }
        let recovers = !valid || findings.take(simulate_recovery(storage, readers, state))?.is_some();
        for segment in segments {
            findings.begin(&segment.name());
            let (mut records, mut values) = (0, Vec::new());
            let damage = segment.records(database, &mut |record| {
                records += 1;
                if record.number > state.incorporated {
                    check_values(readers, record, named, &mut values)?;
                }
                Ok(())
            });
            findings.found.checked.log_records += records;
            findings.found.checked.bytes += segment.bytes;
            findings.add_done(segment.bytes);
            // If recovery succeeds, an invalid record is one that a crash has torn.
            if let Some(damage) = findings.take(damage)?
                && !(recovers && valid)
            {
                damage.into_iter().chain(values).for_each(|error| findings.damage(error));
            }
        }
        Ok(())
    }

    /// Checks that the manifest has every edit that was durable according to the log. It comes first, too: a manifest that
    /// was cut short names files that were removed long ago, which are then listed as missing.
    pub(crate) fn check_manifest(&self, findings: &mut Findings<'_>) -> bool {
        let Some(state) = self.state else { return true };
        let marks = self.segments.iter().filter_map(|segment| segment.mark);
        let marked = marks.map(|mark| mark.manifest_edit).max().unwrap_or(0);
        if marked > state.edits {
            findings.damage(log::missing_edits(self.storage, marked, state.edits));
        }
        marked <= state.edits
    }

    /// Checks that each segment that the manifest names, except those of obsolete log epochs, exists under its name and
    /// with its own header (`docs/recovery.md`, D3). The error equals the one of recovery, so that a deep check lists
    /// it once.
    fn check_presence(&self, state: &ManifestState, findings: &mut Findings<'_>) {
        for number in state.log_segments.range(state.log_files_from..) {
            let is_there =
                self.segments.iter().filter(|segment| segment.number == *number).any(|segment| match &segment.header {
                    Ok(header) => header.number == *number || header.epoch < state.log_epochs_from,
                    // Reported already.
                    Err(_) => true,
                });
            if !is_there {
                let path = self.storage.path_of(&log::file_name(*number, log::Role::Segment));
                let (expected, found) = ("the file, which the manifest names", "no such file, or one without records");
                findings.damage(Error::corruption(&path, 0, "log segment", expected, found));
            }
        }
    }
}

/// Checks the values that a record refers to, and adds their files to `named`.
fn check_values(
    readers: &Readers,
    record: FoundRecord<'_>,
    named: &mut BTreeSet<FileNumber>,
    damage: &mut Vec<Error>,
) -> Result<()> {
    for operation in record.operations.filter(|operation| operation.kind == Kind::ValueReference) {
        let Some(reference) = ValueReference::decode(operation.value) else { continue };
        named.insert(reference.file);
        match readers.values.verify(&reference) {
            Ok(()) => {}
            Err(error) if error.is_damage() => damage.push(error),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Runs recovery without changing anything. Returns the error that would make an opening fail.
pub(crate) fn simulate_recovery(storage: &dyn Storage, readers: &Readers, state: &ManifestState) -> Result<()> {
    let value_complete = |bytes: &[u8]| match ValueReference::decode(bytes) {
        Some(reference) => readers.values.is_complete(&reference),
        None => Ok(false),
    };
    let input = RecoveryInput {
        storage,
        database: state.identity.database,
        recovered: &state.recovered,
        incorporated: state.incorporated,
        epochs_from: state.log_epochs_from,
        files_from: state.log_files_from,
        segments: &state.log_segments,
        synced: state.log_synced,
        manifest_edits: state.edits,
        life: storage.life(),
        force_cut: false,
        access: log::Access::Read,
        threads: 1,
        value_complete: &value_complete,
    };
    log::recover(input).map(|_| ())
}

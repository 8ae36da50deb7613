//! Checks the change files. Any thread.

use super::findings::Findings;
use crate::changes::{ChangeReader, change_file_name, parse_change_file_name};
use crate::io::Storage;
use crate::util::{DatabaseId, Error, FileNumber, Result, SequenceNumber};
use std::io::ErrorKind;

/// Checks the header of each change file; after a deep check all of its frames. Some may end anywhere, because a crash leaves them so,
/// or because they are being written: the newest one of writes, those of ingests without a number, and the last one of all, which may
/// not even have a header. A file that is removed meanwhile is left out.
pub(crate) fn check_changes(storage: &dyn Storage, database: DatabaseId, findings: &mut Findings<'_>) -> Result<()> {
    let mut files: Vec<_> = storage.list()?.iter().filter_map(|name| parse_change_file_name(name)).collect();
    files.sort_unstable();
    let headers = files.iter().filter_map(|file| ChangeReader::open(storage, database, *file).ok());
    let headers: Vec<_> = headers.map(|(reader, _)| *reader.header()).collect();
    let growing = headers.iter().rev().find(|header| header.ingest.is_none()).map(|header| header.file);
    let unfinished =
        headers.iter().filter(|header| header.ingest == Some(SequenceNumber::MAX)).map(|header| header.file);
    let cut: Vec<_> = unfinished.chain(growing).chain(files.last().copied()).collect();
    for file in files {
        findings.begin(&change_file_name(file));
        match check_file(storage, database, file, findings.is_deep()) {
            Err(error) if is_removed(&error) || (error.is_damage() && cut.contains(&file)) => {}
            checked => findings.found.checked.bytes += findings.take(checked)?.unwrap_or(0),
        }
    }
    Ok(())
}

/// Returns the bytes that were checked.
fn check_file(storage: &dyn Storage, database: DatabaseId, file: FileNumber, deep: bool) -> Result<u64> {
    let (mut reader, _) = ChangeReader::open(storage, database, file)?;
    let length = reader.length()?;
    let is_ingest = reader.header().ingest.is_some();
    while deep && reader.position() < length {
        if is_ingest {
            reader.next_pairs()?;
        } else {
            reader.next_frame(length)?;
        }
    }
    Ok(reader.position())
}

fn is_removed(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == ErrorKind::NotFound)
}

//! Reads the change files of a store one after the other, while they are written. One thread for each follower.
//!
//! Invariant: `position` only rises, and every write up to it that the stream has was returned. A file that was removed
//! meanwhile is read to its end; then the next one must begin there.

use super::kept_files::{Following, KeptFile};
use super::source::ChangeSource;
use crate::changes::{ChangeReader, Frame, Names};
use crate::format::catalog::{self, CatalogEntry};
use crate::format::log_record::{Operation, Operations};
use crate::util::sync::Arc;
use crate::util::{Error, KeyspaceId, Kind, Result, SequenceNumber};

/// See the module.
pub(crate) struct Follower {
    changes: Arc<dyn ChangeSource>,
    position: SequenceNumber,
    reading: Option<Reading>,
    /// The ingest that is read.
    ingest: Option<ReadIngest>,
}

/// A file that is read.
struct Reading {
    reader: ChangeReader,
    names: Names,
    frame: Frame,
}

/// The pairs of an ingest that are read.
struct ReadIngest {
    reader: ChangeReader,
    names: Names,
    number: SequenceNumber,
    /// The next part: the body of a batch.
    next: Option<Vec<u8>>,
}

/// A write as the stream has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedBatch {
    pub(crate) number: SequenceNumber,
    /// False for all parts of an ingest but the last one.
    pub(crate) is_whole: bool,
    /// As in the log.
    body: Vec<u8>,
    /// Of the keyspaces that it writes to.
    names: Vec<(KeyspaceId, Arc<str>)>,
    pub(crate) keyspaces: Vec<CatalogChange>,
}

/// A change of the list of keyspaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CatalogChange {
    /// A keyspace was created, or its options were changed.
    Set {
        name: Arc<str>,
        entry: CatalogEntry,
    },
    Dropped {
        name: Arc<str>,
    },
}

impl Follower {
    /// Follows the writes after a number.
    pub(crate) fn new(changes: Arc<dyn ChangeSource>, since: SequenceNumber) -> Result<Self> {
        changes.check_open()?;
        let kept = changes.kept();
        if kept.copied.is_none() {
            let reason = "the store keeps no changes; open it with `Options::change_retention`";
            return Err(Error::InvalidArgument(reason.into()));
        }
        kept.check(since)?;
        drop(kept);
        let last = changes.last(since)?;
        if since > last {
            let reason = format!(
                "there is no change after number {since} yet: the last write that the store keeps has number {last}; a position \
                 is one of a follower of the same store"
            );
            return Err(Error::InvalidArgument(reason));
        }
        Ok(Self { changes, position: since, reading: None, ingest: None })
    }

    /// Every write up to this number that the stream has was returned.
    pub(crate) fn position(&self) -> SequenceNumber {
        self.position
    }

    /// The next write, or the next part of an ingest; `None` if there is none yet.
    pub(crate) fn next(&mut self) -> Result<Option<CommittedBatch>> {
        let mut has_asked = false;
        loop {
            self.changes.check_open()?;
            if let Some(part) = self.next_part()? {
                return Ok(Some(part));
            }
            if let Some(batch) = self.next_in_frame() {
                self.position = batch.number;
                return Ok(Some(batch));
            }
            if let Some(reading) = &self.reading {
                self.position = self.position.max(reading.reader.through());
            }
            if self.next_frame()? || self.next_file()? {
                continue;
            }
            if has_asked {
                return Ok(None);
            }
            has_asked = true;
            self.changes.look_again()?;
        }
    }

    /// The next part of the ingest that is read. After the last one the position is behind it.
    fn next_part(&mut self) -> Result<Option<CommittedBatch>> {
        let Some(ReadIngest { reader, names, number, next }) = &mut self.ingest else { return Ok(None) };
        let following = reader.next_pairs()?;
        let Some(body) = std::mem::replace(next, following) else {
            // An ingest has at least one pair.
            (self.position, self.ingest) = (*number, None);
            return Ok(None);
        };
        let (is_last, number) = (next.is_none(), *number);
        let batch = CommittedBatch { is_whole: is_last, ..CommittedBatch::new(number, &body, names) };
        if is_last {
            (self.position, self.ingest) = (number, None);
        }
        Ok(Some(batch))
    }

    /// Opens the file of an ingest, which is the next write.
    fn open_ingest(&mut self, number: SequenceNumber) -> Result<()> {
        let found = self.changes.kept().files.ingest(number);
        if found.is_none() && self.changes.is_foreign() {
            self.changes.look_again()?;
        }
        let found = found.or_else(|| self.changes.kept().files.ingest(number));
        // It went with the file that stands for it, or is damaged.
        let found = found.ok_or(Error::ChangesTooOld { since: self.position.0, oldest: number.0 })?;
        let opened = ChangeReader::open(self.changes.storage(), self.changes.database(), found.file);
        let (mut reader, names) = opened.map_err(|error| self.too_old_or(error))?;
        let next = reader.next_pairs()?;
        // Everything in front of it was returned.
        self.position = SequenceNumber(number.0 - 1);
        self.ingest = Some(ReadIngest { reader, names, number, next });
        Ok(())
    }

    /// The error for a file that cannot be opened: it may have been removed just now.
    fn too_old_or(&self, error: Error) -> Error {
        let checked = self.look_for(&error).and_then(|()| self.changes.kept().check(self.position));
        checked.err().filter(|_| error.is_damage()).unwrap_or(error)
    }

    /// After an error of a file: looks again whether another process has removed it.
    fn look_for(&self, error: &Error) -> Result<()> {
        if error.is_damage() && self.changes.is_foreign() { self.changes.look_again() } else { Ok(()) }
    }

    /// The next write of the frame that is not behind the position.
    fn next_in_frame(&mut self) -> Option<CommittedBatch> {
        let Reading { frame, names, .. } = self.reading.as_mut()?;
        while let Some((number, body)) = frame.next_write() {
            let found = (number > self.position).then(|| CommittedBatch::new(number, body, names));
            names.follow(body);
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Reads the next frame of the file. False if it has no more.
    fn next_frame(&mut self) -> Result<bool> {
        let Some(Reading { reader, frame, .. }) = &mut self.reading else { return Ok(false) };
        let (known, is_newest) = {
            let kept = self.changes.kept();
            let following = kept.files.following(reader.header().file);
            (kept.files.get(reader.header().file).map(|file| file.bytes), following == Following::None)
        };
        let end = known.map_or_else(|| reader.length(), Ok)?;
        let may_be_cut = known.is_none() || (is_newest && self.changes.is_foreign());
        match reader.next_frame(end) {
            Ok(Some(next)) => {
                let ingest = next.ingest.filter(|number| *number > self.position);
                *frame = next;
                if let Some(number) = ingest
                    && let Err(error) = self.open_ingest(number)
                {
                    // Asked again, it meets the ingest again.
                    self.reading = None;
                    return Err(error);
                }
            }
            Ok(None) => return Ok(false),
            // It is being written, or was removed while it was.
            Err(error) if error.is_damage() && may_be_cut => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Opens the file that has what comes next. False if there is none.
    fn next_file(&mut self) -> Result<bool> {
        let current = self.reading.as_ref().map(|reading| (reading.reader.header().file, reading.reader.position()));
        let next = {
            let kept = self.changes.kept();
            let following = current.map(|(file, _)| kept.files.following(file));
            // The end of one that another process writes may be a part of a frame.
            let is_whole = !self.changes.is_foreign() || following != Some(Following::None);
            if let Some((file, position)) = current.filter(|_| is_whole)
                && kept.files.get(file).is_some_and(|file| file.bytes > position)
            {
                // Since its end was looked at, it has grown, and the next one may have begun.
                return Ok(true);
            }
            match following {
                // It was read to its end.
                Some(Following::Next(next)) if next.after <= self.position => next,
                Some(Following::Next(KeptFile { after: SequenceNumber(oldest), .. })) => {
                    return Err(Error::ChangesTooOld { since: self.position.0, oldest });
                }
                Some(Following::None) => return Ok(false),
                None | Some(Following::Gone) => {
                    kept.check(self.position)?;
                    let Some(file) = kept.files.of(self.position) else { return Ok(false) };
                    *file
                }
            }
        };
        let opened = ChangeReader::open(self.changes.storage(), self.changes.database(), next.file);
        let (reader, names) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.look_for(&error)?;
                let is_gone = self.changes.kept().files.get(next.file).is_none();
                return if error.is_damage() && is_gone { Ok(true) } else { Err(error) };
            }
        };
        self.reading = Some(Reading { reader, names, frame: Frame::default() });
        Ok(true)
    }
}

impl CommittedBatch {
    fn new(number: SequenceNumber, body: &[u8], names: &Names) -> Self {
        let mut batch = Self { number, is_whole: true, body: body.to_vec(), names: Vec::new(), keyspaces: Vec::new() };
        let operations = Operations::parse(Kind::Batch, body).into_iter().flatten();
        for operation in operations {
            let id = operation.keyspace;
            if id == KeyspaceId::CATALOG {
                batch.keyspaces.extend(CatalogChange::of(&operation));
            } else if !batch.names.iter().any(|(known, _)| *known == id) {
                batch.names.extend(names.get(id).map(|name| (id, Arc::clone(name))));
            }
        }
        batch
    }

    #[cfg(feature = "async")]
    pub(crate) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Its operations, range deletes first, each with the name of its keyspace; `None` for the default one. Those of keyspaces
    /// that were dropped before the stream begins are left out.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (Option<&str>, Operation<'_>)> {
        let all = || Operations::parse(Kind::Batch, &self.body).into_iter().flatten();
        let ranges = all().filter(|operation| operation.kind == Kind::RangeDelete);
        let all = ranges.chain(all().filter(|operation| operation.kind != Kind::RangeDelete));
        all.filter_map(|operation| match operation.keyspace {
            KeyspaceId::DEFAULT => Some((None, operation)),
            id => {
                let (_, name) = self.names.iter().find(|(known, _)| *known == id)?;
                Some((Some(&**name), operation))
            }
        })
    }
}

impl CatalogChange {
    fn of(operation: &Operation<'_>) -> Option<Self> {
        let name = catalog::name_of(operation.key)?.into();
        Some(match operation.kind {
            Kind::Put => Self::Set { name, entry: CatalogEntry::decode(operation.value)? },
            _ => Self::Dropped { name },
        })
    }
}

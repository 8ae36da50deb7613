//! Reads what was written since a number, while writers go on. Any thread.

use super::log::{Log, State};
use super::recovery::{LiveSegment, LogContents, SegmentFile, Show, Tail, TailRange};
use super::segment::Segment;
use crate::format::log_segment::SegmentHeader;
use crate::io::OpenMode;
use crate::util::sequencer::Sequencer;
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};

impl Log {
    /// The records of this log epoch with numbers above `after`, up to `through`. Requires that these are synced, and that no
    /// segment with a number above `after` is recycled meanwhile. `tail` is that of the last call; for `show` see `Tail::read`.
    pub fn records_after(
        &self,
        sequencer: &Sequencer,
        tail: &mut Tail,
        after: SequenceNumber,
        through: SequenceNumber,
        show: &mut Show<'_>,
    ) -> Result<LogContents> {
        debug_assert!(self.synced() >= through);
        let segments = {
            let state = self.state.lock();
            let State { current, dedicated, retiring, sealed, .. } = &*state;
            let all = sealed.iter().chain(retiring).chain(dedicated).chain([current]);
            // That of a segment which is not sealed yet is unknown.
            all.filter(|segment| segment.last() > after).map(Arc::clone).collect::<Vec<_>>()
        };
        let segments = segments.iter().map(|segment| self.live(segment)).collect::<Result<Vec<_>>>()?;
        let (epoch, first, last) = (self.identity.epoch, self.identity.first, sequencer.last());
        tail.read(&*self.storage, segments, TailRange { epoch, first, after, through, last }, show)
    }

    fn live(&self, segment: &Segment) -> Result<LiveSegment> {
        let size = segment.size();
        let header = SegmentHeader {
            database: self.identity.database,
            number: segment.number,
            epoch: self.identity.epoch,
            first: self.identity.first,
            life: self.identity.life,
            segment_bytes: size.bytes() as u64,
            chunk_bytes: size.chunk_bytes as u64,
            shadow: None,
        };
        let is_left = (0..segment.claimed()).map(|chunk| !segment.is_owned(chunk)).collect();
        let file = self.storage.open(&segment.name, OpenMode::ReadDirect)?;
        let (name, path, salt) = (segment.name.clone(), self.storage.path_of(&segment.name), segment.salt);
        Ok(LiveSegment { file: SegmentFile { name, path, header, salt, mark: None, file, shadow: None }, is_left })
    }
}

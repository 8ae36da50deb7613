//! A cursor over the levels: a merge of one cursor for each run, each of which opens a part file when it is reached. One
//! thread at a time. It holds the version, so what it shows never changes.
//!
//! Invariants:
//! 1. If the version has range tombstones, a valid cursor has those over the keys of a window around its entry. Windows
//!    end where files of the deepest run begin, so that few are read at a time.
//! 2. It reports range tombstones only for keys of the window. For another key the caller is on an entry of a newer
//!    source, and nothing in the levels is newer than that.

use crate::branch::Target;
use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::runs::run::{self, Key};
use crate::disk::runs::run_cursor::{RunCursor, note_search, seek_together};
use crate::merge::{Cursor, EntryRef, Limit, MergeCursor, PinnedValue, RangeTombstones, Visitor};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use std::ops::ControlFlow;

/// See the module.
pub struct LevelsCursor {
    version: Arc<LevelsVersion>,
    cursor: MergeCursor<RunCursor>,
    window: Option<Window>,
    /// Whether the version has range tombstones.
    is_masked: bool,
}

/// Keys whose range tombstones are known.
struct Window {
    lower: Key,
    upper: Option<Key>,
    tombstones: RangeTombstones,
}

impl Window {
    /// The window around a key.
    fn around(version: &LevelsVersion, key: &[u8]) -> Result<Self> {
        let (mut lower, mut upper) = (Key::from([]), None);
        if let Some((_, deepest)) = version.runs().last() {
            let parts = deepest.run.parts();
            let next = parts.partition_point(|part| part.meta().key_min[..] <= *key);
            lower = next.checked_sub(1).map_or(lower, |at| parts[at].meta().key_min[..].into());
            upper = parts.get(next).map(|part| part.meta().key_min[..].into());
        }
        let runs = version.runs().map(|(_, level_run)| &level_run.run);
        let tombstones = run::range_tombstones(runs, &lower, upper.as_deref())?;
        Ok(Self { lower, upper, tombstones })
    }

    fn contains(&self, key: &[u8]) -> bool {
        *key >= *self.lower && self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }
}

impl LevelsVersion {
    /// A cursor over all entries.
    pub fn cursor(self: &Arc<Self>) -> LevelsCursor {
        let entries = self.load().entries.max(1);
        let cursors = self.runs().map(|(_, level_run)| {
            RunCursor::for_scans(Arc::clone(&level_run.run), (level_run.load.bytes << 8) / entries)
        });
        LevelsCursor {
            version: Arc::clone(self),
            cursor: MergeCursor::new(cursors.collect()),
            window: None,
            is_masked: self.has_range_tombstones(),
        }
    }
}

impl LevelsCursor {
    fn search(&mut self, key: &[u8], number: SequenceNumber, backward: bool) -> Result<()> {
        let target = Target { key, number, backward };
        self.cursor.search(backward, |runs| seek_together(runs, target, 0))?;
        note_search(self.cursor.sources());
        self.look()
    }

    /// Moves the window to the entry.
    #[inline]
    fn look(&mut self) -> Result<()> {
        if self.is_masked && self.cursor.valid() {
            let key = self.cursor.entry().key;
            if self.window.as_ref().is_none_or(|window| !window.contains(key)) {
                self.window = Some(Window::around(&self.version, key)?);
            }
        }
        Ok(())
    }
}

impl Cursor for LevelsCursor {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.search(key, number, false)
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.search(key, number, true)
    }

    fn seek_first(&mut self) -> Result<()> {
        self.search(&[], SequenceNumber::MAX, false)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.cursor.seek_last()?;
        self.look()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.cursor.next()?;
        self.look()
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.prev()?;
        self.look()
    }

    fn pass(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
        let flow = self.cursor.pass(limit, visitor)?;
        self.look()?;
        Ok(flow)
    }

    fn rest(&mut self) {
        self.cursor.rest();
    }

    #[inline]
    fn valid(&self) -> bool {
        self.cursor.valid()
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        self.cursor.entry()
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        match &self.window {
            Some(window) if window.contains(key) => window.tombstones.covering(key, at),
            _ => SequenceNumber::ZERO,
        }
    }

    fn deleted_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        let window = self.window.as_ref().filter(|window| self.is_masked && window.contains(key))?;
        window.tombstones.covered_until(key, at).map(<[u8]>::to_vec)
    }

    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        match &self.window {
            _ if !self.is_masked || !self.cursor.valid() => None,
            Some(Window { upper, tombstones, .. }) => match (tombstones.next_covered(key), upper) {
                (Some(covered), _) => Some(covered.to_vec()),
                (None, Some(upper)) => Some(key.max(upper).to_vec()),
                (None, None) => None,
            },
            None => Some(key.to_vec()),
        }
    }

    fn pin_value(&self) -> Option<PinnedValue> {
        self.cursor.pin_value()
    }
}

//! Reads many sorted sources as one: a loser tree over the sources' current entries.
//!
//! A cursor belongs to one thread at a time. Sources may grow while they are read (a Memtable does). Entries that a
//! source had before the merge reached their place are returned; later ones may be.
//!
//! Invariants:
//! 1. Sources are given newest first. If two have equal entries (same key and number: a log replayed over branches that
//!    already contain part of it), the newer source's entry is returned and the other is skipped.
//! 2. While the merge is on an entry, every other source is, going forward, on the first entry after it or at its end;
//!    going backward, on the last entry before it or at its end. So no other source is on an equal entry.
//! 3. `heads[i]` is the head of source i's key, complemented when going backward, so that the smaller head always wins.
//!    It is `u128::MAX` if the source is unpositioned. Different heads decide a match; equal heads decide nothing.
//! 4. `losers[n]`, for an inner node n of the tree, is the source that lost the match there. The overall winner is
//!    `winner`. A change of one source replays only the matches between its leaf and the root.
//!
//! Why the last sentence of 2 holds: let A be the overall winner while B is on an equal entry, and take the node where
//! their paths meet. B's side sent up a source with an entry no greater than B's, so equal to A's, and the match at
//! that node was played when the later of its two sides last changed, with these same entries. That match reported a
//! tie, and `settle` returns only after ties are skipped.

use super::cursor::Cursor;
use super::entry::{EntryRef, Limit};
use super::pinned_value::PinnedValue;
use super::visitor::Visitor;
use crate::util::{Result, SequenceNumber, key};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// No source: the merge is unpositioned.
const NOWHERE: usize = usize::MAX;
const EXHAUSTED: u128 = u128::MAX;
/// Deleted entries that a source steps over before it seeks to the end of the deleted range.
const STEPS_MAX: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// See the module documentation.
#[derive(Debug)]
pub struct MergeCursor<C> {
    sources: Vec<C>,
    heads: Vec<u128>,
    losers: Vec<usize>,
    winner: usize,
    direction: Direction,
    /// The older of two sources that the last matches found on equal entries.
    tied: Option<usize>,
    /// How often another source than before won a step.
    turns: u64,
    /// Buffer for a key: while the direction changes, and the limit of the winner in `pass`.
    turning_key: Vec<u8>,
}

impl<C: Cursor> MergeCursor<C> {
    /// The source of the current entry; of several that have it, the newest. Requires `valid()`.
    pub fn source(&self) -> usize {
        self.winner
    }

    /// The cursor that is on the current entry; `None` if there is none.
    pub fn current(&self) -> Option<&C> {
        self.sources.get(self.winner)
    }

    /// An unpositioned merge of `sources`, newest first.
    pub fn new(sources: Vec<C>) -> Self {
        let count = sources.len();
        Self {
            sources,
            heads: vec![EXHAUSTED; count],
            losers: vec![NOWHERE; count],
            winner: NOWHERE,
            direction: Direction::Forward,
            tied: None,
            turns: 0,
            turning_key: Vec::new(),
        }
    }

    /// How often, since the last call, a step led from one source to another. Within one source steps cost less.
    pub fn take_turns(&mut self) -> u64 {
        std::mem::take(&mut self.turns)
    }

    /// The sources, newest first.
    pub fn sources(&self) -> &[C] {
        &self.sources
    }

    /// Changes the sources by `change`, after which they are newest first. The merge is unpositioned then.
    pub fn change_sources(&mut self, change: impl FnOnce(&mut Vec<C>)) {
        self.winner = NOWHERE;
        change(&mut self.sources);
        self.heads.resize(self.sources.len(), EXHAUSTED);
        self.losers.resize(self.sources.len(), NOWHERE);
    }

    /// Positions every source by `place`, then plays all matches.
    fn place_all(&mut self, direction: Direction, place: impl Fn(&mut C) -> Result<()>) -> Result<()> {
        self.winner = NOWHERE;
        self.direction = direction;
        for source in &mut self.sources {
            place(source)?;
        }
        self.settle_all()
    }

    /// As `seek`, or as `seek_for_prev` if `backward`, with a function that positions all sources at once. Returns its
    /// result.
    pub fn search<T>(&mut self, backward: bool, place: impl FnOnce(&mut [C]) -> Result<T>) -> Result<T> {
        self.winner = NOWHERE;
        self.direction = if backward { Direction::Backward } else { Direction::Forward };
        let placed = place(&mut self.sources)?;
        self.settle_all()?;
        Ok(placed)
    }

    /// Plays all matches after all sources have moved.
    fn settle_all(&mut self) -> Result<()> {
        for source in 0..self.sources.len() {
            self.refresh_head(source);
        }
        let winner = self.play_all();
        self.settle(winner)
    }

    /// Moves `source` one entry in the current direction and replays its matches.
    #[inline]
    fn step(&mut self, source: usize) -> Result<()> {
        self.winner = NOWHERE;
        self.move_one(source)?;
        if self.sources.len() == 1 {
            self.winner = if self.sources[0].valid() { 0 } else { NOWHERE };
            return Ok(());
        }
        self.refresh_head(source);
        let winner = self.replay(source);
        self.settle_after(source, winner)
    }

    /// Moves the winner, which is on an entry that a range tombstone hides, to a key behind it or over its own deleted
    /// entries, and replays its matches.
    pub fn leave_to(&mut self, winner: usize, end: Option<&[u8]>, at: SequenceNumber) -> Result<()> {
        self.winner = NOWHERE;
        let source = &mut self.sources[winner];
        match end {
            None => source.leave_deleted(at)?,
            Some(end) => {
                // Short ranges are stepped over.
                let mut steps = 0;
                while steps < STEPS_MAX && source.valid() && source.key() < end {
                    source.next()?;
                    steps += 1;
                }
                if source.valid() && source.key() < end {
                    source.seek(end, SequenceNumber::MAX)?;
                }
            }
        }
        self.refresh_head(winner);
        let now = self.replay(winner);
        self.settle_after(winner, now)
    }

    /// As `settle`, after a step of the source `before`.
    #[inline]
    fn settle_after(&mut self, before: usize, winner: usize) -> Result<()> {
        self.settle(winner)?;
        self.turns += u64::from(self.winner != before && self.winner != NOWHERE);
        Ok(())
    }

    #[inline]
    fn move_one(&mut self, source: usize) -> Result<()> {
        match self.direction {
            Direction::Forward => self.sources[source].next(),
            Direction::Backward => self.sources[source].prev(),
        }
    }

    #[inline]
    fn refresh_head(&mut self, source: usize) {
        let cursor = &self.sources[source];
        self.heads[source] = match (cursor.valid(), self.direction) {
            (false, _) => EXHAUSTED,
            (true, Direction::Forward) => key::wide_head(cursor.key()),
            (true, Direction::Backward) => !key::wide_head(cursor.key()),
        };
    }

    /// Skips entries that tied until there are none (invariant 1), then makes `winner` the winner. Ties are as rare as
    /// recoveries, so it may replay all matches for each.
    #[inline]
    fn settle(&mut self, mut winner: usize) -> Result<()> {
        while let Some(older) = self.tied.take() {
            self.move_one(older)?;
            self.refresh_head(older);
            winner = self.play_all();
        }
        self.winner = if winner != NOWHERE && self.sources[winner].valid() { winner } else { NOWHERE };
        Ok(())
    }

    /// Plays every match of the tree. Leaves are nodes `count..2 * count`; the children of node n are 2n and 2n + 1.
    fn play_all(&mut self) -> usize {
        let count = self.sources.len();
        self.losers.fill(NOWHERE);
        if count == 0 {
            return NOWHERE;
        }
        // A source climbs until it finds a node without a player and waits there for the winner of the other side.
        let mut last = 0;
        for source in 0..count {
            let mut player = source;
            let mut node = (count + source) / 2;
            while node > 0 {
                let waiting = self.losers[node];
                if waiting == NOWHERE {
                    self.losers[node] = player;
                    break;
                }
                if self.beats(waiting, player) {
                    self.losers[node] = player;
                    player = waiting;
                }
                node /= 2;
            }
            if node == 0 {
                last = player;
            }
        }
        last
    }

    /// Plays the matches between `source`'s leaf and the root.
    #[inline]
    fn replay(&mut self, source: usize) -> usize {
        let mut player = source;
        let mut node = (self.sources.len() + source) / 2;
        while node > 0 {
            let waiting = self.losers[node];
            if self.beats(waiting, player) {
                self.losers[node] = player;
                player = waiting;
            }
            node /= 2;
        }
        player
    }

    /// Whether `a`'s entry comes before `b`'s in the current direction.
    #[inline]
    fn beats(&mut self, a: usize, b: usize) -> bool {
        let (head_a, head_b) = (self.heads[a], self.heads[b]);
        if head_a == head_b { self.beats_by_whole_key(a, b) } else { head_a < head_b }
    }

    #[inline(never)]
    fn beats_by_whole_key(&mut self, a: usize, b: usize) -> bool {
        let (source_a, source_b) = (&self.sources[a], &self.sources[b]);
        if !source_a.valid() || !source_b.valid() {
            return source_a.valid();
        }
        let entry_b = source_b.entry();
        match (source_a.entry().order(entry_b.key, entry_b.number), self.direction) {
            (Ordering::Less, Direction::Forward) | (Ordering::Greater, Direction::Backward) => true,
            (Ordering::Equal, _) => {
                self.tied = Some(a.max(b));
                a < b
            }
            _ => false,
        }
    }

    /// Changes the direction at the current entry, so that invariant 2 holds for the other direction. The other sources
    /// seek and do not step, because they may have grown between their position and that of the merge.
    fn turn(&mut self, direction: Direction) -> Result<()> {
        let stands_on = std::mem::replace(&mut self.winner, NOWHERE);
        let entry = self.sources[stands_on].entry();
        let number = entry.number;
        self.turning_key.clear();
        self.turning_key.extend_from_slice(entry.key);
        let key = &self.turning_key[..];
        for (index, source) in self.sources.iter_mut().enumerate() {
            if index == stands_on {
                continue;
            }
            match direction {
                Direction::Forward => source.seek(key, number)?,
                Direction::Backward => source.seek_for_prev(key, number)?,
            }
            if source.valid() && source.entry().order(key, number) == Ordering::Equal {
                match direction {
                    Direction::Forward => source.next()?,
                    Direction::Backward => source.prev()?,
                }
            }
        }
        self.direction = direction;
        self.move_one(stands_on)?;
        self.settle_all()
    }

    /// The source whose entry comes next after that of `winner`: it has lost to it. `None` if all others are at their
    /// ends. Going forward.
    fn runner_up(&self, winner: usize) -> Option<usize> {
        let mut best: Option<usize> = None;
        let mut node = (self.sources.len() + winner) / 2;
        while node > 0 {
            let other = self.losers[node];
            let is_better = |best: usize| match self.heads[other].cmp(&self.heads[best]) {
                Ordering::Equal => self.sources[other].key() < self.sources[best].key(),
                order => order == Ordering::Less,
            };
            if other != NOWHERE && self.sources[other].valid() && best.is_none_or(is_better) {
                best = Some(other);
            }
            node /= 2;
        }
        best
    }

    #[inline]
    fn go(&mut self, direction: Direction) -> Result<()> {
        debug_assert!(self.valid());
        if self.direction == direction { self.step(self.winner) } else { self.turn(direction) }
    }
}

impl<C: Cursor> Cursor for MergeCursor<C> {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.place_all(Direction::Forward, |source| source.seek(key, number))
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.place_all(Direction::Backward, |source| source.seek_for_prev(key, number))
    }

    fn seek_first(&mut self) -> Result<()> {
        self.place_all(Direction::Forward, C::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.place_all(Direction::Backward, C::seek_last)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.go(Direction::Forward)
    }

    fn prev(&mut self) -> Result<()> {
        self.go(Direction::Backward)
    }

    /// A source that wins twice in a row then passes its entries up to the next one of any other source, so inside one
    /// source no match is played. Where sources take turns, finding that limit would cost more than a match.
    fn pass(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
        debug_assert!(self.valid());
        let mut before = if self.sources.len() == 1 { self.winner } else { NOWHERE };
        loop {
            if self.winner != before || self.direction == Direction::Backward {
                before = self.winner;
                if visitor.visit(self.entry()).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.go(Direction::Forward)?;
            } else {
                let winner = std::mem::replace(&mut self.winner, NOWHERE);
                let mut limit = limit;
                if let Some(next) = self.runner_up(winner) {
                    self.turning_key.clear();
                    self.turning_key.extend_from_slice(self.sources[next].key());
                    limit = limit.min(Limit::at(&self.turning_key));
                }
                let flow = self.sources[winner].pass(limit, visitor)?;
                self.refresh_head(winner);
                let next = if self.sources.len() == 1 { winner } else { self.replay(winner) };
                self.settle_after(winner, next)?;
                if flow.is_break() {
                    return Ok(flow);
                }
            }
            if !self.valid() || limit.is_reached(self.key()) {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    fn rest(&mut self) {
        self.winner = NOWHERE;
        self.sources.iter_mut().for_each(C::rest);
    }

    fn renew(&mut self, at: SequenceNumber) {
        self.winner = NOWHERE;
        self.sources.iter_mut().for_each(|source| source.renew(at));
    }

    #[inline]
    fn valid(&self) -> bool {
        self.winner != NOWHERE
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        self.sources[self.winner].entry()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.sources[self.winner].key()
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.sources.iter().map(|source| source.covering(key, at)).max().unwrap_or(SequenceNumber::ZERO)
    }

    fn deleted_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        self.sources.iter().filter_map(|source| source.deleted_until(key, at)).max()
    }

    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.sources.iter().filter_map(|source| source.next_deleted(key)).min()
    }

    /// If newer sources delete a range around the entry, its source seeks to the end of the range. The other sources do the
    /// same once they win.
    fn leave_deleted(&mut self, at: SequenceNumber) -> Result<()> {
        debug_assert!(self.valid());
        if self.direction != Direction::Forward {
            return self.turn(Direction::Forward);
        }
        let winner = self.winner;
        let (newer, key) = (&self.sources[..winner], self.sources[winner].key());
        let end = newer.iter().filter_map(|source| source.deleted_until(key, at)).max();
        self.leave_to(winner, end.as_deref(), at)
    }

    fn note_untaken(&mut self, entries: u64) {
        // With several sources it is not known which of them the entries came from.
        if let [only] = &mut self.sources[..] {
            only.note_untaken(entries);
        }
    }

    fn pin_value(&self) -> Option<PinnedValue> {
        self.sources[self.winner].pin_value()
    }
}

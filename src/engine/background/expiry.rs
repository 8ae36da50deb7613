//! Ticks of the expiry of keyspaces (`engine/expiry/expiry.rs`), and the space of what has expired.
//!
//! Merges drop what has expired with the rest of their inputs. A part of the tree where nothing is written any more needs a
//! compaction of its own: once at least half of its data has expired, as far as the numbers of its files tell.

use super::background::Background;
use crate::engine::expiry::TickPlan;
use crate::engine::state::freeing::FreedRange;
use crate::engine::types::effects::{Effects, KeyWrite};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::options::Durability;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::mode::WriteMode;
use crate::engine::write::precondition::WriteOutcome;
use crate::format::catalog;
use crate::util::{FileNumber, KeyspaceId, Result, SequenceNumber, key, limits};
use std::collections::BTreeSet;
use std::time::Duration;

/// The time between two looks at the files.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// The same while snapshots still need what has expired.
const WHILE_HELD: Duration = Duration::from_secs(10);

/// What was done about the space of what has expired.
#[derive(Debug, Default)]
pub(crate) struct ExpiredSpace {
    /// Files whose compaction was asked for.
    asked: BTreeSet<FileNumber>,
    /// The times, by the store's clock, of the latest look at the files and of the next one.
    last_look: Option<Duration>,
    next_look: Option<Duration>,
}

impl ExpiredSpace {
    /// Something has expired: looks soon.
    pub(crate) fn note_expired(&mut self) {
        let soon = self.last_look.map_or(Duration::ZERO, |last| last + BETWEEN_LOOKS);
        self.next_look.get_or_insert(soon);
    }
}

impl Background {
    /// Does what is due. Errors of the write are those of later calls, or go by themselves; the next tick tries again.
    pub(super) fn expire(&self) -> Result<()> {
        let (expiry, clock) = (&self.read.expiry, &self.scheduler.clock);
        if let Some(mut tick) = expiry.begin_tick() {
            let plan = tick.plan(|| (self.read.sequencer.last(), clock.date()));
            if let Some(plan) = plan {
                if self.write_tick(&plan) {
                    tick.note_written(&plan, || self.read.snapshots.numbers());
                    self.read.branches.set_expired(expiry.for_all(Vec::new).1);
                    if plan.moment.is_some() {
                        self.expired_space.lock().note_expired();
                    }
                } else {
                    tick.note_failed(&plan);
                }
            }
            tick.end(clock.now(), clock.date());
        }
        if self.is_look_due(clock.now()) { self.look_for_expired_space() } else { Ok(()) }
    }

    /// When `expire` is due.
    pub(super) fn expiry_due(&self) -> Option<Duration> {
        self.read.expiry.due().into_iter().chain(self.expired_space.lock().next_look).min()
    }

    fn is_look_due(&self, now: Duration) -> bool {
        self.expired_space.lock().next_look.is_some_and(|due| now >= due)
    }

    /// Writes what a tick has found, if that does not have to wait. Returns whether it did.
    fn write_tick(&self, plan: &TickPlan) -> bool {
        if !self.write.committer.has_room() {
            return false;
        }
        let of_date = |(date, number): &(u64, Option<SequenceNumber>)| {
            let change = number.map_or(KeyChange::Delete, |number| KeyChange::Put(catalog::encode_number(number)));
            (catalog::key_of_date(*date), change)
        };
        let of_keyspace = |(keyspace, through): &(KeyspaceId, SequenceNumber)| {
            (catalog::key_of_expired(*keyspace), KeyChange::Put(catalog::encode_number(*through)))
        };
        let changes = plan.dates.iter().map(of_date).chain(plan.through.iter().map(of_keyspace));
        let write = |(key, change): (Vec<u8>, _)| KeyWrite { key: UserKey::new(KeyspaceId::CATALOG, &key).to_owned(), change };
        let effects = Effects { writes: changes.map(write).collect(), deleted: Vec::new() };
        let mode = WriteMode { tick: Some(plan.moment.as_deref()), ..WriteMode::new(Durability::Buffered, &[]) };
        matches!(self.write.write_all(&effects, None, mode), Ok(WriteOutcome::Written(_)))
    }

    /// Asks for the compaction of key ranges of which at least half has expired for all readers.
    fn look_for_expired_space(&self) -> Result<()> {
        let expired = self.read.retention().expired().clone();
        let view = self.read.view.load_full();
        let (mut live, mut ranges) = (BTreeSet::new(), Vec::new());
        let mut space = self.expired_space.lock();
        view.disk.visit_branches(&mut |_, branch| {
            let meta = branch.meta();
            let numbers = (meta.number_min, meta.number_max);
            if !live.insert(meta.file) || space.asked.contains(&meta.file) {
                return;
            }
            if expired.has_half((&meta.key_min, &meta.key_max), numbers) {
                let mut upper = meta.key_max.clone();
                if !meta.open_ended {
                    upper.push(0);
                }
                let values = meta.value_files.len() as u64 * limits::VALUE_FILE_BYTES_MIN as u64;
                let number = expired.through(key::keyspace(&meta.key_min));
                let range = FreedRange { lower: meta.key_min.clone(), upper, number, bytes: meta.bytes + values };
                ranges.push((range, vec![meta.file]));
            }
        });
        space.asked.retain(|file| live.contains(file));
        let mut is_asked = false;
        for (range, files) in joined(ranges) {
            if range.bytes >= view.disk.approximate_bytes(&range.lower, Some(&range.upper))? / 2 {
                space.asked.extend(files);
                is_asked |= self.freeing.add(range, view.disk.figures().file_bytes, self.disk.freed_bytes_min());
            }
        }
        // A snapshot that still has some of it may end at any time.
        let is_held = *expired != *self.read.expiry.for_all(Vec::new).1;
        let now = self.scheduler.clock.now();
        (space.last_look, space.next_look) = (Some(now), is_held.then_some(now + WHILE_HELD));
        drop(space);
        if is_asked {
            self.incorporate_freed()?;
            self.scheduler.wake_workers();
        }
        Ok(())
    }
}

/// The ranges, of which those that overlap are joined, with the files in them.
fn joined(mut ranges: Vec<(FreedRange, Vec<FileNumber>)>) -> Vec<(FreedRange, Vec<FileNumber>)> {
    ranges.sort_by(|(one, _), (other, _)| one.lower.cmp(&other.lower));
    let mut joined: Vec<(FreedRange, Vec<FileNumber>)> = Vec::new();
    for (range, files) in ranges {
        match joined.last_mut() {
            Some((last, of_last)) if range.lower < last.upper => {
                last.upper = last.upper.clone().max(range.upper);
                last.number = last.number.max(range.number);
                last.bytes += range.bytes;
                of_last.extend(files);
            }
            _ => joined.push((range, files)),
        }
    }
    joined
}

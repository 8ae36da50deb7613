//! Ticks of the expiry of keyspaces (`engine/expiry/expiry.rs`), and the space of what has expired.
//!
//! Merges drop what has expired with the rest of their inputs. A part of the tree where nothing is written any more needs a
//! compaction of its own: once at least half of its data has expired, as far as the numbers of its files tell.

use super::background::Background;
use crate::engine::expiry::TickPlan;
use crate::engine::state::freeing::FreedRange;
use crate::engine::state::view::View;
use crate::engine::types::effects::{Effects, KeyWrite};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::options::Durability;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::mode::WriteMode;
use crate::engine::write::precondition::WriteOutcome;
use crate::format::catalog;
use crate::format::manifest_edit::BranchMeta;
use crate::util::{FileNumber, KeyspaceId, Result, SequenceNumber, key, limits};
use std::collections::{BTreeMap, BTreeSet};
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
        let write =
            |(key, change): (Vec<u8>, _)| KeyWrite { key: UserKey::new(KeyspaceId::CATALOG, &key).to_owned(), change };
        let effects = Effects { writes: changes.map(write).collect(), deleted: Vec::new() };
        let mode = WriteMode { tick: Some(plan.moment.as_deref()), ..WriteMode::new(Durability::Buffered, &[]) };
        matches!(self.write.write_all(&effects, None, mode), Ok(WriteOutcome::Written(_)))
    }

    /// Asks for the compaction of keyspaces of which at least half has expired for all readers, or of such parts of them.
    fn look_for_expired_space(&self) -> Result<()> {
        let expired = self.read.retention().expired().clone();
        let view = self.read.view.load_full();
        let (mut live, mut found) = (BTreeSet::new(), BTreeMap::<_, Vec<_>>::new());
        let mut space = self.expired_space.lock();
        view.disk.visit_branches(&mut |_, branch| {
            let meta = branch.meta();
            if !live.insert(meta.file) || space.asked.contains(&meta.file) {
                return;
            }
            if expired.has_half((&meta.key_min, &meta.key_max), (meta.number_min, meta.number_max)) {
                let keyspace = key::keyspace(&meta.key_min);
                found.entry(keyspace).or_default().push(ExpiredRange::of(meta, expired.through(keyspace)));
            }
        });
        space.asked.retain(|file| live.contains(file));
        let mut is_asked = false;
        for (keyspace, ranges) in found {
            for ExpiredRange { range, files } in choose(keyspace, ranges, &view)? {
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

/// A range of keys in which files are that have expired.
struct ExpiredRange {
    /// With the bytes of these files, and of the value files that they refer to.
    range: FreedRange,
    files: Vec<FileNumber>,
}

impl ExpiredRange {
    fn of(meta: &BranchMeta, number: SequenceNumber) -> Self {
        let mut upper = meta.key_max.clone();
        if !meta.open_ended {
            upper.push(0);
        }
        let values = meta.value_files.len() as u64 * limits::VALUE_FILE_BYTES_MIN as u64;
        let range = FreedRange { lower: meta.key_min.clone(), upper, number, bytes: meta.bytes + values };
        Self { range, files: vec![meta.file] }
    }

    fn join(&mut self, other: Self) {
        let upper = std::mem::take(&mut self.range.upper);
        self.range.upper = upper.max(other.range.upper);
        self.range.bytes += other.range.bytes;
        self.files.extend(other.files);
    }

    /// Whether at least half of what is in its keys has expired.
    fn is_worth_it(&self, view: &View) -> Result<bool> {
        let all = view.disk.approximate_bytes(&self.range.lower, Some(&self.range.upper))?;
        Ok(self.range.bytes >= all / 2)
    }
}

/// What to compact of a keyspace with these ranges: all of it, or those of the ranges that are worth it.
fn choose(keyspace: KeyspaceId, mut ranges: Vec<ExpiredRange>, view: &View) -> Result<Vec<ExpiredRange>> {
    ranges.sort_by(|one, other| one.range.lower.cmp(&other.range.lower));
    let (lower, upper) = key::encoded_range(keyspace, &[], None);
    let number = ranges.iter().map(|part| part.range.number).max().unwrap_or_default();
    let bytes = ranges.iter().map(|part| part.range.bytes).sum();
    let files = ranges.iter().flat_map(|part| &part.files).copied().collect();
    let whole = ExpiredRange { range: FreedRange { lower, upper, number, bytes }, files };
    if whole.is_worth_it(view)? {
        return Ok(vec![whole]);
    }
    let mut joined: Vec<ExpiredRange> = Vec::new();
    for part in ranges {
        match joined.last_mut() {
            Some(last) if part.range.lower < last.range.upper => last.join(part),
            _ => joined.push(part),
        }
    }
    let mut chosen = Vec::new();
    for part in joined {
        if part.is_worth_it(view)? {
            chosen.push(part);
        }
    }
    Ok(chosen)
}

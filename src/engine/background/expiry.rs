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

impl Background {
    /// A tick. Errors of its write are those of later calls, or go by themselves; the next tick tries again.
    pub(crate) fn expire(&self) {
        let (expiry, clock) = (&self.read.expiry, &self.scheduler.clock);
        let Some(mut tick) = expiry.begin_tick() else { return };
        if let Some(plan) = tick.plan(|| (self.read.sequencer.last(), clock.date())) {
            if self.write_tick(&plan) {
                tick.note_written(&plan, || self.read.snapshots.numbers());
                self.read.branches.set_expired(expiry.for_all(Vec::new).1);
                if plan.moment.is_some() {
                    self.expired_space.note_expired();
                }
            } else {
                tick.note_failed(&plan);
            }
        }
        tick.end(clock.now(), clock.date());
    }

    /// When a tick or a look at the files is due.
    pub(super) fn expiry_due(&self) -> Option<Duration> {
        self.read.expiry.due().into_iter().chain(self.expired_space.due()).min()
    }

    /// Whether to look at the files for what has expired.
    pub(super) fn is_look_due(&self, now: Duration) -> bool {
        self.expired_space.due().is_some_and(|due| now >= due)
    }

    /// Writes what a tick has found, if there is memory for that. It may wait for a log segment, which another lane makes.
    /// Returns whether it did.
    fn write_tick(&self, plan: &TickPlan) -> bool {
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
        let written = self.write.write_all(&effects, None, mode);
        // An error after the moment has begun is one of the store: readers have it by now.
        matches!(written, Ok(WriteOutcome::Written(_))) || plan.moment.as_ref().is_some_and(|moment| moment.has_begun())
    }

    /// Asks for the compaction of keyspaces of which at least half has expired for all readers, or of such parts of them.
    pub(super) fn look_for_expired_space(&self) -> Result<()> {
        let now = self.scheduler.clock.now();
        let Some(mut asked) = self.expired_space.begin(now) else { return Ok(()) };
        let expired = self.read.retention().expired().clone();
        let view = self.read.view.load_full();
        let (mut live, mut found) = (BTreeSet::new(), BTreeMap::<_, Vec<_>>::new());
        view.disk.visit_branches(&mut |_, branch| {
            let meta = branch.meta();
            if !live.insert(meta.file) || asked.contains(&meta.file) {
                return;
            }
            for keyspace in self.disk.half_expired(branch, &expired) {
                let range = ExpiredRange::of(meta, keyspace, expired.through(keyspace));
                found.entry(keyspace).or_default().push(range);
            }
        });
        asked.retain(|file| live.contains(file));
        let mut is_asked = false;
        for (keyspace, ranges) in found {
            for ExpiredRange { range, files } in choose(keyspace, ranges, &view) {
                asked.extend(files);
                is_asked |= self.space.freeing.add(range, view.disk.figures().file_bytes, self.disk.freed_bytes_min());
            }
        }
        // A snapshot that still has some of it may end at any time.
        if *expired != *self.read.expiry.for_all(Vec::new).1 {
            self.expired_space.note_held(now);
        }
        drop(asked);
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
    /// The keys that a branch may have of a keyspace.
    fn of(meta: &BranchMeta, keyspace: KeyspaceId, number: SequenceNumber) -> Self {
        let (lower, upper) = key::encoded_range(keyspace, &[], None);
        let mut last = meta.key_max.clone();
        if !meta.open_ended {
            last.push(0);
        }
        let (lower, upper) = (lower.max(meta.key_min.clone()), upper.min(last));
        let values = meta.value_files.len() as u64 * limits::VALUE_FILE_BYTES_MIN as u64;
        let range = FreedRange { lower, upper, number, bytes: meta.bytes + values };
        Self { range, files: vec![meta.file] }
    }

    fn join(&mut self, other: Self) {
        let upper = std::mem::take(&mut self.range.upper);
        self.range.upper = upper.max(other.range.upper);
        self.range.bytes += other.range.bytes;
        self.files.extend(other.files);
    }

    /// Whether at least half of what is in its keys has expired. Where that cannot be read, nothing is done.
    fn is_worth_it(&self, view: &View) -> bool {
        let all = view.disk.approximate_bytes(&self.range.lower, Some(&self.range.upper));
        all.is_ok_and(|all| self.range.bytes >= all / 2)
    }
}

/// What to compact of a keyspace with these ranges: all of it, or those of the ranges that are worth it.
fn choose(keyspace: KeyspaceId, mut ranges: Vec<ExpiredRange>, view: &View) -> Vec<ExpiredRange> {
    ranges.sort_by(|one, other| one.range.lower.cmp(&other.range.lower));
    let (lower, upper) = key::encoded_range(keyspace, &[], None);
    let number = ranges.iter().map(|part| part.range.number).max().unwrap_or_default();
    let bytes = ranges.iter().map(|part| part.range.bytes).sum();
    let files = ranges.iter().flat_map(|part| &part.files).copied().collect();
    let whole = ExpiredRange { range: FreedRange { lower, upper, number, bytes }, files };
    if whole.is_worth_it(view) {
        return vec![whole];
    }
    let mut joined: Vec<ExpiredRange> = Vec::new();
    for part in ranges {
        match joined.last_mut() {
            Some(last) if part.range.lower < last.range.upper => last.join(part),
            _ => joined.push(part),
        }
    }
    joined.retain(|part| part.is_worth_it(view));
    joined
}

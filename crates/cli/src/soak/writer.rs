//! A writer: does its operations one after the other, and reads what it wrote in between. One thread.

use super::Broken;
use super::board::{Board, Total};
use super::held_snapshot::HeldSnapshot;
use super::model::Model;
use super::reading::Reading;
use super::work::{Change, Work};
use alluvium::{Db, WriteBatch, WriteOptions};
use alluvium_bench::random::{Random, scramble};
use std::sync::atomic::{AtomicBool, Ordering};

/// One write in this many is synced; likewise for explicit syncs and flushes.
const SYNC_WRITE_ONE_IN: u64 = 512;
const SYNC_ONE_IN: u64 = 2048;
const FLUSH_ONE_IN: u64 = 1 << 16;
/// Snapshots that a writer holds.
const HELD_MAX: usize = 2;
/// Keys of a scan.
const WINDOW: u64 = 400;

/// What the threads of a child share.
#[derive(Debug)]
pub struct Shared<'a> {
    /// The workload.
    pub work: &'a Work,
    /// The store.
    pub db: &'a Db,
    /// Counters.
    pub board: &'a Board,
    /// Set when it is time to close, or when another thread failed.
    pub stop: &'a AtomicBool,
}

/// One writer.
#[derive(Debug)]
pub struct Writer<'a> {
    shared: &'a Shared<'a>,
    model: Model,
    reading: Reading<'a>,
    held: Vec<HeldSnapshot>,
    changes: Vec<Change>,
    value: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Continues from a model.
    pub fn new(shared: &'a Shared<'a>, model: Model) -> Self {
        let (reading, held) = (Reading::new(shared.work), Vec::new());
        Self { shared, model, reading, held, changes: Vec::new(), value: Vec::new() }
    }

    /// Works until it is time to stop.
    pub fn run(mut self) -> Result<(), Broken> {
        let Shared { work, board, stop, .. } = *self.shared;
        let writer = self.model.writer;
        while !stop.load(Ordering::Relaxed) {
            let count = self.model.done + 1;
            board.begun(writer).store(count, Ordering::Release);
            let durable = self.write(count)?;
            board.acknowledged(writer).store(count, Ordering::Release);
            if durable {
                board.synced(writer).fetch_max(count, Ordering::AcqRel);
            }
            self.model.advance(work, count);
            self.make_durable(count)?;
            let read = self.read(count, &mut work.reads(writer, count));
            read.map_err(|Broken(why)| Broken(format!("after operation {count} of writer {writer}: {why}")))?;
        }
        Ok(())
    }

    /// Does one operation; true if it is durable when it returns.
    fn write(&mut self, count: u64) -> Result<bool, Broken> {
        let Shared { work, db, .. } = *self.shared;
        let writer = self.model.writer;
        self.changes.clear();
        let changes = &mut self.changes;
        work.changes(writer, count, |change| changes.push(change));
        let durable = scramble(count ^ work.seed).is_multiple_of(SYNC_WRITE_ONE_IN);
        let options = if durable { WriteOptions::sync() } else { WriteOptions::default() };
        if let [change] = self.changes[..] {
            let key = self.reading.key(writer, change.key);
            if change.put {
                work.value(writer, count, change.key, &mut self.value);
                db.put_with(key, &self.value, options)?;
            } else {
                db.delete_with(key, options)?;
            }
            return Ok(durable);
        }
        let mut batch = WriteBatch::new();
        for change in &self.changes {
            let key = self.reading.key(writer, change.key).to_vec();
            if change.put {
                work.value(writer, count, change.key, &mut self.value);
                batch.put(key, &self.value);
            } else {
                batch.delete(key);
            }
        }
        db.write_with(batch, options)?;
        Ok(durable)
    }

    /// Sometimes a sync or a flush. It makes everything durable that any writer had acknowledged before it began.
    fn make_durable(&self, count: u64) -> Result<(), Broken> {
        let Shared { work, db, board, .. } = *self.shared;
        let draw = scramble(count.wrapping_add(self.model.writer << 56) ^ !work.seed);
        let (flush, sync) = (draw.is_multiple_of(FLUSH_ONE_IN), draw.is_multiple_of(SYNC_ONE_IN));
        if !flush && !sync {
            return Ok(());
        }
        let before: Vec<u64> =
            (0..work.threads).map(|writer| board.acknowledged(writer).load(Ordering::Acquire)).collect();
        if flush {
            db.flush()?;
            board.add(Total::Flushes, 1);
        } else {
            db.sync()?;
            board.add(Total::Syncs, 1);
        }
        for (writer, acknowledged) in (0..).zip(before) {
            board.synced(writer).fetch_max(acknowledged, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Reads some of its own keys, which no other thread writes, so the answer is known exactly.
    fn read(&mut self, count: u64, random: &mut Random) -> Result<(), Broken> {
        let Shared { db, board, work, .. } = *self.shared;
        let (writer, keys) = (self.model.writer, work.keys_each());
        let key = random.below(keys);
        match random.below(4096) {
            0..1800 => {
                let value = db.get(self.reading.key(writer, key))?;
                self.expect(key, value.as_deref(), "get")?;
                board.add(Total::Gets, 1);
            }
            1800..1860 => self.multi_get(random)?,
            1860..1870 => self.scan(key, random.below(2) == 0)?,
            1870 if self.held.len() < HELD_MAX => {
                self.held.push(HeldSnapshot::take(db, &self.model)?);
                board.add(Total::Snapshots, 1);
            }
            1871..2100 if !self.held.is_empty() => {
                let at = (count % self.held.len() as u64) as usize;
                self.held[at].get(&mut self.reading, key)?;
                if self.held[at].advance(&mut self.reading, 32, random.below(3) == 0)? {
                    self.held.swap_remove(at);
                }
                board.add(Total::Scanned, 32);
            }
            _ => {}
        }
        Ok(())
    }

    fn multi_get(&mut self, random: &mut Random) -> Result<(), Broken> {
        let Shared { db, board, work, .. } = *self.shared;
        let numbers: Vec<u64> = (0..1 + random.below(40)).map(|_| random.below(work.keys_each())).collect();
        let keys: Vec<Vec<u8>> = numbers.iter().map(|key| self.reading.key(self.model.writer, *key).to_vec()).collect();
        let values = db.multi_get(&keys)?;
        for (key, value) in numbers.iter().zip(&values) {
            self.expect(*key, value.as_deref(), "multi_get")?;
        }
        board.add(Total::Gets, values.len() as u64);
        Ok(())
    }

    fn scan(&mut self, from: u64, reversed: bool) -> Result<(), Broken> {
        let Shared { db, board, work, .. } = *self.shared;
        let (writer, to) = (self.model.writer, (from + WINDOW).min(work.keys_each()));
        let lower = self.reading.key(writer, from).to_vec();
        let iter = db.range(lower..self.reading.key(writer, to).to_vec())?;
        let mut found = vec![0; (to - from) as usize];
        let scanned = match reversed {
            true => self.reading.collect(writer, from, true, &mut found, iter.rev())?,
            false => self.reading.collect(writer, from, false, &mut found, iter)?,
        };
        board.add(Total::Scanned, scanned);
        match self.model.difference(&found, from..to) {
            Some(key) => Err(self.wrong(key, found[(key - from) as usize], "scan")),
            None => Ok(()),
        }
    }

    fn expect(&mut self, key: u64, value: Option<&[u8]>, by: &str) -> Result<(), Broken> {
        let found = self.reading.count(self.model.writer, key, value)?;
        if found == self.model.slots[key as usize] { Ok(()) } else { Err(self.wrong(key, found, by)) }
    }

    fn wrong(&self, key: u64, found: u64, by: &str) -> Broken {
        let expected = self.model.slots[key as usize];
        Broken(format!("key {key} has the value of operation {found} by {by}, expected {expected} (0: absent)"))
    }
}

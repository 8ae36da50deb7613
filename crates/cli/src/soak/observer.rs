//! The observer: reads keys while the writers write them. Single-threaded.
//!
//! A read that began after operation `a` of a writer had returned, and ended before its operation `b + 1` began, must
//! show the writer's keys after some number of operations from `a` to `b`: guarantees 1 (gets), 2 and 3 (snapshots).

use super::Broken;
use super::board::Total;
use super::model::Model;
use super::reading::Reading;
use super::writer::Shared;
use alluvium_bench::random::Random;
use std::sync::atomic::Ordering;

/// The most keys of a scan; one scan in `WHOLE_ONE_IN` covers all keys.
const WINDOW: u64 = 5000;
const WHOLE_ONE_IN: u64 = 32;
/// Gets between two scans.
const GETS: u64 = 300;

/// Observes all writers.
#[derive(Debug)]
pub struct Observer<'a> {
    shared: &'a Shared<'a>,
    /// A model of each writer, up to an acknowledged operation.
    models: Vec<Model>,
    reading: Reading<'a>,
    random: Random,
}

impl<'a> Observer<'a> {
    /// Starts with the state at the opening.
    pub fn new(shared: &'a Shared<'a>, models: Vec<Model>, random: Random) -> Self {
        Self { shared, models, reading: Reading::new(shared.work), random }
    }

    /// Runs until it is time to stop.
    pub fn run(mut self) -> Result<(), Broken> {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let writer = self.random.below(self.shared.work.threads);
            for _ in 0..GETS {
                self.get(writer)?;
            }
            self.scan(writer)?;
        }
        Ok(())
    }

    /// Advances a model to the last acknowledged operation.
    fn catch_up(&mut self, writer: u64) -> u64 {
        let Shared { board, work, .. } = *self.shared;
        let acknowledged = board.acknowledged(writer).load(Ordering::Acquire);
        self.models[writer as usize].advance(work, acknowledged);
        acknowledged
    }

    fn get(&mut self, writer: u64) -> Result<(), Broken> {
        let Shared { board, work, db, .. } = *self.shared;
        let acknowledged = self.catch_up(writer);
        // Keys that are being written are the most interesting.
        let mut key = self.random.below(work.keys_each());
        if self.random.below(2) == 0 {
            work.changes(writer, acknowledged + 1, |change| key = change.key);
        }
        let value = db.get(self.reading.key(writer, key))?;
        let found = self.reading.count(writer, key, value.as_deref())?;
        let begun = board.begun(writer).load(Ordering::Acquire);
        board.add(Total::Gets, 1);
        let initial = self.models[writer as usize].slots[key as usize];
        let mut allowed = found == initial;
        for count in acknowledged + 1..=begun {
            let mut after = None;
            work.changes(writer, count, |change| {
                if change.key == key {
                    after = Some(if change.put { count } else { 0 });
                }
            });
            allowed |= after == Some(found);
        }
        if allowed {
            return Ok(());
        }
        Err(Broken(format!(
            "writer {writer}, key {key}: a get that began after operation {acknowledged} returned and ended before {} began \
             has the value of operation {found}; after {acknowledged} it was that of {initial} (0: absent)",
            begun + 1
        )))
    }

    fn scan(&mut self, writer: u64) -> Result<(), Broken> {
        let Shared { board, work, db, .. } = *self.shared;
        let keys = work.keys_each();
        let (from, to) = match self.random.below(WHOLE_ONE_IN) {
            0 => (0, keys),
            _ => {
                let from = self.random.below(keys);
                (from, (from + 1 + self.random.below(WINDOW)).min(keys))
            }
        };
        let reversed = self.random.below(2) == 0;
        let acknowledged = self.catch_up(writer);
        let snapshot = db.snapshot();
        let begun = board.begun(writer).load(Ordering::Acquire);
        let lower = self.reading.key(writer, from).to_vec();
        let iter = snapshot.range(lower..self.reading.key(writer, to).to_vec())?;
        let mut found = vec![0; (to - from) as usize];
        let scanned = match reversed {
            true => self.reading.collect(writer, from, true, &mut found, iter.rev())?,
            false => self.reading.collect(writer, from, false, &mut found, iter)?,
        };
        board.add(Total::Scanned, scanned);
        board.add(Total::Snapshots, 1);
        let model = &mut self.models[writer as usize];
        if model.difference(&found, from..to).is_none() || model.clone().advance_to(work, &found, from..to, begun) {
            return Ok(());
        }
        let key = model.difference(&found, from..to).unwrap_or(from);
        Err(Broken(format!(
            "snapshot at number {}, taken between operations {acknowledged} and {begun} of writer {writer}: keys {from} to {to} \
             match no state between; the first difference to the state after {acknowledged} is key {key}: found the value of \
             operation {}, expected {} (0: absent)",
            snapshot.number(),
            found[(key - from) as usize],
            model.slots[key as usize]
        )))
    }
}

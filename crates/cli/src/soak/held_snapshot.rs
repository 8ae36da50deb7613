//! A snapshot that is held for a long time, and an iterator that advances over it in small steps while the writer
//! continues.

use super::Broken;
use super::model::Model;
use super::reading::Reading;
use super::work::Work;
use alluvium::{Db, Iter, Snapshot};

/// A snapshot of one writer's keys, with their state when it was taken.
#[derive(Debug)]
pub struct HeldSnapshot {
    snapshot: Snapshot,
    model: Model,
    iter: Iter,
    /// The iterator's key; `None` before the first step.
    at: Option<u64>,
}

impl HeldSnapshot {
    /// Called by the writer itself, between two of its operations, so it holds exactly the model's state.
    pub fn take(db: &Db, model: &Model) -> Result<Self, Broken> {
        let snapshot = db.snapshot();
        let iter = snapshot.prefix(Work::prefix(model.writer))?;
        Ok(Self { snapshot, model: model.clone(), iter, at: None })
    }

    /// Checks a get at the snapshot.
    pub fn get(&self, reading: &mut Reading<'_>, key: u64) -> Result<(), Broken> {
        let writer = self.model.writer;
        let value = self.snapshot.get(reading.key(writer, key))?;
        let found = reading.count(writer, key, value.as_deref())?;
        self.expect(key, found, "get")
    }

    /// Advances by some steps, the first optionally backward, and checks each. Returns true at the end.
    pub fn advance(&mut self, reading: &mut Reading<'_>, steps: u64, back: bool) -> Result<bool, Broken> {
        for step in 0..steps {
            let before = self.at.and_then(|at| self.live_before(at));
            let expected = match self.at {
                None => {
                    self.iter.seek_first()?;
                    self.live_from(0)
                }
                Some(_) if back && step == 0 && before.is_some() => {
                    self.iter.step_back()?;
                    before
                }
                Some(at) => {
                    self.iter.step()?;
                    self.live_from(at + 1)
                }
            };
            let writer = self.model.writer;
            let found = self.iter.pair().map(|(key, value)| reading.pair(writer, key, value)).transpose()?;
            if found.map(|(key, _)| key) != expected {
                return Err(Broken(format!(
                    "{}: the iterator behind {:?} stands on {:?}, expected {expected:?}",
                    self.description(),
                    self.at,
                    found.map(|(key, _)| key)
                )));
            }
            let Some((key, count)) = found else { return Ok(true) };
            self.expect(key, count, "iterator")?;
            self.at = Some(key);
        }
        Ok(false)
    }

    fn expect(&self, key: u64, found: u64, by: &str) -> Result<(), Broken> {
        let expected = self.model.slots[key as usize];
        if found == expected {
            return Ok(());
        }
        let description = self.description();
        Err(Broken(format!("{description}: key {key} has the value of operation {found} by {by}, expected {expected}")))
    }

    fn description(&self) -> String {
        let (number, writer, done) = (self.snapshot.number(), self.model.writer, self.model.done);
        format!("snapshot at number {number}, taken by writer {writer} after its operation {done}")
    }

    fn live_from(&self, from: u64) -> Option<u64> {
        (from..self.model.slots.len() as u64).find(|key| self.model.slots[*key as usize] > 0)
    }

    fn live_before(&self, at: u64) -> Option<u64> {
        (0..at).rev().find(|key| self.model.slots[*key as usize] > 0)
    }
}

//! The worker of a mix: chooses operations and keys, one after the other, until its share is done or the time is up.

use crate::choice::{Choice, Chooser};
use crate::engine::{Direction, Result};
use crate::field::Field;
use crate::random::Random;
use crate::tally::Tally;
use crate::values::VERSIONS;
use crate::workload::Mix;
use std::hint::black_box;

/// After this many operations a worker reads the current number of keys again.
const LOOK_EVERY: u64 = 64;
/// The random stream of the background writer, different from those of workers.
const WRITER_STREAM: u64 = 1 << 32;

/// The possible operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Miss,
    Overwrite,
    Insert,
    Delete,
    Scan,
    Modify,
    IfAbsentNew,
    IfAbsentOld,
    Increment,
}

/// Does a worker's share.
pub fn run(field: &Field<'_>, lane: usize, mix: &Mix) -> Result<Tally> {
    let total = field.settings.operations();
    let threads = field.settings.threads as u64;
    let share = total.map(|total| total / threads + u64::from((lane as u64) < total % threads));
    let insertable = if mix.grows() { total.unwrap_or(field.loaded) } else { 0 };
    let choice = mix.choice.unwrap_or(Choice::Uniform);
    let range = (field.loaded / mix.ranges.max(1)).max(1);
    let chooser = |choice| Chooser::new(choice, range, range.saturating_add(insertable));
    let random = Random::new(field.settings.seed, lane as u64 + 1);
    let mut mixer = Mixer::new(field, lane, random, chooser(choice));
    mixer.overwritten = mix.overwrite_choice.map(chooser);
    mixer.first = lane as u64 % mix.ranges.max(1) * range;
    let draw = Draw::new(mix);
    let mut now = mixer.tally.latencies.restart();
    // At least one operation is done, however late the thread gets to run: a point without any has no meaning.
    while share.is_none_or(|share| mixer.tally.ops < share) && (mixer.tally.ops == 0 || !field.stopped(now)) {
        if mix.grows() && mix.ranges <= 1 && mixer.tally.ops.is_multiple_of(LOOK_EVERY) {
            let count = field.acknowledged();
            mixer.chooser.grow(count);
            mixer.overwritten.iter_mut().for_each(|chooser| chooser.grow(count));
        }
        let left = share.map_or(u64::MAX, |share| share - mixer.tally.ops);
        let operation = draw.operation(&mut mixer.random);
        let operations = mixer.perform(operation, mix, left)?;
        let ended = mixer.tally.latencies.lap(operations);
        if matches!(operation, Operation::Read | Operation::Miss) {
            mixer.tally.gets += operations;
            mixer.tally.gets_time += ended.duration_since(now);
        }
        now = ended;
        mixer.tally.ops += operations;
        field.tell(lane, mixer.tally.ops);
    }
    Ok(mixer.tally)
}

/// Overwrites keys until stopped, at least one.
pub fn write_beside(field: &Field<'_>) -> Result<Tally> {
    let chooser = Chooser::new(Choice::Uniform, field.loaded, field.loaded);
    let mut mixer = Mixer::new(field, 0, Random::new(field.settings.seed, WRITER_STREAM), chooser);
    mixer.tally.latencies.restart();
    while mixer.tally.ops == 0 || !field.failed() {
        mixer.overwrite(1)?;
        mixer.tally.ops += 1;
        mixer.tally.latencies.lap(1);
    }
    Ok(mixer.tally)
}

/// Chooses by weight.
struct Draw {
    weights: u64,
    bounds: Vec<(u64, Operation)>,
}

impl Draw {
    fn new(mix: &Mix) -> Self {
        let all = [
            (mix.read, Operation::Read),
            (mix.miss, Operation::Miss),
            (mix.overwrite, Operation::Overwrite),
            (mix.insert, Operation::Insert),
            (mix.delete, Operation::Delete),
            (mix.scan, Operation::Scan),
            (mix.modify, Operation::Modify),
            (mix.if_absent_new, Operation::IfAbsentNew),
            (mix.if_absent_old, Operation::IfAbsentOld),
            (mix.increment, Operation::Increment),
        ];
        let mut weights = 0;
        let mut bounds = Vec::new();
        for (weight, operation) in all.into_iter().filter(|(weight, _)| *weight > 0) {
            weights += u64::from(weight);
            bounds.push((weights, operation));
        }
        Self { weights, bounds }
    }

    #[inline]
    fn operation(&self, random: &mut Random) -> Operation {
        let [(_, only)] = self.bounds[..] else {
            let drawn = random.below(self.weights);
            let found = self.bounds.iter().find(|(bound, _)| drawn < *bound);
            return found.map_or(Operation::Read, |(_, operation)| *operation);
        };
        only
    }
}

struct Mixer<'f, 'a> {
    field: &'f Field<'a>,
    lane: usize,
    random: Random,
    chooser: Chooser,
    /// Chooses the keys that are overwritten, if not `chooser` does.
    overwritten: Option<Chooser>,
    /// The key number that the chooser's first number stands for.
    first: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    tally: Tally,
}

impl<'f, 'a> Mixer<'f, 'a> {
    fn new(field: &'f Field<'a>, lane: usize, random: Random, chooser: Chooser) -> Self {
        let key = vec![0; field.keys.bytes()];
        Self { field, lane, random, chooser, overwritten: None, first: 0, key, value: Vec::new(), tally: Tally::new() }
    }

    /// Does one operation, or a batch of at most `left`; returns their number.
    #[inline]
    fn perform(&mut self, operation: Operation, mix: &Mix, left: u64) -> Result<u64> {
        match operation {
            Operation::Read => self.read()?,
            Operation::Miss => self.miss()?,
            Operation::Overwrite => return self.overwrite((self.field.settings.batch_size as u64).min(left)),
            Operation::Insert => self.insert()?,
            Operation::Delete => self.delete()?,
            Operation::Scan => self.scan(mix.scan_pairs)?,
            Operation::Modify => self.modify()?,
            Operation::IfAbsentNew => self.if_absent_new()?,
            Operation::IfAbsentOld => self.if_absent_old()?,
            Operation::Increment => self.increment()?,
        }
        Ok(1)
    }

    /// The number of a loaded key.
    #[inline]
    fn number(&mut self) -> u64 {
        self.first + self.chooser.pick(&mut self.random)
    }

    /// The number of a loaded key that is overwritten.
    #[inline]
    fn number_to_overwrite(&mut self) -> u64 {
        self.first + self.overwritten.as_ref().unwrap_or(&self.chooser).pick(&mut self.random)
    }

    /// As `number`; also writes the key to the buffer.
    #[inline]
    fn pick(&mut self) -> u64 {
        let number = self.number();
        self.field.keys.write(number, &mut self.key);
        number
    }

    fn read(&mut self) -> Result<()> {
        let number = self.pick();
        let found = self.field.engine.get(&self.key, &mut self.value)?;
        self.got(number, found);
        Ok(())
    }

    fn got(&mut self, number: u64, found: bool) {
        if !found {
            self.tally.not_found += 1;
            return;
        }
        self.tally.found += 1;
        self.tally.bytes_read += (self.key.len() + self.value.len()) as u64;
        if self.field.settings.check && !self.field.values.fits(number, &self.value) {
            self.tally.wrong += 1;
        }
    }

    fn miss(&mut self) -> Result<()> {
        let number = self.number();
        self.field.keys.write_missing(number, &mut self.key);
        match self.field.engine.get(&self.key, &mut self.value)? {
            true => self.tally.found += 1,
            false => self.tally.not_found += 1,
        }
        Ok(())
    }

    fn overwrite(&mut self, count: u64) -> Result<u64> {
        let field = self.field;
        let pair_bytes = (field.keys.bytes() + field.values.bytes()) as u64;
        if count == 1 {
            let number = self.number_to_overwrite();
            field.keys.write(number, &mut self.key);
            field.engine.put(&self.key, field.values.of(number, self.random.below(VERSIONS)))?;
        } else {
            let numbers: Vec<(u64, u64)> =
                (0..count).map(|_| (self.number_to_overwrite(), self.random.below(VERSIONS))).collect();
            let bytes = field.keys.bytes();
            let mut keys = vec![0; bytes * numbers.len()];
            numbers.iter().zip(keys.chunks_exact_mut(bytes)).for_each(|((n, _), key)| field.keys.write(*n, key));
            let pairs = numbers.iter().zip(keys.chunks_exact(bytes));
            let pairs: Vec<(&[u8], &[u8])> =
                pairs.map(|((number, version), key)| (key, field.values.of(*number, *version))).collect();
            field.engine.put_batch(&pairs)?;
        }
        self.tally.bytes_written += count * pair_bytes;
        Ok(count)
    }

    fn insert(&mut self) -> Result<()> {
        let number = self.claim();
        self.field.engine.put(&self.key, self.field.values.of(number, 0))?;
        self.claimed();
        Ok(())
    }

    /// The number of a new key; also writes the key to the buffer.
    fn claim(&mut self) -> u64 {
        let number = self.field.claim(self.lane, 1);
        self.field.keys.write(number, &mut self.key);
        number
    }

    /// The new key is in the store.
    fn claimed(&mut self) {
        self.field.settle(self.lane);
        self.wrote_value();
    }

    fn wrote_value(&mut self) {
        self.tally.bytes_written += (self.key.len() + self.field.values.bytes()) as u64;
    }

    fn if_absent_new(&mut self) -> Result<()> {
        let number = self.claim();
        let put = self.field.engine.put_if_absent(&self.key, self.field.values.of(number, 0))?;
        self.tally.wrong += u64::from(!put);
        self.claimed();
        Ok(())
    }

    fn if_absent_old(&mut self) -> Result<()> {
        let number = self.pick();
        let put = self.field.engine.put_if_absent(&self.key, self.field.values.of(number, 0))?;
        *(if put { &mut self.tally.not_found } else { &mut self.tally.found }) += 1;
        Ok(())
    }

    fn increment(&mut self) -> Result<()> {
        self.pick();
        self.field.engine.increment(&self.key, 1)?;
        self.wrote_value();
        Ok(())
    }

    fn delete(&mut self) -> Result<()> {
        self.pick();
        self.field.engine.delete(&self.key)?;
        self.tally.bytes_written += self.key.len() as u64;
        Ok(())
    }

    fn scan(&mut self, (low, high): (u64, u64)) -> Result<()> {
        let number = self.pick();
        let pairs = low + self.random.below(high.saturating_sub(low) + 1);
        let (check, values, from) = (self.field.settings.check, self.field.values, &self.key);
        let (mut bytes, mut first, mut wrong) = (0, true, 0);
        let visited = self.field.engine.scan(Some(from), Direction::Forward, pairs, &mut |key, value| {
            bytes += (key.len() + value.len()) as u64;
            black_box((key.last(), value.last()));
            // The start key is loaded, so it must come first.
            if check && first && (key != &from[..] || !values.fits(number, value)) {
                wrong += 1;
            }
            first = false;
        })?;
        self.tally.pairs += visited;
        self.tally.bytes_read += bytes;
        self.tally.wrong += wrong + u64::from(check && (visited == 0 || visited > pairs));
        Ok(())
    }

    fn modify(&mut self) -> Result<()> {
        let number = self.pick();
        let field = self.field;
        let version = self.random.below(VERSIONS);
        let mut found = false;
        let (check, mut read, mut wrong) = (field.settings.check, 0, false);
        field.engine.update(&self.key, &mut |old, new| {
            found = old.is_some();
            read = old.map_or(0, |old| old.len() + field.keys.bytes());
            wrong = check && old.is_some_and(|old| !field.values.fits(number, old));
            new.clear();
            new.extend_from_slice(field.values.of(number, version));
            true
        })?;
        *(if found { &mut self.tally.found } else { &mut self.tally.not_found }) += 1;
        self.tally.wrong += u64::from(wrong);
        self.tally.bytes_read += read as u64;
        self.wrote_value();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_come_by_weight() {
        let draw = Draw::new(&Mix { read: 65, insert: 20, modify: 10, delete: 5, ..Mix::default() });
        let mut random = Random::new(1, 0);
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|_| counts[draw.operation(&mut random) as usize] += 1);
        for (at, share) in
            [(Operation::Read, 65), (Operation::Insert, 20), (Operation::Modify, 10), (Operation::Delete, 5)]
        {
            assert!(counts[at as usize].abs_diff(share * 1000) < 700, "{at:?}: {counts:?}");
        }
        assert_eq!(counts.iter().sum::<u32>(), 100_000);
        let only = Draw::new(&Mix { scan: 3, ..Mix::default() });
        assert_eq!(only.operation(&mut random), Operation::Scan);
    }
}

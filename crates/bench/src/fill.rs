//! The worker of a fill: takes chunks of numbers in turn with the others and puts every key once.

use crate::engine::Result;
use crate::field::Field;
use crate::random::Permutation;
use crate::tally::Tally;
use crate::workload::Arrival;

/// Numbers that a worker takes at once. It always puts all of them, so the loaded keys are the numbers below a bound.
const CHUNK: u64 = 64;

/// Puts keys until they are used up or, if their number is unlimited, the time is up.
pub fn run(field: &Field<'_>, lane: usize, arrival: Arrival) -> Result<Tally> {
    let bound = field.settings.fill_keys();
    let permutation = match (arrival, bound) {
        (Arrival::Ascending, _) => None,
        (Arrival::Shuffled, Some(keys)) => Some(Permutation::new(keys, keys)),
        (Arrival::Shuffled, None) => return Err("a shuffled fill needs a number of keys".into()),
    };
    let batch = field.settings.batch_size as u64;
    let chunk = CHUNK.max(batch);
    let mut filler = Filler::new(field, lane);
    let mut now = filler.tally.latencies.restart();
    loop {
        let timed_out = bound.is_none() && field.stopped(now);
        let from = field.claimed();
        if timed_out || field.failed() || bound.is_some_and(|bound| from >= bound) {
            return Ok(filler.tally);
        }
        let from = field.claim(lane, chunk);
        let to = (from + chunk).min(bound.unwrap_or(u64::MAX));
        let mut first = from;
        while first < to {
            let last = (first + batch).min(to);
            let number = |number| permutation.map_or(number, |permutation| permutation.at(number));
            filler.put(first..last, &number)?;
            now = filler.tally.latencies.lap(last - first);
            first = last;
        }
    }
}

struct Filler<'f, 'a> {
    field: &'f Field<'a>,
    lane: usize,
    keys: Vec<u8>,
    tally: Tally,
}

impl<'f, 'a> Filler<'f, 'a> {
    fn new(field: &'f Field<'a>, lane: usize) -> Self {
        let keys = vec![0; field.keys.bytes() * field.settings.batch_size];
        Self { field, lane, keys, tally: Tally::new() }
    }

    fn put(&mut self, places: std::ops::Range<u64>, number: &dyn Fn(u64) -> u64) -> Result<()> {
        let (field, bytes) = (self.field, self.field.keys.bytes());
        let count = places.end - places.start;
        for (place, key) in places.clone().zip(self.keys.chunks_exact_mut(bytes)) {
            field.keys.write(number(place), key);
        }
        if field.settings.batch_size == 1 {
            field.engine.put(&self.keys, field.values.of(number(places.start), 0))?;
        } else {
            let pairs = places.zip(self.keys.chunks_exact(bytes));
            let pairs: Vec<(&[u8], &[u8])> =
                pairs.map(|(place, key)| (key, field.values.of(number(place), 0))).collect();
            field.engine.put_batch(&pairs)?;
        }
        self.tally.ops += count;
        self.tally.bytes_written += count * (bytes + field.values.bytes()) as u64;
        field.tell(self.lane, self.tally.ops);
        Ok(())
    }
}

//! The worker of a full scan. An operation is a pair; a thousand pairs are timed together, since reading the clock
//! takes as long as reading a pair.

use crate::engine::{Direction, Result};
use crate::field::Field;
use crate::tally::Tally;
use std::hint::black_box;

/// Pairs that are timed together.
const LAP: u64 = 1000;

/// Scans the store once, up to `--ops` pairs, or repeatedly until the time is up. A scan is never cut short by time: an
/// engine's scan cannot be stopped from outside.
pub fn run(field: &Field<'_>, lane: usize, direction: Direction) -> Result<Tally> {
    let mut tally = Tally::new();
    let limit = if field.settings.duration.is_some() { u64::MAX } else { field.settings.ops.unwrap_or(u64::MAX) };
    let mut now = tally.latencies.restart();
    loop {
        once(field, lane, direction, limit, &mut tally)?;
        now = tally.latencies.lap(0).max(now);
        if field.deadline.is_none() || field.stopped(now) {
            return Ok(tally);
        }
    }
}

/// Scans the store repeatedly until stopped; finishes the current scan.
pub fn scan_beside(field: &Field<'_>) -> Result<Tally> {
    let mut tally = Tally::new();
    while !field.failed() {
        let mut bytes = 0;
        let mut in_time = 0;
        let visited = field.engine.scan(None, Direction::Forward, u64::MAX, &mut |key, value| {
            bytes += (key.len() + value.len()) as u64;
            black_box((key.last(), value.last()));
            // Pairs that are read after the others are done are not counted.
            in_time += u64::from(!field.failed());
        })?;
        tally.ops += in_time;
        tally.pairs += visited;
        tally.bytes_read += bytes;
        tally.wrong += u64::from(field.settings.check && visited != field.loaded);
    }
    Ok(tally)
}

fn once(field: &Field<'_>, lane: usize, direction: Direction, limit: u64, tally: &mut Tally) -> Result<()> {
    let check = field.settings.check;
    let mut last: Vec<u8> = Vec::new();
    let mut in_lap = 0;
    let visited = field.engine.scan(None, direction, limit, &mut |key, value| {
        tally.bytes_read += (key.len() + value.len()) as u64;
        black_box((key.last(), value.last()));
        if check {
            let in_order = match direction {
                Direction::Forward => &last[..] < key,
                Direction::Backward => &last[..] > key || last.is_empty(),
            };
            tally.wrong += u64::from(!in_order || value.len() != field.values.bytes());
            last.clear();
            last.extend_from_slice(key);
        }
        in_lap += 1;
        if in_lap == LAP {
            tally.latencies.lap(LAP);
            in_lap = 0;
            tally.ops += LAP;
            field.tell(lane, tally.ops);
        }
    })?;
    if in_lap > 0 {
        tally.latencies.lap(in_lap);
        tally.ops += in_lap;
        field.tell(lane, tally.ops);
    }
    tally.pairs += visited;
    let expected = field.loaded.min(limit);
    tally.wrong += u64::from(check && visited != expected);
    Ok(())
}

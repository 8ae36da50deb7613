//! The cost of measuring: the same work on an engine that does nothing, in processor time of one thread.

use crate::engine::{Direction, Engine, Figures, Result};
use crate::field::Field;
use crate::keys::Keys;
use crate::settings::Settings;
use crate::values::Values;
use crate::workload::{Job, Workload};
use crate::{fill, mix, process};

/// Operations of a round of calibration, about a millisecond.
const OPERATIONS: u64 = 20_000;
const ROUNDS: u32 = 3;

/// Nanoseconds per operation of the harness itself: choosing it, its key and value, the call through the trait, the
/// clock, the histogram. 0 for a full scan, whose pairs are timed by the thousand, and for a
/// recovery.
pub fn harness_ns(settings: &Settings, keys: Keys, values: &Values, loaded: u64, workload: &Workload) -> Result<f64> {
    let alone =
        Settings { num: Some(OPERATIONS), ops: None, duration: None, threads: 1, check: false, ..settings.clone() };
    let first = if workload.fills() { 0 } else { loaded };
    let mut least = f64::INFINITY;
    // The first round warms the caches; the minimum is the least disturbed one.
    for _ in 0..ROUNDS {
        let field = Field::new(&Nothing, &alone, keys, values, loaded.max(1), first);
        let before = process::thread_cpu_time();
        let tally = match &workload.job {
            Job::Fill { arrival, .. } => fill::run(&field, 0, *arrival)?,
            Job::Mix(mix) => mix::run(&field, 0, mix)?,
            Job::FullScan(_) | Job::Recovery | Job::Rest => return Ok(0.0),
        };
        let took = process::thread_cpu_time() - before;
        least = least.min(took.as_nanos() as f64 / tally.ops.max(1) as f64);
    }
    Ok(least)
}

/// An engine that does nothing.
struct Nothing;

impl Engine for Nothing {
    fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn put_batch(&self, _: &[(&[u8], &[u8])]) -> Result<()> {
        Ok(())
    }

    fn delete(&self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn get(&self, _: &[u8], _: &mut Vec<u8>) -> Result<bool> {
        Ok(true)
    }

    fn scan(&self, _: Option<&[u8]>, _: Direction, _: u64, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        Ok(0)
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn figures(&self) -> Figures {
        Figures::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{NAMES, named};
    use crate::keys::Order;

    #[test]
    fn every_workload_has_a_cost_that_is_small() {
        let (settings, values) = (Settings::default(), Values::new(100));
        for (name, _) in NAMES {
            let keys = Keys::new(Order::Random, 8);
            let cost = harness_ns(&settings, keys, &values, 1000, &named(name, &settings).unwrap()).unwrap();
            let has_none = ["readseq", "readreverse", "rest"].contains(&name);
            // Tests run unoptimized, beside others: the bound only detects a harness that allocates or sleeps.
            assert!((cost == 0.0) == has_none && cost < 20_000.0, "{name}: {cost} ns");
        }
    }
}

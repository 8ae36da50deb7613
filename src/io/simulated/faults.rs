//! Counts operations and decides which faults apply. Plain data under the disk's lock.

use super::fault::{Effect, Errno, Fault, Part};
use super::operation::Operation;
use super::random::Random;

/// All faults and all counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Each with the number of operations that have matched so far.
    faults: Vec<(Fault, u64)>,
    counts: [u64; Operation::ALL.len()],
    total: u64,
}

/// What happens to an operation.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// The process dies.
    pub(super) crash: bool,
    /// The error that it ends with.
    pub(super) failure: Option<(Errno, Option<Part>)>,
    /// The other effects, in order.
    pub(super) effects: Vec<Effect>,
}

impl Faults {
    pub(super) fn add(&mut self, fault: Fault) {
        self.faults.push((fault, 0));
    }

    /// Removes the faults; counts continue.
    pub(super) fn clear(&mut self) {
        self.faults.clear();
    }

    pub(super) fn count(&self, operation: Operation) -> u64 {
        self.counts[operation as usize]
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Counts an operation and decides what happens to it.
    pub(super) fn judge(&mut self, operation: Operation, name: &str, random: &mut Random) -> Verdict {
        let mut verdict = Verdict::default();
        self.faults.retain_mut(|(fault, fitted)| {
            let fits = (fault.operations.is_empty() || fault.operations.contains(&operation)) && fault.name.fits(name);
            if !fits {
                return true;
            }
            *fitted += 1;
            let always = fault.per_million == 1_000_000;
            let strikes = *fitted >= fault.from && (always || random.below(1_000_000) < u64::from(fault.per_million));
            if strikes {
                match fault.effect {
                    Effect::Crash => verdict.crash = true,
                    Effect::Fail(errno, part) => verdict.failure = verdict.failure.or(Some((errno, part))),
                    effect => verdict.effects.push(effect),
                }
            }
            fault.through.is_none_or(|through| *fitted < through)
        });
        if !verdict.crash {
            self.counts[operation as usize] += 1;
            self.total += 1;
        }
        verdict
    }
}

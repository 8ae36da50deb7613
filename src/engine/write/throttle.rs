//! Slows writers while background work lags: collects the inputs from which `backpressure` computes the delay. Any
//! thread.

use super::backpressure::{BackgroundSpeed, DelayRate, Fullness, WorkDone, fullness, garbage_fullness};
use super::writer_threads::{ThreadState, WriteCounters, WriterThreads};
use crate::disk::Component;
use crate::engine::durable_log::DurableLog;
use crate::engine::memory::generations::Generations;
use crate::engine::read::read_path::ReadPath;
use crate::engine::resources::write_limits::WriteLimits;
use crate::engine::shared_components::SharedComponents;
use crate::engine::state::budget::{Budget, DEBT_LIMIT, DEBT_START, GENERATIONS_MAX};
use crate::io::Clock;
use crate::memory::Memtable;
use crate::util::SequenceNumber;
use crate::util::planted::planted;
use crate::util::sync::Arc;

/// See the module.
pub(crate) struct Throttle {
    pub(crate) speed: BackgroundSpeed,
    pub(crate) write_limits: WriteLimits,
    read: Arc<ReadPath>,
    generations: Arc<Generations>,
    disk: Arc<Component>,
    threads: Arc<WriterThreads>,
    clock: Arc<dyn Clock>,
    budget: Budget,
    /// The first number of this opening of the store.
    start: SequenceNumber,
}

impl Throttle {
    pub(crate) fn new(
        shared: &SharedComponents,
        generations: &Arc<Generations>,
        log: &DurableLog,
        threads: &Arc<WriterThreads>,
        write_limits: WriteLimits,
    ) -> Arc<Self> {
        Arc::new(Self {
            speed: BackgroundSpeed::default(),
            write_limits,
            read: Arc::clone(&shared.read),
            generations: Arc::clone(generations),
            disk: Arc::clone(&shared.disk),
            threads: Arc::clone(threads),
            clock: Arc::clone(&shared.scheduler.clock),
            budget: shared.budget,
            start: log.start,
        })
    }

    /// Delays a write of `bytes` if background work lags.
    pub(super) fn slow_down(&self, thread: &mut ThreadState, bytes: u64) {
        planted!(Bug::GenerationsWithoutBound => { return });
        let slept = thread.delay.delay(bytes, &*self.clock, || self.delay_rate());
        if slept > 0 {
            self.generations.delays.note_slowed(slept);
            WriteCounters::add(&thread.counters.slowed_writes, 1);
            WriteCounters::add(&thread.counters.slowed_ns, slept);
            if thread.delay.is_for_garbage() {
                WriteCounters::add(&thread.counters.garbage_slowed_writes, 1);
                WriteCounters::add(&thread.counters.garbage_slowed_ns, slept);
            }
        }
    }

    /// The current rate at which writes are delayed.
    fn delay_rate(&self) -> DelayRate {
        self.speed.delay_rate(self.fullness(), self.write_limits.lowest(), || {
            let written = self.disk.written();
            WorkDone {
                user: self.user_bytes_through(self.generations.incorporated()),
                incorporated: written.incorporated_bytes,
                compacted: written.compacted_bytes,
                workers: self.budget.workers as u64,
            }
        })
    }

    /// About how many bytes users have written from the opening of the store up to a number.
    fn user_bytes_through(&self, number: SequenceNumber) -> u64 {
        let (start, last) = (self.start.0, self.read.sequencer.last_relaxed().0);
        let bytes = self.threads.sum(|counters| &counters.user_bytes);
        let numbers = last.saturating_sub(start).max(1);
        (u128::from(bytes) * u128::from(number.0.min(last).saturating_sub(start)) / u128::from(numbers)) as u64
    }

    /// About how many bytes users have written in these numbers; 0 for numbers from before the opening.
    pub(crate) fn user_bytes_between(&self, before: SequenceNumber, end: SequenceNumber) -> u64 {
        self.user_bytes_through(end).saturating_sub(self.user_bytes_through(before))
    }

    /// How full memory is, and how far the tree's debt, runs and garbage have grown towards their limits.
    pub(crate) fn fullness(&self) -> Fullness {
        let view = self.read.view.load();
        let size = self.budget.memtable as u64;
        // Small generations count like large ones: the number of generations is limited, too.
        let part =
            |memtable: &Memtable| memtable.bytes() as u128 * u128::from(size) / memtable.soft_bytes().max(1) as u128;
        let memory = view.generations.iter().map(|generation| part(&generation.memtable) as u64).sum();
        let in_memory = fullness(memory, size * (GENERATIONS_MAX as u64 + 1) / 2, size * GENERATIONS_MAX as u64);
        let unit = self.disk.branch_bytes().max(size);
        let debt = fullness(view.disk.debt(), unit * DEBT_START, unit * DEBT_LIMIT);
        let runs = view.disk.newest_runs();
        let runs = runs.map_or(0, |runs| fullness(runs.count as u64, runs.limit as u64, runs.bound as u64));
        let tree = debt.max(runs);
        let garbage = garbage_fullness(view.disk.garbage(), view.disk.bytes(), unit);
        Fullness { memory: in_memory, tree, garbage }
    }
}

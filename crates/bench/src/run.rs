//! Runs the threads of one workload: workers, the background thread, the sampler, the control thread; then waits for
//! background work. Takes all measurements around them.

use crate::control::{self, Found};
use crate::engine::{Engine, Result};
use crate::field::Field;
use crate::outcome::Sample;
use crate::progress::Progress;
use crate::tally::Tally;
use crate::workload::{Beside, Job, Workload};
use crate::{fill, full_scan, mix, process, series, space_samples};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The result of a run.
#[derive(Debug)]
pub struct Ran {
    /// Of all workers.
    pub tally: Tally,
    /// Of the background thread.
    pub beside: Option<Tally>,
    /// Throughput over time.
    pub series: Vec<Sample>,
    /// Of the operations.
    pub elapsed: Duration,
    /// Processor time in it, minus that of the control thread and of the file samples.
    pub cpu: Duration,
    /// The longest gap that the control thread saw.
    pub control_gap: Duration,
    /// Size of all files per live byte during the run, mean and peak; only of workloads that overwrite or insert.
    pub space: Option<(f64, f64)>,
}

/// Runs a workload's operations. `space` returns the bytes that all files take.
pub fn run(
    field: &Field<'_>,
    workload: &Workload,
    progress: &dyn Progress,
    space: &(dyn Fn() -> Option<u64> + Sync),
) -> Result<Ran> {
    let cpu_before = process::cpu_time();
    let control_stop = AtomicBool::new(false);
    let (sampler_end, sampler_stop) = channel::<()>();
    let (space_end, space_stop) = channel::<()>();
    let rewrites = matches!(&workload.job, Job::Mix(mix) if mix.rewrites());
    std::thread::scope(|scope| {
        let settings = field.settings;
        let control = scope.spawn(|| control::run(settings.control, &control_stop));
        let sampler = scope.spawn(move || {
            series::record(settings.sample_every, sampler_stop, &|| field.done(), &|done| progress.done(done))
        });
        let look = || Some(space()? as f64 / field.live_bytes()? as f64);
        let watching =
            rewrites.then(|| scope.spawn(move || space_samples::take(settings.sample_every, &space_stop, &look)));
        let beside = match &workload.job {
            Job::Mix(mix) => mix.beside,
            _ => None,
        };
        let beside = beside.map(|what| {
            let work = match what {
                Beside::Writer => mix::write_beside,
                Beside::Scanner => full_scan::scan_beside,
            };
            scope.spawn(move || guarded(field, work))
        });
        let work = |lane| move || guarded(field, |field| worker(field, lane, workload));
        let workers: Vec<_> = (0..settings.threads).map(|lane| scope.spawn(work(lane))).collect();
        // All threads are joined before an error is returned: none may continue to use the store.
        let tallies: Vec<Result<Tally>> = workers.into_iter().map(joined).collect();
        let elapsed = field.started.elapsed();
        field.stop();
        let beside = beside.map(joined);
        drop((sampler_end, space_end));
        control_stop.store(true, Ordering::Relaxed);
        let Found { gap, cpu } = control.join().unwrap_or_default();
        let series = sampler.join().unwrap_or_default();
        let seen = watching.and_then(|watching| watching.join().ok()).unwrap_or_default();
        let cpu = (process::cpu_time() - cpu_before).saturating_sub(cpu + seen.cpu);
        let mut tally = Tally::new();
        for worker in tallies {
            tally.merge(&worker?);
        }
        let beside = beside.transpose()?;
        Ok(Ran { tally, beside, series, elapsed, cpu, control_gap: gap, space: seen.mean_and_peak })
    })
}

fn worker(field: &Field<'_>, lane: usize, workload: &Workload) -> Result<Tally> {
    match &workload.job {
        Job::Fill { arrival, .. } => fill::run(field, lane, *arrival),
        Job::Mix(mix) => mix::run(field, lane, mix),
        Job::FullScan(direction) => full_scan::run(field, lane, *direction),
        Job::Rest => rest(field, lane),
        Job::Recovery => Err("a recovery is no work for threads".into()),
    }
}

/// One of the threads waits.
fn rest(field: &Field<'_>, lane: usize) -> Result<Tally> {
    let mut tally = Tally::new();
    if lane == 0 {
        tally.latencies.restart();
        field.engine.rest()?;
        tally.latencies.lap(1);
        tally.ops = 1;
    }
    Ok(tally)
}

/// A worker that fails stops the others.
fn guarded<'a>(field: &Field<'a>, work: impl FnOnce(&Field<'a>) -> Result<Tally>) -> Result<Tally> {
    let result = work(field);
    if result.is_err() {
        field.stop();
    }
    result
}

fn joined(thread: ScopedJoinHandle<'_, Result<Tally>>) -> Result<Tally> {
    thread.join().unwrap_or_else(|_| Err("a worker panicked".into()))
}

/// Waits for background work; returns its duration and processor time.
pub fn settle(engine: &dyn Engine) -> Result<(Duration, Duration)> {
    let (cpu_before, started) = (process::cpu_time(), Instant::now());
    engine.settle()?;
    Ok((started.elapsed(), process::cpu_time() - cpu_before))
}

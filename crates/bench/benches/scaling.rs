//! Predicts how puts, gets and a mix of both scale to 64 cores, from what one core measures here:
//! `cargo bench -p alluvium-bench --bench scaling [-- OPTIONS]`. `alluvium_bench::scaling` has the model, `docs/scaling.md` its
//! assumptions and results.
//!
//! A run confines the whole process's store, with its background threads, to one core, and later to two, to check the
//! prediction. The time of an operation is processor time, so other programs disturb only the measured throughput.

use alluvium::{Db, Options};
use alluvium_bench::process::{cpu_time, thread_cpu_time};
use alluvium_bench::random::{Random, scramble};
use alluvium_bench::scaling::{Costs, Limit, Machine, Prediction, predictions};
use alluvium_bench::settings::positive;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Data and Memtables fit, since the model has no reads of the disk. (With 256 MiB a tenth of the gets beside puts were such.)
const MEMORY_BUDGET: u64 = 1 << 30;
/// Operations between two looks at the end of a run.
const BATCH: u64 = 64;
/// Other programs disturb long rounds, so the shortest of many counts.
const ROUNDS: usize = 100;
const HANDOVERS: u64 = 10_000;

/// Predicts how puts, gets and a mix of both scale to 64 cores, from what one core measures here (docs/scaling.md).
#[derive(Clone, Debug, clap::Parser, Serialize)]
struct Settings {
    /// Seconds of each run
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    seconds: f64,

    /// Pairs in the store
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pairs: u64,

    /// Bytes of a value
    #[arg(long, default_value_t = 100)]
    value_bytes: usize,

    /// Nanoseconds in which a cache line goes from one core to another [default: measured]
    #[arg(long, value_parser = positive)]
    transfer_ns: Option<f64>,

    /// Shared lines that a put moves, as `tests/costs/shared_lines.rs` finds them
    #[arg(long, default_value_t = 1.0)]
    put_transfers: f64,

    /// The same of a get
    #[arg(long, default_value_t = 0.0)]
    get_transfers: f64,

    /// Megabytes that the disk writes in a second [default: no limit]
    #[arg(long, value_parser = positive)]
    disk_mb_per_s: Option<f64>,

    /// Threads for background work [default: no limit]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    background_threads: Option<u32>,

    /// Where the stores are made
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,

    /// Print results as JSON
    #[arg(long)]
    json: bool,

    /// Cargo adds it.
    #[arg(long, hide = true)]
    #[serde(skip)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    Puts,
    Gets,
    Mix,
}

const WORK: [Work; 3] = [Work::Puts, Work::Gets, Work::Mix];

/// What a run has measured.
#[derive(Clone, Debug, Serialize)]
struct Measured {
    cores: usize,
    per_second: f64,
    foreground_ns: f64,
    background_ns: f64,
    written_bytes: f64,
}

/// The cores that this process may use.
fn allowed() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect()
}

/// Confines the calling thread, and those that it starts, to some cores.
fn confine(cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    sched_setaffinity(None, &set).unwrap();
}

/// The time in which a core that waits for a line gets it from another one, and writes to it: two cores hand it to and
/// fro. This is what a put does with the line of the sequence counter, which it reads and then adds to.
fn measured_transfer_ns(cores: &[usize]) -> f64 {
    (0..ROUNDS).map(|_| transfer_ns_of_round(cores)).fold(f64::INFINITY, f64::min)
}

fn transfer_ns_of_round(cores: &[usize]) -> f64 {
    #[repr(align(128))]
    struct Line(AtomicU64);
    let line = Line(AtomicU64::new(0));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (side, core) in cores.iter().enumerate().take(2) {
            let line = &line.0;
            scope.spawn(move || {
                confine(&[*core]);
                for turn in (side as u64..HANDOVERS).step_by(2) {
                    while line.load(Ordering::Acquire) != turn {
                        std::hint::spin_loop();
                    }
                    line.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
    });
    started.elapsed().as_nanos() as f64 / HANDOVERS as f64
}

fn key(number: u64) -> [u8; 8] {
    scramble(number).to_be_bytes()
}

/// One thread's operations until `end`. Returns their number and the processor time that they took.
fn operate(db: &Db, work: Work, settings: &Settings, thread: usize, end: &AtomicBool) -> (u64, Duration) {
    let (value, mut out) = (vec![thread as u8; settings.value_bytes], Vec::new());
    let mut random = Random::new(7, thread as u64);
    let (started, mut operations) = (thread_cpu_time(), 0);
    while !end.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            let bits = random.bits();
            let key = key((bits >> 1) % settings.pairs);
            if work == Work::Puts || (work == Work::Mix && bits & 1 == 0) {
                db.put(key, &value).unwrap();
            } else {
                assert!(db.get_into(key, &mut out).unwrap());
            }
        }
        operations += BATCH;
    }
    (operations, thread_cpu_time() - started)
}

/// Runs one kind of work on a new store, with one thread on each of these cores.
fn run(work: Work, cores: &[usize], settings: &Settings) -> Measured {
    let directory = tempfile::tempdir_in(&settings.dir).unwrap();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            confine(cores);
            run_confined(work, cores.len(), settings, directory.path())
        });
        run.join().unwrap()
    })
}

fn run_confined(work: Work, cores: usize, settings: &Settings, directory: &Path) -> Measured {
    // Threads of its own, which inherit the cores.
    let options = Options::new().memory_budget(MEMORY_BUDGET).background_threads(cores.max(2));
    let db = Db::open(directory, options).unwrap();
    let value = vec![0; settings.value_bytes];
    (0..settings.pairs).for_each(|number| db.put(key(number), &value).unwrap());
    db.flush().unwrap();
    db.settle().unwrap();
    let mut out = Vec::new();
    (0..settings.pairs).for_each(|number| assert!(db.get_into(key(number), &mut out).unwrap()));
    let written = || {
        let stats = db.stats();
        stats.logged_bytes + stats.incorporated_bytes + stats.compacted_bytes
    };
    let (end, written_before) = (AtomicBool::new(false), written());
    let (started, process_before) = (Instant::now(), cpu_time());
    let (operations, foreground) = std::thread::scope(|scope| {
        let operate = |thread| {
            let (db, end) = (&db, &end);
            scope.spawn(move || operate(db, work, settings, thread, end))
        };
        let threads: Vec<_> = (0..cores).map(operate).collect();
        std::thread::sleep(Duration::from_secs_f64(settings.seconds));
        end.store(true, Ordering::Relaxed);
        let results = threads.into_iter().map(|thread| thread.join().unwrap());
        results.fold((0, Duration::ZERO), |(operations, time), (more, took)| (operations + more, time + took))
    });
    let (elapsed, process) = (started.elapsed(), cpu_time() - process_before);
    let each = |total: f64| total / operations as f64;
    Measured {
        cores,
        per_second: operations as f64 / elapsed.as_secs_f64(),
        foreground_ns: each(foreground.as_nanos() as f64),
        background_ns: each(process.saturating_sub(foreground).as_nanos() as f64),
        written_bytes: each((written() - written_before) as f64),
    }
}

/// Predictions for one kind of work, and what was measured to check them.
#[derive(Debug, Serialize)]
struct Report {
    work: Work,
    costs: Costs,
    predictions: Vec<Prediction>,
    measured: Vec<Measured>,
}

#[derive(Debug, Serialize)]
struct Output {
    settings: Settings,
    machine: Machine,
    reports: Vec<Report>,
}

fn costs_of(measured: &Measured, transfers: f64) -> Costs {
    Costs {
        private_ns: measured.foreground_ns,
        background_ns: measured.background_ns,
        transfers: vec![transfers],
        written_bytes: measured.written_bytes,
    }
}

fn print(report: &Report) {
    let Report { work, costs, predictions, measured } = report;
    println!(
        "\n{work:?}: {:.0} ns in the calling thread, {:.0} ns in the background, {} transfers, {:.0} bytes written",
        costs.private_ns, costs.background_ns, costs.transfers[0], costs.written_bytes
    );
    println!(
        "{:>6} {:>16} {:>8}  {:<20} {:>16} {:>11}",
        "cores", "predicted/s", "speedup", "limit", "measured/s", "difference"
    );
    for Prediction { cores, per_second, speedup, limit } in predictions {
        let limit = match limit {
            Limit::Cores => "cores",
            Limit::SharedLine => "shared line",
            Limit::BackgroundThreads => "background threads",
            Limit::Disk => "disk",
        };
        let check = measured.iter().find(|measured| measured.cores == *cores as usize);
        let check = check.map_or(String::new(), |found| {
            format!("{:>16.0} {:>+10.0}%", found.per_second, (per_second / found.per_second - 1.0) * 100.0)
        });
        println!("{cores:>6} {per_second:>16.0} {speedup:>8.2}  {limit:<20} {check}");
    }
}

fn main() {
    let settings = <Settings as clap::Parser>::parse();
    let cores = allowed();
    let transfer_ns = settings.transfer_ns.unwrap_or_else(|| {
        assert!(cores.len() > 1, "a transfer between cores cannot be measured on one core: pass --transfer-ns");
        measured_transfer_ns(&cores)
    });
    let machine = Machine {
        transfer_ns,
        disk_bytes_per_s: settings.disk_mb_per_s.map(|megabytes| megabytes * 1e6),
        background_threads: settings.background_threads,
    };
    if !settings.json {
        println!("a transfer of a line between two cores takes {transfer_ns:.0} ns");
    }
    let of_one: Vec<Measured> = WORK.iter().map(|work| run(*work, &cores[..1], &settings)).collect();
    let (put, get) = (costs_of(&of_one[0], settings.put_transfers), costs_of(&of_one[1], settings.get_transfers));
    let mut reports = Vec::new();
    for (work, one) in WORK.into_iter().zip(of_one) {
        let costs = match work {
            Work::Puts => put.clone(),
            Work::Gets => get.clone(),
            // Not measured, but computed: so the mix of one core is a check, too.
            Work::Mix => put.mixed(0.5, &get),
        };
        let mut measured = vec![one];
        if cores.len() > 1 {
            measured.push(run(work, &cores[..2], &settings));
        }
        let report = Report { work, predictions: predictions(&costs, &machine), costs, measured };
        if !settings.json {
            print(&report);
        }
        reports.push(report);
    }
    if settings.json {
        println!("{}", serde_json::to_string_pretty(&Output { settings, machine, reports }).unwrap());
    }
}

//! How long other threads wait for a thread that is stopped at random moments, by what they do:
//! `cargo bench -p alluvium-bench --bench stopped [-- OPTIONS]`. `docs/papers.md`, Progress, says what it should come to.
//!
//! A child process has a store, a thread that works without a pause, the *victim*, and another thread that runs one kind
//! of operation and measures each, the *observer*. The parent stops the victim by `ptrace`, lets it work for a quarter of
//! that time, and so on. For comparison each observer is measured beside a victim that sleeps for as long, but between two
//! of its operations.

#[cfg(target_os = "linux")]
mod stopped {
    use alluvium::{Db, Options, WriteBatch, WriteOptions};
    use alluvium_bench::random::{Random, scramble};
    use alluvium_bench::settings::positive;
    use clap::Parser;
    use nix::sys::ptrace;
    use nix::sys::wait::{WaitPidFlag, waitpid};
    use nix::unistd::Pid;
    use serde::{Deserialize, Serialize};
    use std::io::{BufRead, BufReader, Write};
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// How long other threads wait for a thread that is stopped at random moments, by what they do. All 28 pairs of victim and
    /// observer take 56 times the seconds. Held up: longer than half a stop.
    #[derive(Parser)]
    struct Arguments {
        /// Seconds for each pair of victim and observer, twice
        #[arg(long, default_value_t = 5.0, value_parser = positive)]
        seconds: f64,

        /// Milliseconds for which the victim is stopped each time
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
        stop_ms: u64,

        /// Where the stores are made
        #[arg(long, default_value_os_t = std::env::temp_dir())]
        dir: PathBuf,

        /// Print results as JSON
        #[arg(long)]
        json: bool,

        /// What a child process does
        #[arg(long, hide = true)]
        child: Option<String>,

        /// Cargo adds it.
        #[arg(long, hide = true)]
        bench: bool,
    }

    const PAIRS: u64 = 100_000;
    const VALUE: &[u8] = &[7; 100];
    /// Of the argument that makes a process the child.
    const CHILD: &str = "--child";

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Victim {
        /// Overwrites keys with an even number.
        Puts,
        /// Writes ten such keys at once.
        Batches,
        /// Takes snapshots and drops them.
        Snapshots,
        /// Reads pairs in order.
        Scans,
    }

    const VICTIMS: [Victim; 4] = [Victim::Puts, Victim::Batches, Victim::Snapshots, Victim::Scans];

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Observer {
        /// Keys with an odd number, which the victim never writes.
        Put,
        Get,
        /// The keys that the victim writes.
        GetOfItsKeys,
        /// A kept iterator, which has its snapshot.
        Seek,
        Snapshot,
        /// A put that is synced.
        SyncedPut,
        /// A switch of generations, and waiting until all is on the disk.
        Flush,
    }

    const OBSERVERS: [Observer; 7] = [
        Observer::Put,
        Observer::Get,
        Observer::GetOfItsKeys,
        Observer::Seek,
        Observer::Snapshot,
        Observer::SyncedPut,
        Observer::Flush,
    ];

    /// What a child measures: one kind of observer beside one kind of victim.
    #[derive(Clone, Debug, Serialize, Deserialize)]
    struct Job {
        victim: Victim,
        observer: Observer,
        seconds: f64,
        stop_ms: u64,
        /// Otherwise it sleeps by itself.
        is_stopped: bool,
        directory: PathBuf,
    }

    /// What it has measured.
    #[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
    struct Measured {
        operations: u64,
        p50_us: f64,
        longest_ms: f64,
        /// Operations that took longer than half of a stop.
        held_up: u64,
    }

    #[derive(Clone, Debug, Serialize)]
    struct Row {
        victim: Victim,
        observer: Observer,
        stops: u64,
        beside_stops: Measured,
        beside_sleeps: Measured,
    }

    fn key(number: u64) -> [u8; 8] {
        scramble(number).to_be_bytes()
    }

    fn put(db: &Db, number: u64) {
        db.put(key(number), VALUE).unwrap();
    }

    /// A number below `PAIRS`, even or odd as `parity` is.
    fn number(random: &mut Random, parity: u64) -> u64 {
        (random.bits() >> 1) % (PAIRS / 2) * 2 + parity
    }

    fn be_the_victim(db: &Db, job: &Job, end: &AtomicBool) {
        let mut random = Random::new(7, 0);
        let mut pairs = (job.victim == Victim::Scans).then(|| db.iter().unwrap());
        let stop = Duration::from_millis(job.stop_ms);
        let mut awake = Instant::now();
        while !end.load(Ordering::Relaxed) {
            if !job.is_stopped && awake.elapsed() > stop / 4 {
                std::thread::sleep(stop);
                awake = Instant::now();
            }
            match job.victim {
                Victim::Puts => put(db, number(&mut random, 0)),
                Victim::Batches => {
                    let mut batch = WriteBatch::new();
                    for _ in 0..10 {
                        batch.put(key(number(&mut random, 0)), VALUE);
                    }
                    db.write(batch).unwrap();
                }
                Victim::Snapshots => drop(db.snapshot()),
                Victim::Scans => {
                    if pairs.as_mut().and_then(Iterator::next).transpose().unwrap().is_none() {
                        pairs = Some(db.iter().unwrap());
                    }
                }
            }
        }
    }

    fn observe(db: &Db, job: &Job) -> Measured {
        let (mut random, mut out) = (Random::new(7, 1), Vec::new());
        let mut pairs = (job.observer == Observer::Seek).then(|| db.iter().unwrap());
        let mut times: Vec<u64> = Vec::new();
        let until = Instant::now() + Duration::from_secs_f64(job.seconds);
        loop {
            let started = Instant::now();
            if started >= until {
                break;
            }
            match job.observer {
                Observer::Put => put(db, number(&mut random, 1)),
                Observer::Get => assert!(db.get_into(key(number(&mut random, 1)), &mut out).unwrap()),
                Observer::GetOfItsKeys => assert!(db.get_into(key(number(&mut random, 0)), &mut out).unwrap()),
                Observer::Seek => {
                    if let Some(pairs) = &mut pairs {
                        pairs.seek(key(random.bits() % PAIRS)).unwrap();
                        let _ = pairs.next().transpose().unwrap();
                    }
                }
                Observer::Snapshot => drop(db.snapshot()),
                Observer::SyncedPut => {
                    db.put_with(key(number(&mut random, 1)), VALUE, WriteOptions::sync()).unwrap();
                }
                Observer::Flush => {
                    put(db, number(&mut random, 1));
                    db.flush().unwrap();
                }
            }
            times.push(started.elapsed().as_nanos() as u64);
        }
        times.sort_unstable();
        let held_up = job.stop_ms * 1_000_000 / 2;
        Measured {
            operations: times.len() as u64,
            p50_us: times[times.len() / 2] as f64 / 1e3,
            longest_ms: times[times.len() - 1] as f64 / 1e6,
            held_up: times.iter().filter(|time| **time > held_up).count() as u64,
        }
    }

    struct Ends<'a>(&'a AtomicBool);

    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// The child: prints the victim's thread, and at the end what it has measured.
    fn be_the_child(job: &Job) {
        let db = Db::open(&job.directory, Options::new().memory_budget(1u64 << 30)).unwrap();
        (0..PAIRS).for_each(|number| put(&db, number));
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                println!("{}", nix::unistd::gettid());
                be_the_victim(&db, job, &end);
            });
            // So that the victim ends whatever happens here.
            let _ends = Ends(&end);
            let measured = observe(&db, job);
            println!("{}", serde_json::to_string(&measured).unwrap());
            std::io::stdout().flush().unwrap();
            // Until the parent no longer stops the victim.
            std::io::stdin().read_line(&mut String::new()).unwrap();
        });
    }

    /// Runs a job in a child, and stops its victim again and again. Returns what it measured, and the number of stops.
    fn run(job: &Job) -> (Measured, u64) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(CHILD)
            .arg(serde_json::to_string(job).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let victim = Pid::from_raw(lines.next().unwrap().unwrap().parse().unwrap());
        let is_done = AtomicBool::new(false);
        let (measured, stops) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let line = lines.next();
                is_done.store(true, Ordering::Relaxed);
                serde_json::from_str(&line.expect("the child has failed").unwrap()).unwrap()
            });
            let mut stops = 0;
            if job.is_stopped {
                let stop = Duration::from_millis(job.stop_ms);
                ptrace::seize(victim, ptrace::Options::empty()).unwrap();
                while !is_done.load(Ordering::Relaxed) {
                    std::thread::sleep(stop / 4);
                    ptrace::interrupt(victim).unwrap();
                    waitpid(victim, Some(WaitPidFlag::__WALL)).unwrap();
                    std::thread::sleep(stop);
                    ptrace::cont(victim, None).unwrap();
                    stops += 1;
                }
                ptrace::interrupt(victim).unwrap();
                waitpid(victim, Some(WaitPidFlag::__WALL)).unwrap();
                ptrace::detach(victim, None).unwrap();
            }
            (reader.join().unwrap(), stops)
        });
        // `wait` closes the input of the child, which ends it.
        assert!(child.wait().unwrap().success());
        (measured, stops)
    }

    fn measure(job: Job) -> Row {
        let Job { victim, observer, .. } = job;
        let fresh = |directory: &Path| {
            let _ = std::fs::remove_dir_all(directory);
        };
        fresh(&job.directory);
        let (beside_sleeps, _) = run(&Job { is_stopped: false, ..job.clone() });
        fresh(&job.directory);
        let (beside_stops, stops) = run(&job);
        fresh(&job.directory);
        Row { victim, observer, stops, beside_stops, beside_sleeps }
    }

    pub fn main() {
        let Arguments { seconds, stop_ms, dir, json, child, .. } = Arguments::parse();
        if let Some(job) = child {
            return be_the_child(&serde_json::from_str(&job).unwrap());
        }
        let directory = tempfile::tempdir_in(dir).unwrap();
        if !json {
            println!(
                "{:<10} {:<16} {:>10} {:>9} {:>6} {:>8} {:>11} {:>14} {:>14}",
                "victim",
                "observer",
                "operations",
                "p50, us",
                "stops",
                "held up",
                "longest, ms",
                "asleep: held up",
                "longest, ms"
            );
        }
        for victim in VICTIMS {
            for observer in OBSERVERS {
                let directory = directory.path().join("store");
                let row = measure(Job { victim, observer, seconds, stop_ms, is_stopped: true, directory });
                if json {
                    println!("{}", serde_json::to_string(&row).unwrap());
                    continue;
                }
                let found = row.beside_stops;
                println!(
                    "{:<10} {:<16} {:>10} {:>9.2} {:>6} {:>8} {:>11.2} {:>14} {:>14.2}",
                    format!("{victim:?}"),
                    format!("{observer:?}"),
                    found.operations,
                    found.p50_us,
                    row.stops,
                    found.held_up,
                    found.longest_ms,
                    row.beside_sleeps.held_up,
                    row.beside_sleeps.longest_ms
                );
            }
        }
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    stopped::main();
    #[cfg(not(target_os = "linux"))]
    println!("stopping one thread of a process needs Linux");
}

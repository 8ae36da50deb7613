//! A store with tiny budgets, and threads that do one run after another on it. Between runs no thread writes: the last
//! operations of a run read the store in every way, and its contents are the initial state of the next run. So a fault
//! of an earlier run that shows only after a later incorporation is found, too.

use super::checker::{THREADS_MAX, check};
use super::history::{History, Operation, Value};
use super::plan::{Keys, Shape, Step};
use super::recorder::{NAME, Recorder};
use super::report::report;
use super::shrink::shrink;
use super::stalls::{self, Stalls};
use super::values::decode;
use crate::support::{Last, Random, tiny};
use alluvium::internals::open_small;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, MemoryComponent, Snapshot};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

/// The largest number of snapshots that are held over several runs, so that writers meet pinned numbers.
const OLD_SNAPSHOTS_MAX: usize = 3;

/// The figures of a world's runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub histories: u64,
    pub operations: u64,
    /// The pairs of concurrent operations of two threads.
    pub overlaps: u64,
    pub incorporations: u64,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.operations += other.operations;
        self.overlaps += other.overlaps;
        self.incorporations += other.incorporations;
    }
}

/// What a thread did, or something that no history may contain.
type Outcome = Result<Vec<Operation>, String>;

/// The state that the main thread and the workers share.
struct Board {
    ticks: AtomicU64,
    /// The steps of the next run; empty at the end.
    plan: Mutex<Arc<Vec<Vec<Step>>>>,
    seed: AtomicU64,
    start: Barrier,
    end: Barrier,
    /// How often a thread has reached a barrier in this run.
    arrivals: AtomicUsize,
    done: Mutex<Vec<(usize, Outcome)>>,
    broken: AtomicBool,
}

/// Runs some histories; an error describes the first bad one.
pub fn run(seed: u64, histories: u64) -> Result<Tally, String> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let shape = Shape::draw(&mut random);
    assert!(shape.threads < THREADS_MAX);
    let mut options = tiny().background_threads(1 + random.below(2) as usize).memory_component(if random.one_in(4) {
        MemoryComponent::Skiplist
    } else {
        MemoryComponent::TwoLevel
    });
    if shape.merges {
        options = options.merge_operator(Last { joins: shape.joins });
    }
    // Sometimes a real disk; sometimes larger budgets, so that several runs overwrite the data of one generation.
    let directory = random.one_in(16).then(|| tempfile::tempdir().unwrap());
    let others = stalls::background_threads();
    let disk = SimulatedStorage::new(seed);
    let opened = match (&directory, random.below(8)) {
        (Some(directory), _) => Db::open(directory.path(), options),
        (None, size @ 0..4) => {
            let memory_budget = [320 << 10, 1 << 20, 4 << 20, 16 << 20][size as usize];
            Db::open_with(Arc::new(disk.clone()), options.memory_budget(memory_budget))
        }
        (None, _) => open_small(Arc::new(disk.clone()), options),
    };
    let db = opened.map_err(|error| format!("the store does not open: {error}"))?;
    let _background = shape.stalls.then(|| stalls::of_background(others));
    let board = Board {
        ticks: AtomicU64::new(1),
        plan: Mutex::default(),
        seed: AtomicU64::new(0),
        start: Barrier::new(shape.threads + 1),
        end: Barrier::new(shape.threads + 1),
        arrivals: AtomicUsize::new(0),
        done: Mutex::default(),
        broken: AtomicBool::new(false),
    };
    let outcome = std::thread::scope(|scope| {
        for thread in 0..shape.threads {
            let (db, shape, board) = (&db, &shape, &board);
            scope.spawn(move || work(db, shape, board, thread));
        }
        let mut main = Main {
            db: &db,
            shape: &shape,
            board: &board,
            disk: &disk,
            random,
            old_snapshots: Vec::new(),
            tally: Tally::default(),
        };
        let outcome = caught(|| main.all(histories));
        // An empty plan ends the threads.
        *board.plan.lock().unwrap() = Arc::default();
        board.start.wait();
        outcome.map(|()| main.tally)
    });
    let mut tally = outcome.map_err(|error| format!("{error}\nworld {seed}: {shape}"))?;
    tally.incorporations = db.stats().incorporations;
    db.verify().map_err(|error| format!("verify: {error}\nworld {seed}: {shape}"))?;
    db.close().map_err(|error| format!("the store does not close: {error}"))?;
    Ok(tally)
}

/// Turns a panic into an error, so that the other threads do not wait forever for a thread that panicked.
fn caught(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("a thread panicked: {}", message.unwrap_or("unknown message")))
    })
}

/// The loop of a thread: one run after another.
fn work(db: &Db, shape: &Shape, board: &Board, thread: usize) {
    let stalls = shape.stalls.then(|| Stalls::new(thread as u64));
    loop {
        board.start.wait();
        let plan = Arc::clone(&board.plan.lock().unwrap());
        let Some(steps) = plan.get(thread) else { return };
        let mut random = Random(board.seed.load(Ordering::Relaxed) + thread as u64);
        if let Some(stalls) = &stalls {
            stalls.begin(10_000 + random.below(200_000));
        }
        let mut recorder = Recorder::new(db, shape, &board.ticks, random.next());
        let outcome = caught(|| go_through(&mut recorder, steps, board, shape.threads));
        if let Some(stalls) = &stalls {
            stalls.stop();
        }
        if outcome.is_err() {
            board.broken.store(true, Ordering::Relaxed);
        }
        let outcome = outcome.map(|()| recorder.finish());
        board.done.lock().unwrap().push((thread, outcome));
        board.end.wait();
    }
}

fn go_through(recorder: &mut Recorder<'_>, steps: &[Step], board: &Board, threads: usize) -> Result<(), String> {
    let mut meetings = 0;
    for step in steps {
        if !matches!(step, Step::Meet) {
            recorder.step(step)?;
            continue;
        }
        meetings += 1;
        board.arrivals.fetch_add(1, Ordering::SeqCst);
        // Two processors spin until the same moment; further threads must yield.
        let mut rounds = 0;
        while board.arrivals.load(Ordering::SeqCst) < meetings * threads && !board.broken.load(Ordering::Relaxed) {
            rounds += 1;
            if rounds % 64 == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
    Ok(())
}

struct Main<'a> {
    db: &'a Db,
    shape: &'a Shape,
    board: &'a Board,
    /// The simulated disk. A store on it uses its clock; a store on a real disk does not.
    disk: &'a SimulatedStorage,
    random: Random,
    old_snapshots: Vec<(Snapshot, Vec<Value>)>,
    tally: Tally,
}

impl Main<'_> {
    fn all(&mut self, histories: u64) -> Result<(), String> {
        let mut initial = vec![Value::ABSENT; self.shape.keys.names.len()];
        let mut next = Value::FIRST;
        for at in 0..histories {
            let last = self.one(initial, &mut next).map_err(|error| format!("in history {at}: {error}"))?;
            self.change_old_snapshots(&last)?;
            initial = last;
        }
        Ok(())
    }

    /// Does one run and returns the state after it.
    fn one(&mut self, initial: Vec<Value>, next: &mut u32) -> Result<Vec<Value>, String> {
        let board = self.board;
        *board.plan.lock().unwrap() = Arc::new(self.shape.plan(&mut self.random, next));
        board.seed.store(self.random.next() >> 8, Ordering::Relaxed);
        board.arrivals.store(0, Ordering::Relaxed);
        // Makes periodic work due, such as the version cleanup for dropped snapshots.
        self.disk.advance(Duration::from_millis(60));
        board.start.wait();
        let unchanged = self.check_old_snapshot();
        board.end.wait();
        let mut done = std::mem::take(&mut *board.done.lock().unwrap());
        done.sort_by_key(|(thread, _)| *thread);
        let mut threads = done.into_iter().map(|(_, outcome)| outcome).collect::<Result<Vec<_>, _>>()?;
        unchanged?;
        threads.push(self.read_all()?);
        let history = History { initial, threads };
        self.tally.histories += 1;
        self.tally.operations += history.len() as u64;
        self.tally.overlaps += overlaps(&history);
        check(&history).map_err(|violation| {
            let smallest = shrink(&history);
            let why = check(&smallest).err().map_or(violation.why, |violation| violation.why);
            format!("not linearizable: {why}\n{}", report(&smallest))
        })?;
        let (values, _) = contents(&self.db.snapshot(), &self.shape.keys)?;
        Ok(values)
    }

    /// Reads everything in every way, while no thread writes.
    fn read_all(&self) -> Result<Vec<Operation>, String> {
        let mut recorder = Recorder::new(self.db, self.shape, &self.board.ticks, 0);
        (0..self.shape.keys.names.len()).try_for_each(|key| recorder.step(&Step::Get(key)))?;
        for (range, back) in self.shape.keys.whole().flat_map(|range| [(range, false), (range, true)]) {
            recorder.step(&Step::Scan { held: true, range, back })?;
        }
        Ok(recorder.finish())
    }

    /// Reads an earlier snapshot, which must be unchanged, while the other threads write.
    fn check_old_snapshot(&mut self) -> Result<(), String> {
        if self.old_snapshots.is_empty() {
            return Ok(());
        }
        let chosen = self.random.below(self.old_snapshots.len() as u64) as usize;
        let (snapshot, state) = &self.old_snapshots[chosen];
        let (got, scanned) = contents(snapshot, &self.shape.keys)?;
        for (by, found) in [("scan", scanned), ("get", got)] {
            if let Some(key) = (0..state.len()).find(|key| found[*key] != state[*key]) {
                let (was, found, number) = (state[key], found[key], snapshot.number());
                return Err(format!(
                    "the snapshot at {number} has changed: k{key} was {was:?}, a {by} finds {found:?}"
                ));
            }
        }
        Ok(())
    }

    /// Takes and drops snapshots between the runs.
    fn change_old_snapshots(&mut self, state: &[Value]) -> Result<(), String> {
        if self.random.one_in(3) && !self.old_snapshots.is_empty() {
            let gone = self.random.below(self.old_snapshots.len() as u64) as usize;
            self.old_snapshots.swap_remove(gone);
        }
        if self.random.one_in(3) && self.old_snapshots.len() < OLD_SNAPSHOTS_MAX {
            let snapshot = self.db.snapshot();
            self.old_snapshots.push((snapshot, state.to_vec()));
        }
        Ok(())
    }
}

/// The values of all keys at a snapshot, by gets and by scans.
fn contents(snapshot: &Snapshot, keys: &Keys) -> Result<(Vec<Value>, Vec<Value>), String> {
    let failed = |error: alluvium::Error| format!("a snapshot cannot be read: {error}");
    let (mut got, mut scanned) = (Vec::new(), Vec::new());
    for range in keys.whole() {
        let within = if keys.range(range).0 { snapshot.keyspace(NAME) } else { Ok(Some(snapshot.clone())) };
        let within = within.map_err(failed)?;
        let pairs: Vec<_> = match &within {
            Some(within) => within.iter().and_then(Iterator::collect).map_err(failed)?,
            None => Vec::new(),
        };
        for name in keys.in_range(range).into_iter().map(|key| &keys.names[key]) {
            let found = within.as_ref().map_or(Ok(None), |within| within.get(name)).map_err(failed)?;
            got.push(decode(found.as_deref())?);
            let found = pairs.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..]);
            scanned.push(decode(found)?);
        }
    }
    Ok((got, scanned))
}

fn overlaps(history: &History) -> u64 {
    let mut count = 0;
    for (at, thread) in history.threads.iter().enumerate() {
        for other in history.threads[at + 1..].iter().flatten() {
            count += thread.iter().filter(|one| one.call < other.ret && other.call < one.ret).count() as u64;
        }
    }
    count
}

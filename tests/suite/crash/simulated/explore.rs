//! Tries every death of a run: before each of its I/O operations the store dies, is recovered and checked, and gets
//! further writes. It also dies during its recovery.
//!
//! A run is executed once, on a disk that records an image before every operation. Then the store dies in several ways
//! at each image. A seed reproduces the run, the choices and the failure.

use super::death::Death;
use super::promise::Promise;
use super::step::{Step, print};
use super::world::{Grown, Strikes, Tree, World, contents, open, write};
use crate::support::Random;
use alluvium::storage::Storage;
use alluvium::storage::simulated::{CrashPoint, SimulatedStorage};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How much is tried. Of a count that means "one in n", 1 means all.
#[derive(Clone, Debug)]
pub struct Plan {
    /// One in n crash points is tried.
    pub points: u64,
    /// The number of power cuts at each crash point, in addition to a kill.
    pub cuts: u64,
    /// At one in n crash points the store also dies in the rarer ways.
    pub rare_deaths: u64,
    /// One in n recoveries is itself a run: the store dies again before each of its operations.
    pub during_recovery: u64,
    /// How deep recoveries are nested.
    pub depth: u32,
    /// One in n recovered stores gets more writes and dies again.
    pub go_on: u64,
    /// Faults of the disk during the run, such as the kernel's own writeback.
    pub faults: &'static str,
    /// Whether the log is written through mappings.
    pub mapped: bool,
    /// Whether the tree has maplets.
    pub maplets: bool,
    /// The sizes of the tree's parts.
    pub tree: Tree,
    /// The number of operations at the start of each run before the deaths begin.
    pub spared: usize,
}

/// How much was tried.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Crash points tried.
    pub points: u64,
    /// Recoveries checked.
    pub recoveries: u64,
    /// Recoveries of stores with maplet files.
    pub mapped: u64,
    /// Recoveries of stores whose tree has more than one node.
    pub grown: u64,
    /// Recoveries of stores with keys that wait in memory: they were made again.
    pub rebuilt: u64,
    /// What the stores were doing when they died.
    pub deaths: Strikes,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.points += other.points;
        self.recoveries += other.recoveries;
        self.mapped += other.mapped;
        self.grown += other.grown;
        self.rebuilt += other.rebuilt;
        self.deaths.add(other.deaths);
    }
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Failure {
    seed: u64,
    steps: Vec<Step>,
    trail: Vec<String>,
    what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, {} operations: {}", self.seed, self.steps.len(), print(&self.steps))?;
        self.trail.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        write!(f, "  {}", self.what)
    }
}

/// Tries the deaths of a run.
pub fn explore(steps: &[Step], seed: u64, plan: &Plan) -> Result<Tally, Failure> {
    let mut explorer = Explorer { plan, random: Random(seed ^ 0x5eed), tally: Tally::default(), trail: Vec::new() };
    let done = catch_unwind(AssertUnwindSafe(|| explorer.run(steps, seed)));
    let done = done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        Err(format!("panic: {}", text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")))
    });
    match done {
        Ok(()) => Ok(explorer.tally),
        Err(what) => Err(Failure { seed, steps: steps.to_vec(), trail: explorer.trail, what }),
    }
}

struct Explorer<'a> {
    plan: &'a Plan,
    random: Random,
    tally: Tally,
    /// The place in the run, for the message of a failure.
    trail: Vec<String>,
}

type Checked = Result<(), String>;

impl Explorer<'_> {
    fn run(&mut self, steps: &[Step], seed: u64) -> Checked {
        let disk = SimulatedStorage::new(seed);
        disk.set_maps_safely(self.plan.mapped);
        disk.record_crashes();
        self.trail.push("opening".into());
        let settings = (self.plan.maplets, self.plan.tree);
        let mut world = World::open(disk, Promise::default(), self.plan.faults, settings)?;
        if self.plan.spared == 0 {
            self.points(&world.disk, &Promise::default())?;
        }
        world.disk.crash_points();
        for (at, &step) in steps.iter().enumerate() {
            self.trail = vec![format!("operation {}, {step}", at + 1)];
            let during = world.promise_during(step, at);
            let (before, points) = (Grown::of(world.db()), self.tally.points);
            world.apply(step, at)?;
            if at < self.plan.spared {
                world.disk.crash_points();
                continue;
            }
            self.points(&world.disk, &during)?;
            self.tally.deaths.note(before, Grown::of(world.db()), self.tally.points - points);
        }
        self.trail = vec!["at the end".into()];
        world.check()?;
        // Nothing is in progress any more.
        world.disk.crash_points();
        self.deaths(&world.disk.clone_disk(), &world.promise)
    }

    fn points(&mut self, disk: &SimulatedStorage, during: &Promise) -> Checked {
        for CrashPoint { operation, name, disk } in disk.crash_points() {
            if self.random.one_in(self.plan.points) {
                self.trail.push(format!("before: {operation} {name}"));
                self.deaths(&disk, during)?;
                self.trail.pop();
            }
        }
        Ok(())
    }

    /// Every death of a crash point.
    fn deaths(&mut self, image: &SimulatedStorage, during: &Promise) -> Checked {
        self.tally.points += 1;
        let mut deaths = vec![Death::Kill];
        deaths.extend((0..self.plan.cuts).map(|_| Death::PowerCut(self.random.next() % 10_000)));
        if self.random.one_in(self.plan.rare_deaths) {
            let lost = Death::MountLost(self.random.next() % 10_000);
            deaths.extend([Death::KillUnknown, Death::KillForced, Death::Remount, lost]);
        }
        deaths.into_iter().try_for_each(|death| self.die(image, death, during, 0))
    }

    fn die(&mut self, image: &SimulatedStorage, death: Death, during: &Promise, depth: u32) -> Checked {
        self.tally.recoveries += 1;
        let names = image.list().map_err(|error| error.to_string())?;
        self.tally.mapped += u64::from(names.iter().any(|name| name.ends_with(".maplet")));
        self.trail.push(format!("after {death}"));
        let disk = death.strike(&image.clone_disk());
        // On a full disk an opening may lack space, which is not tested here.
        disk.set_capacity(None);
        let promise = if death.loses_unsynced() { during.clone().after_power_loss() } else { during.clone() };
        let again = depth < self.plan.depth && self.random.one_in(self.plan.during_recovery);
        if again {
            disk.record_crashes();
        }
        let db = open(&disk, death.options(self.plan.maplets), self.plan.tree)
            .map_err(|error| format!("the store does not open: {error}"))?;
        let grown = Grown::of(&db);
        self.tally.grown += u64::from(grown.height > 0);
        self.tally.rebuilt += u64::from(grown.buffer_bytes > 0);
        let found = contents(&db)?;
        promise.prefix(&found, promise.acknowledged)?;
        db.verify().map_err(|error| format!("verify: {error}"))?;
        for point in disk.crash_points() {
            self.trail.push(format!("recovering, before: {} {}", point.operation, point.name));
            let cut = Death::PowerCut(self.random.next() % 10_000);
            self.die(&point.disk, Death::Kill, &promise, depth + 1)?;
            self.die(&point.disk, cut, &promise, depth + 1)?;
            self.trail.pop();
        }
        if self.random.one_in(self.plan.go_on) {
            self.go_on(disk, db, Promise::of(found))?;
        }
        self.trail.pop();
        Ok(())
    }

    /// Recovered writes are durable, new writes have the usual promises, and cut writes do not come back.
    fn go_on(
        &mut self,
        disk: SimulatedStorage,
        db: alluvium::internals::DeterministicDb,
        mut promise: Promise,
    ) -> Checked {
        let key = self.random.below(u64::from(super::step::KEYS)) as u8;
        let steps =
            [Step::Put(key), Step::Batch(key + 1), Step::Sync, Step::Put(key + 2), Step::Flush, Step::Delete(key)];
        let count = 1 + self.random.below(steps.len() as u64) as usize;
        self.trail.push(format!("going on with {}", print(&steps[..count])));
        for (at, &step) in steps[..count].iter().enumerate() {
            let done = match step.changes(1000 + at) {
                Some(changes) => {
                    promise.begin(changes.clone());
                    promise.acknowledge();
                    write(&db, &changes, step)
                }
                None => {
                    promise.sync();
                    if step == Step::Sync { db.sync() } else { db.flush() }
                }
            };
            done.map_err(|error| format!("{step} failed: {error}"))?;
        }
        let death = if self.random.one_in(2) { Death::Kill } else { Death::PowerCut(self.random.next() % 10_000) };
        self.trail.push(format!("after {death}"));
        let disk = death.strike(&disk);
        drop(db);
        let at_least = if death.loses_unsynced() { promise.synced } else { promise.acknowledged };
        let db = open(&disk, death.options(self.plan.maplets), self.plan.tree)
            .map_err(|error| format!("the store does not open: {error}"))?;
        promise.prefix(&contents(&db)?, at_least)?;
        db.verify().map_err(|error| format!("verify: {error}"))?;
        self.trail.truncate(self.trail.len() - 2);
        Ok(())
    }
}

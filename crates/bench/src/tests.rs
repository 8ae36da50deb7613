//! Whole sessions on small stores: every named workload, counts, checks, errors.

use crate::catalogue::{NAMES, list, named};
use crate::choice::Choice;
use crate::engine::{Component, Direction, Engine, EngineOptions, Factory, Figures, LevelKnobs, Result};
use crate::keys::{Keys, Order};
use crate::outcome::{Outcome, Source};
use crate::workload::{Job, Mix, Workload};
use crate::{Alluvium, AlluviumStriped, Session, Settings, counter};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

fn small() -> Settings {
    let engine = EngineOptions { memory: Some(16 << 20), ..EngineOptions::default() };
    Settings { num: Some(2000), check: true, engine, ..Settings::default() }
}

fn run(factory: &dyn Factory, names: &str, settings: &Settings) -> Result<Vec<Outcome>> {
    let directory = tempfile::tempdir()?;
    let mut session = Session::new(factory, directory.path().join("store"), settings.clone())?;
    let outcomes = list(names, settings)?.iter().map(|workload| session.run(workload, &())).collect();
    session.finish()?;
    assert!(!directory.path().join("store").exists());
    outcomes
}

fn fill_only(name: &str) -> bool {
    name.starts_with("fill") || name == "load"
}

#[test]
fn every_workload_runs_and_reads_what_was_loaded() {
    for threads in [1, 3] {
        for (name, _) in NAMES {
            let counts = name.starts_with("increment") || name == "counters";
            let value_size = if counts { counter::BYTES } else { 100 };
            let settings = Settings { threads, value_size, check: !counts, ..small() };
            let fill = if fill_only(name) { name.to_string() } else { format!("fillrandom,{name}") };
            let outcome =
                run(&Alluvium, &fill, &settings).unwrap_or_else(|error| panic!("{name}: {error}")).pop().unwrap();
            assert_eq!((outcome.workload.as_str(), outcome.threads, outcome.wrong), (name, threads, 0));
            let expected_ops = match name {
                "readseq" | "readreverse" => 2000 * threads as u64,
                "rest" => 1,
                _ => 2000,
            };
            assert_eq!(outcome.ops, expected_ops, "{name}");
            // Of one operation all are the same time, and the units are converted with rounding.
            let longest_us = outcome.max_ms * 1e3 * 1.000_001;
            let is_ordered = outcome.p50_us <= outcome.p99_us && outcome.p99_us <= longest_us;
            assert!(outcome.ops_per_s > 0.0 && is_ordered, "{outcome:?}");
            assert!(outcome.cpu_us_per_op >= outcome.cpu_us_per_op_run && outcome.space_amp > 0.5, "{outcome:?}");
            // A fill has no live bytes at first, and a workload that only reads changes nothing.
            let puts = !fill_only(name) && !name.starts_with("read") && !["seekrandom", "rest", "c"].contains(&name);
            assert_eq!(outcome.files_mean.is_some(), puts || name.ends_with("whilewriting"), "{outcome:?}");
            if let (Some(mean), Some(peak)) = (outcome.files_mean, outcome.files_peak) {
                assert!(mean > 1.0 && mean <= peak * 1.000_001, "{outcome:?}");
            }
            let inserted = match name {
                "d" | "e" => 50..160,
                "putifabsent" => 900..1100,
                _ => 0..1,
            };
            assert!(inserted.contains(&(outcome.num - 2000)), "{name}: {}", outcome.num);
            assert!(!outcome.series.is_empty() && outcome.peak_rss_mb > 1.0, "{outcome:?}");
            // Gets are timed apart from the operations among them.
            let gets = ["readrandom", "readmissing", "readwhilewriting", "counters", "a", "b", "c", "d", "f", "skewed"];
            assert_eq!(outcome.get_mean_us.is_some(), gets.contains(&name), "{name}");
            assert!(outcome.get_mean_us.is_none_or(|mean| 0.0 < mean && mean <= longest_us), "{name}: {outcome:?}");
        }
    }
}

#[test]
fn orders_batches_and_sizes_change_nothing_in_what_is_found() {
    for (key_size, value_size, batch_size) in [(3, 0, 1), (8, 100, 100), (24, 3000, 7)] {
        let settings = Settings { key_size, value_size, batch_size, threads: 2, ..small() };
        for fill in ["fillseq", "fillrandom", "fillnear:50"] {
            if key_size < 8 && fill.starts_with("filln") {
                assert!(run(&Alluvium, fill, &settings).is_err());
                continue;
            }
            let outcomes =
                run(&Alluvium, &format!("{fill},readrandom,readmissing,overwrite,readseq"), &settings).unwrap();
            let [load, read, miss, overwrite, walk] = &outcomes[..] else { panic!("{outcomes:?}") };
            let bytes = 2000 * (key_size + value_size) as u64;
            assert_eq!((load.ops, load.user_bytes_written), (2000, bytes));
            assert_eq!((read.found, read.not_found, read.user_bytes_read), (2000, 0, bytes));
            assert_eq!((miss.found, miss.not_found), (0, 2000));
            assert_eq!((overwrite.ops, overwrite.user_bytes_written), (2000, bytes));
            assert_eq!((walk.pairs_scanned, walk.user_bytes_read), (2 * 2000, 2 * bytes));
            assert!(load.write_amp > Some(0.5) && load.log_amp > Some(0.5), "{load:?}");
            assert_eq!((load.write_amp_source, read.write_amp), (Source::Engine, None));
        }
    }
}

#[test]
fn time_bounds_a_run_and_the_writer_beside_ends_with_it() {
    let duration = Some(Duration::from_millis(250));
    let settings = Settings { duration, sample_every: Duration::from_millis(20), ..small() };
    let outcomes = run(&Alluvium, "fillrandom,readwhilewriting,readseq,d,writewhilescanning", &settings).unwrap();
    assert_eq!(outcomes[0].num, 2000, "a fill with a number loads it whatever the time");
    for outcome in &outcomes[1..] {
        // The upper bounds are loose: other tests may use the cores.
        assert!((0.25..20.0).contains(&outcome.elapsed_s), "{}: {}", outcome.workload, outcome.elapsed_s);
        assert!(outcome.series.len() >= 2 && outcome.ops > 100, "{}: {}", outcome.workload, outcome.ops);
    }
    assert!(outcomes[1].background_ops > 0 && outcomes[1].user_bytes_written > 0);
    let writer = (outcomes[1].background_p50_us.unwrap(), outcomes[1].background_p99_us.unwrap());
    assert!(0.0 < writer.0 && writer.0 <= writer.1 && outcomes[3].background_p50_us.is_none(), "{writer:?}");
    assert!(outcomes[3].num > 2000);
    assert!(outcomes[4].background_ops >= 2000 && outcomes[4].pairs_scanned == 0, "{:?}", outcomes[4]);
    let endless = Settings { num: None, duration, check: true, ..Settings::default() };
    let outcomes = run(&Alluvium, "fillrandom,readrandom", &endless).unwrap();
    assert!(outcomes[0].num > 100 && outcomes[0].num == outcomes[0].ops && outcomes[1].not_found == 0);
}

#[test]
fn the_same_seed_gives_the_same_work() {
    let work = |seed| {
        let map = Shared::default();
        run(&map, "fillrandom,a", &Settings { seed, ..small() }).unwrap();
        map.0.lock().unwrap().clone()
    };
    assert_eq!(work(1), work(1));
    assert_ne!(work(1), work(2));
}

#[test]
fn what_cannot_run_is_refused_and_nothing_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("thesis.txt"), "years").unwrap();
    let refused = |settings: &Settings, path: &Path| match Session::new(&Alluvium, path, settings.clone()) {
        Ok(_) => panic!("not refused"),
        Err(error) => error.to_string(),
    };
    assert!(refused(&small(), directory.path()).contains("not empty"));
    let existing = Settings { use_existing: true, ..small() };
    assert!(refused(&existing, &directory.path().join("absent")).contains("no store"));
    assert!(refused(&Settings { threads: 0, ..small() }, &directory.path().join("absent")).contains("threads"));
    assert!(directory.path().join("thesis.txt").exists());
    assert!(run(&Alluvium, "readrandom", &small()).unwrap_err().to_string().contains("fillrandom,readrandom"));
}

#[test]
fn an_existing_store_is_used_and_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut session = Session::new(&Alluvium, &path, small()).unwrap();
    session.run(&named("fillseq", &small()).unwrap(), &()).unwrap();
    drop(session);
    let settings = Settings { use_existing: true, order: Order::Sequential, ..small() };
    let mut session = Session::new(&Alluvium, &path, settings.clone()).unwrap();
    assert_eq!(session.run(&named("readrandom", &settings).unwrap(), &()).unwrap().found, 2000);
    session.finish().unwrap();
    assert!(path.exists());
}

/// A map in place of a store: it may lose, change or refuse.
#[derive(Default)]
struct Shared(std::sync::Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>, Fault);

/// What a store writes to its directory when it is closed.
const CLOSED: &str = "closed";

#[derive(Clone, Copy, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    Loses,
    Changes,
    Refuses,
}

#[derive(Default)]
pub struct Map {
    pairs: std::sync::Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>,
    fault: Fault,
    directory: Option<PathBuf>,
}

impl Map {
    fn of(shared: &Shared, directory: &Path) -> Self {
        Self { pairs: shared.0.clone(), fault: shared.1, directory: Some(directory.to_path_buf()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if let Some(directory) = &self.directory {
            // Some tests have removed the directory by now.
            let _ = std::fs::write(directory.join(CLOSED), "");
        }
    }
}

impl Factory for Shared {
    fn name(&self) -> &str {
        "map"
    }

    fn open(&self, directory: &Path, _: &EngineOptions) -> Result<Box<dyn Engine>> {
        assert!(!directory.join(CLOSED).exists(), "these are the files of a closed store");
        Ok(Box::new(Map::of(self, directory)))
    }
}

impl Engine for Map {
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let last = key.last().copied().unwrap_or(0);
        match self.fault {
            Fault::Loses if last < 8 => return Ok(()),
            Fault::Refuses if last < 8 => return Err("the disk is on fire".into()),
            _ => {}
        }
        self.pairs.lock().unwrap().insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()> {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        self.pairs.lock().unwrap().remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let map = self.pairs.lock().unwrap();
        let Some(found) = map.get(key) else { return Ok(false) };
        value.extend_from_slice(found);
        if self.fault == Fault::Changes {
            value[0] ^= 1;
        }
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

#[test]
fn a_store_that_errs_is_found_out() {
    for threads in [1, 2] {
        let settings = Settings { threads, ..small() };
        let error =
            |fault, names: &str| run(&Shared(Default::default(), fault), names, &settings).unwrap_err().to_string();
        assert!(error(Fault::Loses, "fillrandom,readrandom").contains("keys not found"));
        assert!(error(Fault::Changes, "fillrandom,readrandom").contains(" wrong"));
        assert!(error(Fault::Changes, "fillrandom,updaterandom").contains(" wrong"));
        assert!(error(Fault::Loses, "fillrandom,putifabsent").contains("keys not found"));
        assert!(error(Fault::Refuses, "fillrandom").contains("on fire"));
        assert!(error(Fault::None, "fillrandom,readseq").contains(" wrong"), "a walk over nothing");
        assert!(error(Fault::None, "fillrandom,seekrandom").contains(" wrong"));
    }
    let outcomes = run(&Shared::default(), "fillrandom", &small()).unwrap();
    assert_eq!((outcomes[0].log_amp, outcomes[0].stalled_ms), (None, None));
}

/// Alluvium's own read-modify-writes, and those under locks, with so little memory that generations change meanwhile.
#[test]
fn increments_of_several_threads_lose_none() {
    for factory in [&Alluvium as &dyn Factory, &AlluviumStriped] {
        let directory = tempfile::tempdir().unwrap();
        let engine = factory.open(directory.path(), &small().engine).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..5000u32 {
                        engine.increment(&(round % 7).to_be_bytes(), 3).unwrap();
                    }
                });
            }
        });
        let mut total = 0;
        for key in 0..7u32 {
            let mut value = Vec::new();
            assert!(engine.get(&key.to_be_bytes(), &mut value).unwrap(), "{}", factory.name());
            total += counter::of(Some(&value));
        }
        assert_eq!(total, 4 * 5000 * 3, "{}", factory.name());
    }
}

#[test]
fn what_counts_and_what_can_be_checked_is_said_before_anything_is_lost() {
    let counters = Settings { value_size: 8, check: false, ..small() };
    assert_eq!(run(&Alluvium, "fillrandom,increment,readrandom", &counters).unwrap()[2].not_found, 0);
    let error = |settings: &Settings| run(&Alluvium, "fillrandom,increment", settings).unwrap_err().to_string();
    assert!(error(&Settings { value_size: 100, ..counters.clone() }).contains("values of 8 bytes"));
    assert!(error(&Settings { check: true, ..counters }).contains("cannot be checked"));
}

#[test]
fn threads_of_ranges_keep_to_their_own() {
    let map = Shared::default();
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings { threads: 2, ..small() };
    let mut session = Session::new(&map, directory.path(), settings.clone()).unwrap();
    session.run(&named("fillseq", &settings).unwrap(), &()).unwrap();
    map.0.lock().unwrap().clear();
    let mix = Mix { overwrite: 1, choice: Some(Choice::Zipfian), ranges: 4, ..Mix::default() };
    session.run(&Workload { name: "ranges".into(), job: Job::Mix(mix) }, &()).unwrap();
    let numbers: Vec<u64> = map.0.lock().unwrap().keys().map(|key| Keys::sequential_number(key)).collect();
    // Two threads: the first two quarters of the numbers, each with its own keys.
    assert!(numbers.iter().all(|number| *number < 1000), "{:?}", numbers.last());
    for quarter in [0..500u64, 500..1000] {
        assert!(numbers.iter().filter(|number| quarter.contains(*number)).count() > 50, "{quarter:?}");
    }
}

#[test]
fn overwrites_may_have_keys_of_another_distribution_than_reads() {
    for batch_size in [1, 10] {
        let map = Shared::default();
        let directory = tempfile::tempdir().unwrap();
        let settings = Settings { batch_size, num: Some(20_000), ..small() };
        let mut session = Session::new(&map, directory.path(), settings.clone()).unwrap();
        session.run(&named("fillseq", &settings).unwrap(), &()).unwrap();
        let overwrite_choice = Some(Choice::Exponential);
        let mix = Mix { read: 1, overwrite: 1, choice: Some(Choice::Uniform), overwrite_choice, ..Mix::default() };
        let run = |session: &mut Session<'_>, mix| {
            session.run(&Workload { name: "pairing".into(), job: Job::Mix(mix) }, &()).unwrap()
        };
        // Checks are on, so every read finds its key.
        let outcome = run(&mut session, mix.clone());
        assert!(outcome.found > 1000 && outcome.user_bytes_written > 0, "{outcome:?}");
        map.0.lock().unwrap().clear();
        run(&mut session, Mix { read: 0, ..mix });
        let numbers: Vec<u64> = map.0.lock().unwrap().keys().map(|key| Keys::sequential_number(key)).collect();
        // The mean is 20 of 20,000 keys.
        assert!(numbers.len() > 40 && numbers.iter().all(|number| *number < 500), "{numbers:?}");
    }
}

fn recovery() -> Workload {
    Workload { name: "recovery".into(), job: Job::Recovery }
}

#[test]
fn a_recovery_opens_what_a_killed_process_leaves() {
    let run = |factory: &dyn Factory, settings: &Settings| {
        let directory = tempfile::tempdir().unwrap();
        let mut session = Session::new(factory, directory.path().join("store"), settings.clone()).unwrap();
        session.run(&named("fillrandom", settings).unwrap(), &()).unwrap();
        session.set(|settings| settings.settle = false).unwrap();
        session.run(&named("overwrite", settings).unwrap(), &()).unwrap();
        let outcome = session.run(&recovery(), &()).unwrap();
        assert!(outcome.ops == 1 && outcome.found == 1 && outcome.elapsed_s > 0.0, "{outcome:?}");
        // Checks are on: every key must be there.
        assert_eq!(session.run(&named("readrandom", settings).unwrap(), &()).unwrap().found, 2000);
        session.finish().unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "files are left over");
    };
    // This one would not open the files of a closed store.
    run(&Shared::default(), &small());
    for component in [Component::Trunk, Component::Skip] {
        let engine = EngineOptions { component: Some(component), ..small().engine };
        run(&Alluvium, &Settings { engine, ..small() });
    }
    let lost = Shared(Default::default(), Fault::Loses);
    assert!(recovered(&lost).unwrap_err().to_string().contains("keys not found"));
}

/// A recovery after a load.
fn recovered(factory: &dyn Factory) -> Result<Outcome> {
    let directory = tempfile::tempdir()?;
    let mut session = Session::new(factory, directory.path().join("store"), small())?;
    session.run(&named("fillseq", &small())?, &())?;
    session.run(&recovery(), &())
}

/// Only of an engine that leaves something there. Each checkpoint also writes the Memtable.
#[test]
fn what_waits_in_memory_is_counted_and_checkpoints_are_made() {
    let outcome = |component, checkpoint_every| {
        let directory = tempfile::tempdir().unwrap();
        let levels = LevelKnobs { checkpoint_every, ..LevelKnobs::default() };
        let (component, write_buffer) = (Some(component), Some(2 << 20));
        let engine = EngineOptions { component, write_buffer, levels, ..small().engine };
        let settings = Settings { engine, ..small() };
        let mut session = Session::new(&Alluvium, directory.path().join("store"), settings.clone()).unwrap();
        session.run(&named("fillrandom", &settings).unwrap(), &()).unwrap();
        let outcome = session.run(&named("overwrite", &settings).unwrap(), &()).unwrap();
        (outcome.buffered.is_some(), outcome.buffers_written.unwrap())
    };
    assert_eq!(outcome(Component::Leveled, None), (false, 1));
    assert_eq!(outcome(Component::Skip, None), (true, 1));
    // Of four, one may find nothing that the one before it has not written.
    assert!((2..=4).contains(&outcome(Component::Skip, Some(500)).1));
}

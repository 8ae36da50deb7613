//! A full disk, real (a small ext4 and a tmpfs of limited size; both need root) and simulated. Puts fail with an error
//! that says what to do, reads and deletes work, deletes free space, puts resume without a restart, and nothing is
//! lost.

use crate::support::disks::{Ext4, Tmpfs, with_private_mounts};
use crate::support::{Random, setting, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{PosixStorage, Storage};
use alluvium::{Db, DiskComponent, Error, LevelsOptions, Options, WriteBatch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// How often the store checks for space.
const SPACE_CHECK: Duration = Duration::from_millis(200);
/// A disk that was full for this time, with no background work left, stays full until data is deleted or space is
/// added.
const STEADY: Duration = Duration::from_millis(500);

fn options() -> Options {
    Options::new().memory_budget(2 << 20).background_threads(2)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(db: &Db) -> Model {
    db.iter().unwrap().map(Result::unwrap).collect()
}

fn assert_contents(db: &Db, model: &Model) {
    let found = contents(db);
    let wrong = found.keys().chain(model.keys()).find(|key| found.get(*key) != model.get(*key));
    let side = |side: &Model| wrong.map(|key| side.get(key).map(|value| (value.len(), value.first().copied())));
    assert!(wrong.is_none(), "{wrong:?}: found {:?}, expected {:?}", side(&found), side(model));
}

/// A store on a disk that fills up, and its expected contents.
struct Rig {
    storage: Arc<dyn Storage>,
    db: Db,
    model: Model,
    random: Random,
    next: u64,
}

impl Rig {
    fn new(storage: Arc<dyn Storage>) -> Self {
        Self::with(storage, None)
    }

    fn with(storage: Arc<dyn Storage>, disk_component: Option<DiskComponent>) -> Self {
        let options = options().disk_component(disk_component);
        let db = Db::open_with(Arc::clone(&storage), options).unwrap();
        Self { storage, db, model: Model::new(), random: Random(5), next: 0 }
    }

    /// Puts one pair of about a kilobyte, and sometimes a value that gets its own file.
    fn put(&mut self) -> alluvium::Result<()> {
        self.next += 1;
        let key = format!("key{:08}", self.random.below(1 << 40)).into_bytes();
        let length = if self.next.is_multiple_of(400) { 300_000 } else { 500 + self.random.below(1000) as usize };
        let value = self.random.bytes(length);
        // A put may be slowed or may wait for the log; it must never wait for space.
        let started = Instant::now();
        let done = self.db.put(&key, &value);
        assert!(started.elapsed() < PATIENCE, "a put hung");
        if done.is_ok() {
            self.model.insert(key, value);
        }
        done
    }

    /// Puts until the disk is full and stays full: until the space that background work can still free is used as well.
    fn fill(&mut self) -> Error {
        for resumed in 0.. {
            assert!(resumed < 40, "puts stop and resume again and again: {}", self.db.stats());
            let error = self.fill_once();
            // A full disk is expected here.
            let _ = self.db.settle();
            let until = Instant::now() + STEADY;
            while self.db.stats().disk_full && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(20));
            }
            if self.db.stats().disk_full {
                return error;
            }
        }
        unreachable!("the loop ends with a panic")
    }

    fn fill_once(&mut self) -> Error {
        loop {
            assert!(self.model.len() < 1_000_000, "the disk does not fill");
            // A large value may not fit although small ones still do.
            if let Err(error) = self.put() {
                assert!(matches!(error, Error::DiskFull { .. }), "{error}");
                if self.db.stats().disk_full {
                    return error;
                }
            }
        }
    }

    /// Deletes the first `count` keys, alternating single deletes and batches.
    fn delete(&mut self, count: usize) {
        let keys: Vec<Vec<u8>> = self.model.keys().take(count).cloned().collect();
        for (at, keys) in keys.chunks(10).enumerate() {
            if at % 2 == 0 {
                for key in keys {
                    self.db.delete(key).unwrap_or_else(|error| panic!("{error}\n{}", self.db.stats()));
                }
            } else {
                let mut batch = WriteBatch::new();
                for key in keys {
                    batch.delete(key.clone());
                }
                self.db.write(batch).unwrap_or_else(|error| panic!("{error}\n{}", self.db.stats()));
            }
            for key in keys {
                self.model.remove(key);
            }
        }
    }

    /// Waits until a put succeeds and the disk does not count as full. A merge that finds no space just after a put may
    /// make it full once more.
    fn wait_until_puts_resume(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let put = self.put();
            let stats = self.db.stats();
            if put.is_ok() && !stats.disk_full && stats.failure.is_none() && stats.ballast_bytes > 0 {
                return;
            }
            assert!(put.is_ok() || matches!(put, Err(Error::DiskFull { .. })), "{put:?}");
            assert!(Instant::now() < deadline, "puts do not resume: {put:?}\n{stats}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn check(&self) {
        assert_contents(&self.db, &self.model);
        self.db.verify().unwrap();
    }

    /// Closes and reopens the store; nothing is lost.
    fn reopen(&mut self) {
        let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(0));
        let db = std::mem::replace(&mut self.db, Db::open_with(storage, options()).unwrap());
        db.close().unwrap();
        self.db = Db::open_with(Arc::clone(&self.storage), options()).unwrap();
        self.check();
    }
}

/// Fills the disk, deletes half, and resumes, twice; then reopens the store.
fn fills_and_recovers_by_deletes(mut rig: Rig) {
    for _ in 0..2 {
        let error = rig.fill();
        let text = error.to_string();
        assert!(text.contains("delete") && text.contains("free space"), "{text}");
        let stats = rig.db.stats();
        assert!(stats.disk_full && stats.failure.is_some_and(|failure| failure.contains("disk is full")));
        // A batch that contains a put fails as a whole.
        let first = rig.model.keys().next().unwrap().clone();
        let mut batch = WriteBatch::new();
        batch.delete(first.clone()).put("another", "value");
        assert!(matches!(rig.db.write(batch), Err(Error::DiskFull { .. })));
        assert!(rig.db.get(&first).unwrap().is_some());
        rig.check();
        rig.delete(rig.model.len() / 2);
        rig.wait_until_puts_resume();
        rig.check();
    }
    rig.reopen();
    for _ in 0..50 {
        // The space is still being freed.
        rig.wait_until_puts_resume();
    }
    rig.check();
}

#[test]
fn simulated_deletes_bring_space_back() {
    let disk = SimulatedStorage::new(1);
    disk.set_capacity(Some(16 << 20));
    fills_and_recovers_by_deletes(Rig::new(Arc::new(disk)));
}

#[test]
fn simulated_deletes_bring_space_back_in_levels() {
    for component in [DiskComponent::Levels(LevelsOptions::leveled()), tiny_levels(1)] {
        let disk = SimulatedStorage::new(1);
        disk.set_capacity(Some(16 << 20));
        fills_and_recovers_by_deletes(Rig::with(Arc::new(disk), Some(component)));
    }
}

#[test]
fn ext4_deletes_bring_space_back() {
    with_private_mounts("full ext4", || {
        let Some(disk) = Ext4::in_memory("full ext4", 32 << 20) else { return };
        fills_and_recovers_by_deletes(Rig::new(Arc::new(PosixStorage::new(disk.path().join("store")))));
    });
}

#[test]
fn tmpfs_deletes_bring_space_back() {
    with_private_mounts("full tmpfs", || {
        let disk = Tmpfs::new(16 << 20);
        fills_and_recovers_by_deletes(Rig::new(Arc::new(PosixStorage::new(disk.path().join("store")))));
    });
}

/// A file of another program that takes all but `free` bytes of the disk.
struct Hog(PathBuf);

impl Hog {
    fn new(directory: &Path, free: u64) -> Self {
        let path = directory.join("hog");
        let file = std::fs::File::create(&path).unwrap();
        let available = PosixStorage::new(directory).available().unwrap().unwrap();
        let mut left = available.saturating_sub(free);
        let zeroes = vec![0; 64 << 10];
        while left > 0 {
            use std::io::Write;
            let piece = left.min(zeroes.len() as u64) as usize;
            match (&file).write(&zeroes[..piece]) {
                Ok(written) => left -= written as u64,
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
                    break;
                }
            }
        }
        file.sync_all().unwrap();
        Self(path)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Another program takes all space, to the last block. Deletes work until the ballast is used up. Then they fail like
/// puts, and nothing hangs. When the other program frees the space, everything resumes.
fn survives_another_program(directory: &Path) {
    let mut rig = Rig::new(Arc::new(PosixStorage::new(directory.join("store"))));
    while rig.model.len() < 4000 {
        rig.put().unwrap();
    }
    rig.db.settle().unwrap();
    let hog = Hog::new(directory, 0);
    rig.fill();
    rig.check();
    rig.delete(500);
    rig.check();
    // The other program also takes the space that deletes free, until deletes fail. They delete absent keys, so they
    // free nothing.
    let mut more = Vec::new();
    let deadline = Instant::now() + PATIENCE;
    let refused = 'deletes: loop {
        let bytes = PosixStorage::new(directory).available().unwrap().unwrap();
        if bytes > 0 {
            let place = directory.join(format!("more{}", more.len()));
            std::fs::create_dir(&place).ok();
            if place.is_dir() {
                more.push(Hog::new(&place, 0));
            }
        }
        for _ in 0..2000 {
            let started = Instant::now();
            let done = rig.db.delete(format!("absent{}", rig.random.next()));
            assert!(started.elapsed() < PATIENCE, "a delete hung");
            if let Err(error) = done {
                break 'deletes error;
            }
        }
        assert!(Instant::now() < deadline, "deletes do not fail without space");
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    rig.check();
    // A flush does not hang either.
    if let Err(error) = rig.db.flush() {
        assert!(error.is_disk_full(), "{error}");
    }
    drop((hog, more));
    rig.wait_until_puts_resume();
    rig.db.flush().unwrap();
    rig.check();
    rig.reopen();
}

#[test]
fn ext4_filled_by_another_program() {
    with_private_mounts("hogged ext4", || {
        let Some(disk) = Ext4::in_memory("hogged ext4", 48 << 20) else { return };
        survives_another_program(&disk.path());
    });
}

#[test]
fn tmpfs_filled_by_another_program() {
    with_private_mounts("hogged tmpfs", || {
        let disk = Tmpfs::new(32 << 20);
        survives_another_program(disk.path());
    });
}

/// A store that was closed or killed on a full disk opens there: the ballast has the space that the opening needs.
#[test]
fn ext4_a_store_opens_on_a_full_disk() {
    with_private_mounts("open on a full ext4", || {
        let Some(disk) = Ext4::in_memory("open on a full ext4", 32 << 20) else { return };
        let mut rig = Rig::new(Arc::new(PosixStorage::new(disk.path().join("store"))));
        while rig.model.len() < 3000 {
            rig.put().unwrap();
        }
        rig.db.settle().unwrap();
        assert!(rig.db.stats().ballast_bytes > 0);
        let hog = Hog::new(&disk.path(), 0);
        rig.reopen();
        assert!(matches!(rig.put(), Err(Error::DiskFull { .. })) || rig.fill().is_disk_full());
        rig.delete(10);
        rig.check();
        drop(hog);
        rig.wait_until_puts_resume();
        rig.reopen();
    });
}

/// A regression test: a store is filled with a small budget, as by a service, and then opened again and again with a
/// large one, as the command line does for each delete. Every opening made two log segments of 8 MiB. The first opening
/// used up the ballast for them, and later ones found no space, so that nothing could be deleted.
#[test]
fn ext4_a_full_store_is_opened_for_every_delete() {
    with_private_mounts("deletes on a full ext4", || {
        let Some(disk) = Ext4::in_memory("deletes on a full ext4", 32 << 20) else { return };
        let storage: Arc<dyn Storage> = Arc::new(PosixStorage::new(disk.path().join("store")));
        let mut rig = Rig::new(Arc::clone(&storage));
        rig.fill();
        let Rig { db, mut model, .. } = rig;
        db.close().unwrap();
        // A closed store has its files open until its last handle is gone; a removed one takes space until then.
        drop(db);
        let large = options().memory_budget(512 << 20);
        let keys: Vec<Vec<u8>> = model.keys().step_by(50).take(40).cloned().collect();
        assert!(keys.len() > 20);
        let mut stats = String::new();
        for (at, key) in keys.iter().enumerate() {
            let db = Db::open_with(Arc::clone(&storage), large.clone());
            let db = db.unwrap_or_else(|error| panic!("{at}: {error}\nthe opening before:\n{stats}"));
            db.delete(key).unwrap_or_else(|error| panic!("{at}: {error}\n{}", db.stats()));
            model.remove(key);
            if at % 10 == 0 {
                assert_contents(&db, &model);
            }
            stats = db.stats().to_string();
            db.close().unwrap();
        }
        // The large budget needs more space beside its ballast than this disk has; the small budget does not.
        let db = Db::open_with(Arc::clone(&storage), options()).unwrap();
        let mut rig = Rig { storage, db, model, random: Random(6), next: 0 };
        rig.check();
        rig.delete(rig.model.len() / 2);
        rig.wait_until_puts_resume();
        rig.check();
    });
}

/// A small disk that is full most of the time, with the deterministic driver: puts, deletes, batches and changes of the
/// free space in random order, with crashes. Acknowledged writes are there, failed writes are not.
#[test]
fn simulated_random_operations_on_a_full_disk() {
    random_operations_on_a_full_disk(None);
}

#[test]
fn simulated_random_operations_on_a_full_disk_of_levels() {
    random_operations_on_a_full_disk(Some(tiny_levels(1)));
    random_operations_on_a_full_disk(Some(tiny_levels(3)));
    random_operations_on_a_full_disk(Some(tiny_skip()));
}

fn random_operations_on_a_full_disk(disk_component: Option<DiskComponent>) {
    let first = setting("ALLUVIUM_SEED", 1);
    let (mut refused, mut resumed) = (0, 0);
    for seed in first..first + setting("ALLUVIUM_FULL_DISK_SEEDS", 2) {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut disk = SimulatedStorage::new(seed);
        let mut capacity = (3 << 20) + random.below(4 << 20);
        disk.set_capacity(Some(capacity));
        let open = |disk: &SimulatedStorage| {
            let disk_component = disk_component.clone();
            let options = options().memory_budget(256 << 10).sync_interval(None).disk_component(disk_component);
            DeterministicDb::open(Arc::new(disk.clone()), options)
        };
        let mut db = open(&disk).unwrap();
        let mut model = Model::new();
        let mut was_full = false;
        for step in 0..3000 {
            let key = format!("{:05}", random.below(6000)).into_bytes();
            match random.below(1000) {
                0..700 => {
                    let length = if random.one_in(400) { 280_000 } else { random.below(3000) as usize };
                    let value = random.bytes(length);
                    match db.put(&key, &value) {
                        Ok(()) => {
                            model.insert(key, value);
                            resumed += u64::from(std::mem::take(&mut was_full));
                        }
                        Err(error) => {
                            assert!(matches!(error, Error::DiskFull { .. }), "{error}");
                            refused += 1;
                            was_full |= db.stats().disk_full;
                        }
                    }
                }
                700..900 => {
                    // If all space is taken at once, even a delete may fail. Then it has no effect.
                    match db.delete(&key) {
                        Ok(()) => _ = model.remove(&key),
                        Err(error) => assert!(matches!(error, Error::DiskFull { .. }), "{error}"),
                    }
                }
                900..990 => {
                    disk.advance(Duration::from_millis(100));
                    for _ in 0..random.below(20) {
                        db.step();
                    }
                }
                990..994 => match db.flush() {
                    Ok(()) => {}
                    Err(error) => assert!(error.is_disk_full(), "{error}"),
                },
                994..997 => {
                    // Changes the capacity, never below the used space.
                    capacity = (disk.used() + random.below(1 << 20)).max(capacity - random.below(1 << 20));
                    disk.set_capacity(Some(capacity));
                }
                997 => assert_contents(&db, &model),
                _ => {
                    let next = disk.kill();
                    drop(db);
                    disk = next;
                    db = match open(&disk) {
                        Ok(db) => db,
                        Err(error) => {
                            assert!(error.is_disk_full(), "seed {seed}, step {step}: {error}");
                            // Without a ballast the opening may find no space. Then it must change nothing.
                            capacity += 2 << 20;
                            disk.set_capacity(Some(capacity));
                            open(&disk).unwrap()
                        }
                    };
                    assert_contents(&db, &model);
                }
            }
        }
        disk.set_capacity(None);
        // The store checks for space only from time to time.
        disk.advance(Duration::from_secs(1));
        while db.step() {}
        db.put("done", "1").unwrap();
        model.insert(b"done".to_vec(), b"1".to_vec());
        db.flush().unwrap();
        db.settle().unwrap();
        assert_contents(&db, &model);
        db.verify().unwrap();
    }
    println!("{refused} puts refused, resumed {resumed} times");
    assert!(refused > 20 && resumed > 1);
}

/// A regression test: twice, the disk is filled while background work runs occasionally, and half of the data is
/// deleted. With these seeds puts did not resume. One store filled its disk with a merge that did not fit, removed the
/// output, accepted puts again and retried the same merge, for ever. In the others there were no tombstones left, and
/// the dead data was in files that other leaves still used in part. With the seeds from 66 on, merges of parts of shared files took
/// all space, and none was left for rewriting those files.
#[test]
fn simulated_puts_resume_after_deletes() {
    puts_resume_after_deletes(None, &[5, 9, 11, 66, 71, 142], Duration::ZERO);
}

/// With the seeds from 3 on, dozens of runs were in level 0, and each merge of them with level 1 needed more space than there
/// was.
#[test]
fn simulated_puts_resume_after_deletes_in_levels() {
    puts_resume_after_deletes(
        Some(&DiskComponent::Levels(LevelsOptions::leveled())),
        &[5, 9, 11, 3, 4, 7, 16],
        Duration::ZERO,
    );
}

/// A regression test: on a slow machine puts did not resume, because all merges that are due took longer than the time
/// between two checks for space. Each check took space back for the ballast, which the next merge needed; giving it up
/// again let all failed merges try again; and so no leaf was split.
#[test]
fn simulated_puts_resume_after_deletes_on_a_slow_machine() {
    puts_resume_after_deletes(None, &[3, 18, 35], SPACE_CHECK / 2);
}

/// Each step of background work takes `step_time`.
fn puts_resume_after_deletes(component: Option<&DiskComponent>, seeds: &[u64], step_time: Duration) {
    let seed = setting("ALLUVIUM_SEED", 0);
    let seeds = if seed > 0 { &[seed] } else { seeds };
    for seed in seeds.iter().copied() {
        println!("seed {seed}");
        let disk = SimulatedStorage::new(seed);
        disk.set_capacity(Some(12 << 20));
        let disk_component = component.cloned();
        let options = options().memory_budget(1 << 20).sync_interval(None).disk_component(disk_component);
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        let mut random = Random(seed);
        let mut model = Model::new();
        let pace = 1 + random.below(200);
        let put = |model: &mut Model, random: &mut Random| {
            let key = format!("key{:08}", random.below(1 << 40)).into_bytes();
            let length = 500 + random.below(1000) as usize;
            let value = random.bytes(length);
            let done = db.put(&key, &value);
            if done.is_ok() {
                model.insert(key, value);
            }
            done.is_ok()
        };
        let work = || {
            for _ in 0..50 {
                let step = || {
                    disk.advance(step_time);
                    db.step()
                };
                let jobs = db.stats().jobs;
                let steps = (0..100).take_while(|_| step()).count();
                disk.advance(SPACE_CHECK);
                if steps == 0 || db.stats().jobs == jobs {
                    break;
                }
            }
        };
        for round in 0..2 {
            for count in 0.. {
                assert!(count < 100_000, "the disk does not fill");
                if !put(&mut model, &mut random) && db.stats().disk_full {
                    break;
                }
                if random.one_in(pace) {
                    db.step();
                }
            }
            work();
            while put(&mut model, &mut random) {}
            let keys: Vec<Vec<u8>> = model.keys().take(model.len() / 2).cloned().collect();
            for key in &keys {
                db.delete(key).unwrap_or_else(|error| panic!("round {round}: {error}\n{}", db.stats()));
                model.remove(key);
                if random.one_in(20) {
                    db.step();
                }
            }
            let resumes = (0..20).any(|_| {
                work();
                disk.advance(Duration::from_secs(1));
                put(&mut model, &mut random)
            });
            assert!(resumes, "round {round}: puts do not resume\n{}", db.stats());
            assert_contents(&db, &model);
            db.verify().unwrap();
        }
    }
}

/// A regression test: a disk of 200 MB was full at 45 MB of data if the memory budget was large, since the ballast and
/// the log followed the budget.
fn a_small_disk_takes_much_data_with_a_large_budget(directory: &Path) {
    const DATA: u64 = 150_000_000;
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let options = Options::new().memory_budget(1 << 30).background_threads(2);
    let db = Db::open(directory.join("store"), options.clone()).unwrap();
    let (mut random, mut data) = (Random(8), 0);
    // Not in the order of the keys, so that merges take space. While one runs, the disk may be full for a moment.
    let mut full_since = None;
    let mut number = 0u64;
    while full_since.is_none_or(|since: Instant| since.elapsed() < STEADY) {
        let (key, value) = (number.wrapping_mul(SPREAD).to_be_bytes(), random.bytes(1000));
        match db.put(key, &value) {
            Ok(()) => {
                (number, full_since) = (number + 1, None);
                data += (key.len() + value.len()) as u64;
            }
            Err(error) => {
                assert!(matches!(error, Error::DiskFull { .. }), "{error}");
                full_since.get_or_insert_with(Instant::now);
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    println!("{data} bytes of data on {:?} bytes", PosixStorage::new(directory).capacity().unwrap());
    assert!(data >= DATA, "the disk is full at {data} bytes\n{}", db.stats());
    // Deletes bring space back here, too.
    for number in 0..number / 2 {
        db.delete(number.wrapping_mul(SPREAD).to_be_bytes()).unwrap_or_else(|error| panic!("{error}\n{}", db.stats()));
    }
    // A busy machine takes its time, so what counts is that merges get done.
    let end = Instant::now() + 10 * PATIENCE;
    let (mut jobs, mut deadline) = (0, end);
    while let Err(error) = db.put("again", "value") {
        let stats = db.stats();
        if stats.jobs > jobs {
            (jobs, deadline) = (stats.jobs, end.min(Instant::now() + PATIENCE));
        }
        assert!(matches!(error, Error::DiskFull { .. }) && Instant::now() < deadline, "{error}\n{stats}");
        std::thread::sleep(Duration::from_millis(20));
    }
    db.verify().unwrap();
}

#[test]
fn ext4_of_200_mib_takes_150_mb_with_a_large_budget() {
    with_private_mounts("small ext4", || {
        let Some(disk) = Ext4::in_memory("small ext4", 200 << 20) else { return };
        a_small_disk_takes_much_data_with_a_large_budget(&disk.path());
    });
}

#[test]
fn tmpfs_of_200_mb_takes_150_mb_with_a_large_budget() {
    with_private_mounts("small tmpfs", || {
        let disk = Tmpfs::new(200_000_000);
        a_small_disk_takes_much_data_with_a_large_budget(disk.path());
    });
}

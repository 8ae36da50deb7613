//! Random operations on two keyspaces that expire and one that does not, compared with maps that know when each pair was
//! written; beside snapshots, flushes, merges, kills, power cuts and closed stores.

use super::*;
use crate::support::{Random, tiny_skip_in_files};
use std::collections::BTreeMap;

const KEYS: u64 = 60;
const SNAPSHOTS_MAX: usize = 3;
/// The keyspaces, and how old their pairs get.
const PLACES: [(&str, Option<Duration>); 3] =
    [("long", Some(Duration::from_secs(400))), ("none", None), ("short", Some(Duration::from_secs(40)))];

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// The pairs of a keyspace with the times at which they were written, and those that readers were seen to miss.
#[derive(Clone, Default)]
struct Place {
    expiry: Option<Duration>,
    pairs: BTreeMap<Vec<u8>, Pair>,
}

#[derive(Clone)]
struct Pair {
    value: Vec<u8>,
    written: Duration,
    /// When background work was done first after that. It has a date since.
    dated: Option<Duration>,
}

impl Place {
    /// Checks what was found at a time, after background work was done last: what must be there is, and what must not is not. Forgets what was not
    /// found, which must not come back.
    fn check(&mut self, found: &Contents, (now, rested): (Duration, Duration)) {
        let Some(expiry) = self.expiry else {
            let pairs: Contents = self.pairs.iter().map(|(key, pair)| (key.clone(), pair.value.clone())).collect();
            return assert_eq!(shown(found), shown(&pairs), "a keyspace without expiry");
        };
        for (key, value) in found {
            let Some(pair) = self.pairs.get(key) else {
                panic!("{} was deleted, or had expired before", key.escape_ascii());
            };
            assert_eq!(*value, pair.value, "{}", key.escape_ascii());
            let age = pair.dated.map_or(Duration::ZERO, |dated| rested - dated);
            assert!(age <= expiry + expiry / 100 + SECOND, "{} is {age:?} old", key.escape_ascii());
        }
        self.pairs.retain(|key, pair| {
            let is_found = found.contains_key(key);
            assert!(is_found || now - pair.written >= expiry, "{} is missed too early", key.escape_ascii());
            is_found
        });
    }
}

fn shown(contents: &Contents) -> Vec<String> {
    contents.iter().map(|(key, value)| format!("{}={}", key.escape_ascii(), value.len())).collect()
}

fn contents(reader: &impl Readable) -> Contents {
    let pairs: Contents = reader.iter().unwrap().map(Result::unwrap).collect();
    let backward: Contents = reader.iter().unwrap().rev().map(Result::unwrap).collect();
    assert_eq!(shown(&backward), shown(&pairs), "backward");
    pairs
}

struct Case {
    world: World,
    db: Option<DeterministicDb>,
    places: Vec<Place>,
    snapshots: Vec<(alluvium::Snapshot, Vec<Contents>)>,
    random: Random,
    /// How many pairs have expired.
    expired: usize,
    /// When background work was done last.
    rested: Duration,
}

impl Case {
    fn new(seed: u64, options: Options) -> Self {
        let world = World::new(options);
        let db = world.open();
        for (name, expiry) in PLACES {
            db.keyspace(name, KeyspaceOptions::new().expiry(expiry)).unwrap();
        }
        let places = PLACES.map(|(_, expiry)| Place { expiry, ..Place::default() }).to_vec();
        Self {
            world,
            db: Some(db),
            places,
            snapshots: Vec::new(),
            random: Random(seed),
            expired: 0,
            rested: Duration::ZERO,
        }
    }

    fn db(&self) -> &DeterministicDb {
        self.db.as_ref().unwrap()
    }

    fn own(&self, at: usize) -> Keyspace {
        keyspace(self.db(), PLACES[at].0)
    }

    fn now(&self) -> Duration {
        self.world.disk.deterministic_clock().now()
    }

    fn key(&mut self) -> Vec<u8> {
        format!("{:03}", self.random.below(KEYS)).into_bytes()
    }

    /// Lets time pass in steps that are short beside the expiry, with the background work that is due, as threads would do it.
    fn pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(SECOND / 4);
            self.world.disk.advance(step);
            self.rest();
            left -= step;
        }
    }

    fn rest(&mut self) {
        rest(self.db());
        self.rested = self.now();
        // Ticks are less than a tenth of a second apart.
        for pair in self.places.iter_mut().flat_map(|place| place.pairs.values_mut()) {
            if pair.written + SECOND / 10 < self.rested {
                pair.dated.get_or_insert(self.rested);
            }
        }
    }

    fn check(&mut self) {
        for at in 0..PLACES.len() {
            let (found, times) = (contents(&self.own(at)), (self.now(), self.rested));
            let before = self.places[at].pairs.len();
            self.places[at].check(&found, times);
            self.expired += before - self.places[at].pairs.len();
        }
        for (snapshot, expected) in &self.snapshots {
            for ((name, _), expected) in PLACES.iter().zip(expected) {
                let found = contents(&snapshot.keyspace(name).unwrap().unwrap());
                assert_eq!(shown(&found), shown(expected), "a snapshot");
            }
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..45 => {
                let at = self.random.below(3) as usize;
                let (key, length) = (self.key(), self.random.below(1500) as usize);
                let value = self.random.bytes(if length == 7 { 300_000 } else { length });
                self.own(at).put(&key, &value).unwrap();
                let now = self.now();
                self.places[at].pairs.insert(key, Pair { value, written: now, dated: None });
            }
            45..55 => {
                let at = self.random.below(3) as usize;
                let key = self.key();
                self.own(at).delete(&key).unwrap();
                self.places[at].pairs.remove(&key);
            }
            55..57 => {
                let at = self.random.below(3) as usize;
                let (lower, upper) = (self.key(), self.key());
                self.own(at).delete_range(&lower[..]..&upper[..]).unwrap();
                self.places[at].pairs.retain(|key, _| *key < lower || *key >= upper);
            }
            57..72 => {
                let quarters = self.random.below(12);
                self.pass(SECOND / 4 * quarters as u32);
            }
            72..80 => self.check(),
            80..86 => {
                let snapshot = self.db().snapshot();
                let all = PLACES.map(|(name, _)| contents(&snapshot.keyspace(name).unwrap().unwrap())).to_vec();
                self.snapshots.push((snapshot, all));
                if self.snapshots.len() > SNAPSHOTS_MAX {
                    let gone = self.random.below(self.snapshots.len() as u64) as usize;
                    self.snapshots.swap_remove(gone);
                }
            }
            86..91 => self.db().flush().unwrap(),
            91..93 => self.db().compact().unwrap(),
            93..95 => {
                let expiry = PLACES[0].1.unwrap() * (1 + self.random.below(2) as u32);
                // The shorter one may make pairs expire at once.
                self.own(0).set_options(KeyspaceOptions::new().expiry(expiry)).unwrap();
                self.check();
                self.places[0].expiry = Some(expiry);
                self.pass(SECOND);
            }
            95..97 => self.rest(),
            _ => self.reopen(),
        }
    }

    /// The store is closed, killed, or loses power after a sync. It stays away for a while.
    fn reopen(&mut self) {
        self.check();
        self.snapshots.clear();
        let disk = match self.random.below(3) {
            0 => {
                self.db.take().unwrap().close().unwrap();
                self.world.disk.clone_disk()
            }
            1 => self.world.disk.kill(),
            _ => {
                self.db().sync().unwrap();
                self.world.disk.power_cut(self.random.next() % 10_000)
            }
        };
        self.db = None;
        self.world.storage = Arc::new(disk.clone());
        self.world.disk = disk;
        self.world.disk.advance(SECOND * self.random.below(20) as u32);
        self.db = Some(self.world.open());
        self.check();
    }
}

#[test]
fn random_operations_with_expiry() {
    let first = setting("ALLUVIUM_SEED", 1);
    let mut options = all_components().to_vec();
    options.push(tiny().disk_component(tiny_skip_in_files()));
    for (seed, options) in (first..).zip(options) {
        println!("seed {seed}");
        let mut case = Case::new(seed, options);
        for _ in 0..setting("ALLUVIUM_EXPIRY_STEPS", 1500) {
            case.step();
        }
        case.snapshots.clear();
        case.pass(SECOND * 5);
        case.check();
        assert!(case.expired > 100, "only {} pairs have expired", case.expired);
        case.db().verify().unwrap();
        case.db.take().unwrap().close().unwrap();
        expect_sound_closed(&case.world.storage);
    }
}

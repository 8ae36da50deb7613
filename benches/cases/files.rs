//! Cases of what branch files are made of: filter, pages, the whole build.

use super::{Case, Keys, VALUE, key};
use alluvium::internals::{BranchPart, Entry, FilterPart, PagePart, entry};
use std::hint::black_box;

fn sorted_entries(count: u64) -> Vec<Entry> {
    let mut entries: Vec<Entry> = (0..count).map(|number| entry(&key(number), number + 1, &VALUE)).collect();
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    entries
}

fn fingerprints(count: u64) -> Vec<u32> {
    (0..count).map(|number| FilterPart::fingerprint(&key(number))).collect()
}

/// A filter of so many keys from its fingerprints; an operation is a key.
pub struct FilterBuild {
    fingerprints: Vec<u32>,
}

impl FilterBuild {
    pub fn new(keys: u64) -> Self {
        Self { fingerprints: fingerprints(keys) }
    }
}

impl Case for FilterBuild {
    fn operations(&self) -> u64 {
        self.fingerprints.len() as u64
    }

    fn ready(&mut self) {}

    fn run(&mut self) {
        black_box(FilterPart::build(&self.fingerprints));
    }
}

/// Probes of a filter with keys that are there or with others, hashing included.
pub struct FilterProbe {
    filter: FilterPart,
    keys_in: u64,
    hit: bool,
    keys: Keys,
}

impl FilterProbe {
    pub fn new(keys_in: u64, hit: bool) -> Self {
        Self { filter: FilterPart::build(&fingerprints(keys_in)), keys_in, hit, keys: Keys::default() }
    }
}

impl Case for FilterProbe {
    fn ready(&mut self) {
        self.keys.draw(if self.hit { 0 } else { self.keys_in }, self.keys_in);
    }

    fn run(&mut self) {
        let found = self.keys.batch.iter().filter(|key| self.filter.may_contain(FilterPart::fingerprint(&key[..])));
        let found = found.count();
        assert!(if self.hit { found == self.keys.batch.len() } else { found < 20 }, "{found} found");
    }

    fn warm(&mut self) {
        self.run();
    }
}

/// A branch file of so many entries, its sync included; an operation is an entry.
pub struct BranchBuild {
    branches: BranchPart,
    entries: Vec<Entry>,
    built: Option<String>,
    _directory: tempfile::TempDir,
}

impl BranchBuild {
    pub fn new(entries: u64) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let branches = BranchPart::new(directory.path());
        Self { branches, entries: sorted_entries(entries), built: None, _directory: directory }
    }
}

impl Case for BranchBuild {
    fn operations(&self) -> u64 {
        self.entries.len() as u64
    }

    fn ready(&mut self) {
        if let Some(name) = self.built.take() {
            self.branches.remove(&name).expect("the file removed");
        }
    }

    fn run(&mut self) {
        self.built = Some(self.branches.build(&self.entries).expect("a branch file"));
    }
}

/// Searches in one leaf of 4 KiB, for keys that are there.
pub struct PageSearch {
    page: PagePart,
    entries: Vec<Entry>,
    keys: Keys,
    batch: Vec<usize>,
}

impl PageSearch {
    pub fn new() -> Self {
        let mut entries = sorted_entries(1000);
        let (page, count) = PagePart::build(&entries);
        entries.truncate(count);
        Self { page, entries, keys: Keys::default(), batch: Vec::new() }
    }
}

impl Case for PageSearch {
    fn ready(&mut self) {
        self.keys.draw(0, 1000);
        let random = self.keys.batch.iter().map(|key| u64::from_be_bytes(*key) as usize);
        self.batch = random.map(|random| random % self.entries.len()).collect();
    }

    fn run(&mut self) {
        for at in &self.batch {
            assert!(black_box(self.page.find(&self.entries[*at].key)).is_some());
        }
    }

    fn warm(&mut self) {
        self.run();
    }
}

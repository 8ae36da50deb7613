//! Cases of what a trunk node asks before it looks into branches: a quotient filter for each, or one maplet for all.
//!
//! `nodes` of them are asked in turn: one stays in the processor's caches, sixteen do not. Keys are strangers, as at all
//! nodes but one of a get.

use super::{Case, Keys, SMALL, key};
use alluvium::internals::{FilterPart, MapletPart};

/// Fingerprints of branches of `SMALL` keys each.
fn branches(count: u64, node: u64) -> Vec<Vec<u32>> {
    let first = |branch: u64| (node * count + branch) * SMALL;
    let keys = |branch| (first(branch)..first(branch) + SMALL).map(|number| FilterPart::fingerprint(&key(number)));
    (0..count).map(|branch| keys(branch).collect()).collect()
}

/// Keys that are in none of so many branches of so many nodes.
fn strangers(keys: &mut Keys, branches: u64, nodes: u64) {
    keys.draw(branches * nodes * SMALL, 1 << 32);
}

/// A quotient filter for each branch, all fetched ahead and then asked one after the other, as a get does without maplets.
pub struct FiltersProbe {
    nodes: Vec<Vec<FilterPart>>,
    branches: u64,
    keys: Keys,
}

impl FiltersProbe {
    pub fn new(count: u64, nodes: u64) -> Self {
        let node = |node| branches(count, node).iter().map(|keys| FilterPart::build(keys)).collect();
        Self { nodes: (0..nodes).map(node).collect(), branches: count, keys: Keys::default() }
    }
}

impl Case for FiltersProbe {
    fn ready(&mut self) {
        strangers(&mut self.keys, self.branches, self.nodes.len() as u64);
    }

    fn run(&mut self) {
        let mut found = 0;
        for (key, node) in self.keys.batch.iter().zip(self.nodes.iter().cycle()) {
            let fingerprint = FilterPart::fingerprint(key);
            node.iter().for_each(|filter| filter.prefetch(fingerprint));
            found += node.iter().filter(|filter| filter.may_contain(fingerprint)).count();
        }
        assert!(found < 200, "{found} found");
    }

    fn warm(&mut self) {
        self.run();
    }
}

/// A maplet in the place of so many filters.
pub struct MapletProbe {
    nodes: Vec<MapletPart>,
    branches: u64,
    keys: Keys,
}

impl MapletProbe {
    pub fn new(count: u64, nodes: u64) -> Self {
        let node = |node| MapletPart::build(&branches(count, node));
        Self { nodes: (0..nodes).map(node).collect(), branches: count, keys: Keys::default() }
    }
}

impl Case for MapletProbe {
    fn ready(&mut self) {
        strangers(&mut self.keys, self.branches, self.nodes.len() as u64);
    }

    fn run(&mut self) {
        let mut found = 0;
        for (key, node) in self.keys.batch.iter().zip(self.nodes.iter().cycle()) {
            let fingerprint = FilterPart::fingerprint(key);
            node.prefetch(fingerprint);
            found += node.columns(fingerprint).count_ones();
        }
        assert!(found < 20, "{found} found");
    }

    fn warm(&mut self) {
        self.run();
    }
}

/// A maplet from the fingerprints of eight branches, sorting included; an operation is a key.
pub struct MapletBuild(Vec<Vec<u32>>);

impl MapletBuild {
    pub fn new() -> Self {
        Self(branches(8, 0))
    }
}

impl Case for MapletBuild {
    fn operations(&self) -> u64 {
        8 * SMALL
    }

    fn ready(&mut self) {}

    fn run(&mut self) {
        MapletPart::build(&self.0);
    }
}

/// A branch of `SMALL` keys joins a maplet of seven others, in one pass; an operation is an entry of the result.
pub struct MapletMerge {
    maplet: MapletPart,
    fresh: Vec<u32>,
}

impl MapletMerge {
    pub fn new() -> Self {
        let mut lists = branches(8, 0);
        let fresh = lists.pop().expect("eight branches");
        Self { maplet: MapletPart::build(&lists), fresh }
    }
}

impl Case for MapletMerge {
    fn operations(&self) -> u64 {
        8 * SMALL
    }

    fn ready(&mut self) {}

    fn run(&mut self) {
        self.maplet.merged(7, &self.fresh);
    }
}

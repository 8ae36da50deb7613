//! The keyspace in which a store does its operations, and others beside it, which may not change any answer.

use super::Store;
use crate::concurrency::metamorphic::operation::key;
use crate::support::Random;
use alluvium::{Keyspace, KeyspaceOptions, Snapshot};

/// Keyspaces that come and go. The default keyspace is a neighbour, too, if it is not the home.
const NAMES: [&str; 4] = ["default", "a", "homes", "z"];

impl Store {
    pub(super) fn home_options(&self) -> KeyspaceOptions {
        let mut options = KeyspaceOptions::new();
        if self.home_name != "default" {
            options.merge_operator = Some(self.operator.clone());
        }
        options
    }

    pub(super) fn open_home(&self) -> Keyspace {
        self.db().keyspace(self.home_name, self.home_options()).unwrap()
    }

    /// Deletes all keys, or drops their keyspace and creates it again.
    pub(super) fn empty(&mut self, id: u64) {
        if self.home_name == "default" || self.random(id ^ 0xe).one_in(3) {
            self.home().clear().unwrap();
            return;
        }
        assert!(self.db().drop_keyspace(self.home_name).unwrap());
        self.home().get("").unwrap_err();
        self.home = Some(self.open_home());
    }

    /// A snapshot taken in one of the ways that there are.
    pub(super) fn snapshot_of_home(&self, id: u64) -> Snapshot {
        match self.random(id ^ 0x5).below(3) {
            0 => self.home().snapshot(),
            1 => self.db().snapshot().within(self.home()).unwrap(),
            _ => self.db().snapshot().keyspace(self.home_name).unwrap().unwrap(),
        }
    }

    /// Writes, empties or drops another keyspace.
    pub(super) fn disturb_neighbours(&mut self, random: &mut Random) {
        let name = NAMES[random.below(NAMES.len() as u64) as usize];
        if name == self.home_name {
            return;
        }
        if name != "default" && random.one_in(4) {
            self.db().drop_keyspace(name).unwrap();
            return;
        }
        let neighbour = self.db().keyspace(name, KeyspaceOptions::new()).unwrap();
        if random.one_in(6) {
            neighbour.clear().unwrap();
            return;
        }
        for _ in 0..random.below(30) {
            neighbour.put(key(random.below(150)), random.bytes(100)).unwrap();
        }
        let (one, other) = (random.below(150), random.below(150));
        neighbour.delete_range(key(one).min(key(other))..key(one).max(key(other))).unwrap();
        assert!(!neighbour.contains_key(key(one).min(key(other))).unwrap() || one == other || key(one) == key(other));
    }
}

//! Gets in a keyspace whose pairs expire, beside one whose pairs stay.

use super::database::{MemoryStore, Place};
use super::{Case, Keys, SMALL, VALUE, key};
use alluvium::{Keyspace, KeyspaceOptions};
use std::hint::black_box;
use std::time::Duration;

/// Gets of `SMALL` keys of a keyspace.
pub struct InKeyspace {
    keyspace: Keyspace,
    keys: Keys,
    out: Vec<u8>,
    _store: MemoryStore,
}

impl InKeyspace {
    pub fn new(place: Place, expires: bool) -> Self {
        let store = MemoryStore::new();
        let mut options = KeyspaceOptions::new();
        options.expiry = expires.then_some(Duration::from_secs(86_400));
        let keyspace = store.db.keyspace("measured", options).expect("a keyspace");
        (0..SMALL).for_each(|number| keyspace.put(key(number), VALUE).expect("a put"));
        if place == Place::Files {
            store.db.compact().expect("a compaction");
        }
        Self { keyspace, keys: Keys::default(), out: Vec::with_capacity(VALUE.len()), _store: store }
    }
}

impl Case for InKeyspace {
    fn ready(&mut self) {
        self.keys.draw(0, SMALL);
    }

    fn run(&mut self) {
        for key in &self.keys.batch {
            assert!(self.keyspace.get_into(key, &mut self.out).expect("a get"));
            black_box(&self.out);
        }
    }

    fn warm(&mut self) {
        self.run();
    }
}

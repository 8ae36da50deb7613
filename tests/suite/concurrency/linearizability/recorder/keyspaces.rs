//! The keyspaces of keys. One may be dropped at any time. A call on it then fails, has no effect and has seen nothing, and
//! the next one creates another keyspace with its name. So a drop is a range delete of all keys of the keyspace.

use super::{Broken, Recorder};
use crate::concurrency::linearizability::history::{Effect, Key, Seen, Value};
use crate::support::Last;
use alluvium::{Db, Error, Keyspace, KeyspaceOptions, Snapshot};
use std::ops::Deref;

/// The name of the keyspace with a name.
pub const NAME: &str = "named";

/// Without a reference count for the default keyspace: changing one is a fence, which could hide a missing one.
pub enum Own<'a> {
    Default(&'a Db),
    Named(Keyspace),
}

impl Deref for Own<'_> {
    type Target = Keyspace;

    fn deref(&self) -> &Keyspace {
        match self {
            Self::Default(db) => db,
            Self::Named(keyspace) => keyspace,
        }
    }
}

impl<'a> Recorder<'a> {
    /// The default keyspace, or the one with a name, which is created if it is not there.
    pub(super) fn keyspace(&mut self, is_named: bool) -> Result<Own<'a>, String> {
        if !is_named {
            return Ok(Own::Default(self.db));
        }
        if let Some(named) = &self.named {
            return Ok(Own::Named(named.clone()));
        }
        let options = KeyspaceOptions::new();
        let options = if self.merges { options.merge_operator(Last { joins: self.joins }) } else { options };
        let named = self.db.keyspace(NAME, options).map_err(|error| format!("a keyspace does not open: {error}"))?;
        self.named = Some(named.clone());
        Ok(Own::Named(named))
    }

    pub(super) fn of_key(&mut self, key: Key) -> Result<Own<'a>, String> {
        self.keyspace(self.keys.is_named(key))
    }

    /// The keys that are in the keyspace of the first one.
    pub(super) fn of_one_keyspace(&self, keys: &[Key]) -> Vec<Key> {
        keys.iter().copied().filter(|key| self.keys.is_named(*key) == self.keys.is_named(keys[0])).collect()
    }

    /// What a snapshot has of a keyspace; `None` if it was not there.
    pub(super) fn within(&self, snapshot: &Snapshot, is_named: bool) -> alluvium::Result<Option<Snapshot>> {
        if is_named { snapshot.keyspace(NAME) } else { Ok(Some(snapshot.clone())) }
    }

    /// The result of a call; `None` if it failed since its keyspace was dropped.
    pub(super) fn unless_dropped<T>(&mut self, by: &str, done: alluvium::Result<T>) -> Result<Option<T>, String> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Error::KeyspaceDropped { .. }) if self.named.take().is_some() => Ok(None),
            Err(error) => Err(format!("a {by} failed: {error}")),
        }
    }

    pub(super) fn saw_none(&mut self, operation: usize, by: &'static str, range: usize) -> Broken {
        self.keys.in_range(range).into_iter().try_for_each(|key| self.saw_one(operation, by, key, None))
    }

    /// A drop that finds no keyspace is a read: all its keys are absent.
    pub(super) fn drop_keyspace(&mut self) -> Broken {
        let was_there = self.db.drop_keyspace(NAME).map_err(|error| format!("a drop failed: {error}"))?;
        let by = "drop of a keyspace";
        let keys = self.keys.all_named();
        self.begin(
            by,
            if was_there {
                Effect::write(keys.map(|key| (key, Value::ABSENT)).collect())
            } else {
                Effect::read(keys.map(|key| Seen { key, value: Value::ABSENT, by }).collect())
            },
        );
        Ok(())
    }

    pub(super) fn clear_keyspace(&mut self) -> Broken {
        let done = self.keyspace(true)?.clear();
        let keys = self.keys.all_named();
        self.wrote("clear", keys.map(|key| (key, Value::ABSENT)).collect(), done)
    }
}

//! Transactions: a transaction's reads of other writes and its own writes take place at one instant. It must read
//! its own writes. The reads of a transaction that is rolled back, or that conflicts, take place at one instant, too.

use super::{Broken, Recorder};
use crate::concurrency::linearizability::history::{Key, Value};
use crate::concurrency::linearizability::plan::Action;
use crate::concurrency::linearizability::values::{decode, encode};
use alluvium::{Error, Transaction};
use std::collections::BTreeMap;

/// An open transaction.
struct Open {
    operation: usize,
    transaction: Transaction,
    own: BTreeMap<Key, Value>,
}

impl Recorder<'_> {
    pub(super) fn transaction(&mut self, actions: &[Action], commits: bool) -> Broken {
        if self.keys.has_named() {
            // The transaction then reads a keyspace that is older than itself.
            self.keyspace(true)?;
        }
        let operation = self.read("transaction");
        let transaction = self.db.transaction().map_err(|error| format!("a transaction failed: {error}"))?;
        let (mut open, mut saved) = (Open { operation, transaction, own: BTreeMap::new() }, Vec::new());
        for action in actions {
            self.pause();
            match action {
                Action::Get(key) => {
                    let own = self.of_key(*key)?;
                    let found = open.transaction.within(&own).and_then(|within| within.get(self.name(*key)));
                    let Some(found) = self.unless_dropped("transaction's get", found)? else { return Ok(()) };
                    self.see(&open, "get", *key, found.as_deref())?;
                }
                Action::Put(key, value, length) => {
                    let (own, merges) = (self.of_key(*key)?, self.merges());
                    let (name, bytes) = (self.name(*key), encode(*value, *length));
                    let put = open
                        .transaction
                        .within(&own)
                        .and_then(|within| if merges { within.merge(name, bytes) } else { within.put(name, bytes) });
                    if self.unless_dropped("transaction's put", put)?.is_none() {
                        return Ok(());
                    }
                    open.own.insert(*key, *value);
                }
                Action::Delete(key) => {
                    let own = self.of_key(*key)?;
                    let deleted = open.transaction.within(&own).and_then(|within| within.delete(self.name(*key)));
                    if self.unless_dropped("transaction's delete", deleted)?.is_none() {
                        return Ok(());
                    }
                    open.own.insert(*key, Value::ABSENT);
                }
                Action::DeletePrefix(range) => {
                    let (is_named, prefix) = self.keys.range(*range);
                    let own = self.keyspace(is_named)?;
                    let deleted = open.transaction.within(&own).and_then(|within| within.delete_prefix(prefix));
                    if self.unless_dropped("transaction's range delete", deleted)?.is_none() {
                        return Ok(());
                    }
                    open.own.extend(self.keys.in_range(*range).into_iter().map(|key| (key, Value::ABSENT)));
                }
                Action::Scan(range, back) => {
                    if !self.scan_within(&open, *range, *back)? {
                        return Ok(());
                    }
                }
                Action::Save => saved.push((open.transaction.savepoint(), open.own.clone())),
                Action::RollBack(to) if saved.is_empty() => _ = to,
                Action::RollBack(to) => {
                    saved.truncate(to % saved.len() + 1);
                    if let Some((savepoint, own)) = saved.last() {
                        let back = open.transaction.rollback_to(savepoint);
                        back.map_err(|error| format!("a rollback to a savepoint failed: {error}"))?;
                        open.own = own.clone();
                    }
                }
            }
        }
        self.pause();
        let Open { transaction, own, .. } = open;
        if !commits {
            transaction.rollback();
            self.operations[operation].name = "transaction, rolled back,";
            return Ok(());
        }
        // A range delete that covers no key of the plan is a write, too.
        let is_empty =
            |action: &Action| matches!(action, Action::DeletePrefix(range) if self.keys.in_range(*range).is_empty());
        let writes = !own.is_empty() || actions.iter().any(is_empty);
        match transaction.commit() {
            Ok(()) => self.operations[operation].effect.wrote = own.into_iter().collect(),
            Err(Error::Conflict { key, .. }) if writes && self.may_conflict_at(&key) => {
                self.operations[operation].name = "transaction, conflicting,";
            }
            // Nothing was written. A keyspace counts that the transaction has only read, or of which it has undone its writes.
            error @ Err(Error::KeyspaceDropped { .. }) if actions.iter().any(|action| self.is_of_named(action)) => {
                self.unless_dropped("commit", error)?;
                self.operations[operation].name = "transaction, of a dropped keyspace,";
            }
            Err(error) => return Err(format!("a commit of {} keys failed: {error}", own.len())),
        }
        Ok(())
    }

    fn is_of_named(&self, action: &Action) -> bool {
        match action {
            Action::Get(key) | Action::Put(key, ..) | Action::Delete(key) => self.keys.is_named(*key),
            Action::DeletePrefix(range) | Action::Scan(range, _) => self.keys.range(*range).0,
            Action::Save | Action::RollBack(_) => false,
        }
    }

    /// Whether it is a key, or the first one of a range that is deleted.
    fn may_conflict_at(&self, key: &Vec<u8>) -> bool {
        self.keys.names.contains(key) || self.keys.prefixes.contains(key)
    }

    /// A key as the transaction sees it.
    fn see(&mut self, open: &Open, by: &'static str, key: Key, found: Option<&[u8]>) -> Broken {
        match open.own.get(&key) {
            Some(own) if decode(found) == Ok(*own) => Ok(()),
            Some(own) => Err(format!("a {by} in a transaction that wrote {own:?} finds {:?}", decode(found))),
            None => self.saw_one(open.operation, by, key, found),
        }
    }

    /// False if the keyspace was dropped.
    fn scan_within(&mut self, open: &Open, range: usize, back: bool) -> Result<bool, String> {
        let failed = |error: Error| format!("a transaction's scan failed: {error}");
        let (is_named, prefix) = self.keys.range(range);
        let own = self.keyspace(is_named)?;
        let iter = open.transaction.within(&own).and_then(|within| within.prefix(prefix));
        let Some(iter) = self.unless_dropped("transaction's scan", iter)? else { return Ok(false) };
        let mut pairs: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let all: Vec<_> = if back { iter.rev().collect() } else { iter.collect() };
        for pair in all {
            let (name, value) = pair.map_err(failed)?;
            let is_in_order = match (pairs.first_key_value(), pairs.last_key_value()) {
                (Some((first, _)), Some((last, _))) => {
                    if back {
                        name < *first
                    } else {
                        name > *last
                    }
                }
                _ => true,
            };
            if !is_in_order {
                return Err(format!("a transaction's scan returned {name:?} out of order"));
            }
            pairs.insert(name, value);
        }
        for key in self.keys.in_range(range) {
            let found = pairs.remove(self.name(key));
            self.see(open, "scan", key, found.as_deref())?;
        }
        pairs
            .first_key_value()
            .map_or(Ok(true), |(name, _)| Err(format!("a transaction's scan returned {name:?}, which is no key")))
    }
}

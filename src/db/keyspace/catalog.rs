//! The catalog of keyspaces, as a snapshot has it (`format/catalog.rs`).

use crate::db::snapshot::Snapshot;
use crate::engine::engine::Engine;
use crate::engine::read::read_path::ReadPath;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::keyspace_info::DEFAULT_NAME;
use crate::engine::types::user_key::UserKey;
use crate::format::catalog::{self, CatalogEntry};
use crate::merge::operator::named;
use crate::util::sync::Arc;
use crate::util::{Error, KeyspaceId, Result, SequenceNumber, key};
use std::collections::BTreeMap;
use std::time::Duration;

/// Keyspaces.
impl Snapshot {
    /// The same moment in the keyspace with a name; `None` if there was none. `Snapshot::within` takes a handle.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.keyspace("users", Default::default())?.put("7", "Ada")?;
    /// let snapshot = db.snapshot();
    /// db.drop_keyspace("users")?;
    /// let users = snapshot.keyspace("users")?.expect("it was there");
    /// assert_eq!(users.get("7")?.as_deref(), Some(&b"Ada"[..]));
    /// assert!(db.snapshot().keyspace("users")?.is_none());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reads.
    pub fn keyspace(&self, name: &str) -> Result<Option<Self>> {
        if name == DEFAULT_NAME {
            return Ok(Some(self.of_keyspace(KeyspaceId::DEFAULT)));
        }
        Ok(self.catalog_entry(name)?.map(|entry| self.of_keyspace(entry.id)))
    }

    /// The names of the keyspaces at this moment in order, without the default one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.keyspace("users", Default::default())?;
    /// let snapshot = db.snapshot();
    /// db.keyspace("emails", Default::default())?;
    /// assert_eq!(snapshot.keyspace_names()?, ["users"]);
    /// assert_eq!(db.snapshot().keyspace_names()?, ["emails", "users"]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reads.
    pub fn keyspace_names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.visit_catalog(&mut |name, _| names.push(name.to_owned()))?;
        Ok(names)
    }

    pub(in crate::db) fn catalog_entry(&self, name: &str) -> Result<Option<CatalogEntry>> {
        let key = catalog::key_of(name);
        let mut value = Vec::new();
        if !self.value_into(UserKey::new(KeyspaceId::CATALOG, &key), &mut value)? {
            return Ok(None);
        }
        CatalogEntry::decode(&value).map(Some).ok_or_else(|| self.bad_entry(&key, &value))
    }

    /// The id of the next keyspace that is created.
    pub(in crate::db) fn next_keyspace(&self) -> Result<KeyspaceId> {
        let mut value = Vec::new();
        if !self.value_into(UserKey::new(KeyspaceId::CATALOG, catalog::NEXT_ID), &mut value)? {
            return Ok(KeyspaceId(KeyspaceId::DEFAULT.0 + 1));
        }
        let next = catalog::decode_next_id(&value).ok_or_else(|| self.bad_entry(catalog::NEXT_ID, &value))?;
        // The next one after it must have an id, too.
        if next.0 + 1 >= KeyspaceId::CATALOG.0 {
            return Err(Error::InvalidArgument("the store has had as many keyspaces as there are ids".into()));
        }
        Ok(next)
    }

    /// The first keyspaces whose space is to be freed according to the catalog.
    pub(in crate::db) fn keyspaces_to_free(&self, count: usize) -> Result<Vec<KeyspaceId>> {
        let pairs = self.iterate(Bounds::of_prefix(KeyspaceId::CATALOG, catalog::TO_FREE))?;
        let id = |key: Result<Vec<u8>>| {
            let key = key?;
            catalog::id_to_free(&key).ok_or_else(|| self.bad_entry(&key, &[]))
        };
        pairs.keys().take(count).map(id).collect()
    }

    /// The last keyspace below the catalog that has keys.
    pub(in crate::db) fn last_used_keyspace(&self) -> Result<KeyspaceId> {
        let mut pairs = self.iterate(Bounds::below(KeyspaceId::CATALOG))?;
        pairs.seek_last()?;
        Ok(pairs.encoded_key().map_or(KeyspaceId::DEFAULT, key::keyspace))
    }

    /// Whether the catalog has what has expired of a keyspace.
    pub(in crate::db) fn has_expired(&self, id: KeyspaceId) -> Result<bool> {
        let key = catalog::key_of_expired(id);
        self.value_into(UserKey::new(KeyspaceId::CATALOG, &key), &mut Vec::new())
    }

    /// The numbers under the keys with a prefix, as far as they can be understood.
    fn numbers_under<T>(&self, prefix: &[u8], id: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<(T, SequenceNumber)>> {
        let pairs = self.iterate(Bounds::of_prefix(KeyspaceId::CATALOG, prefix))?;
        let number = |(key, value): (Vec<u8>, Vec<u8>)| id(&key).zip(catalog::decode_number(&value));
        pairs.filter_map(|pair| pair.map(number).transpose()).collect()
    }

    fn visit_catalog(&self, visit: &mut dyn FnMut(&str, CatalogEntry)) -> Result<()> {
        for pair in self.iterate(Bounds::of_prefix(KeyspaceId::CATALOG, catalog::NAMES))? {
            let (key, value) = pair?;
            match (catalog::name_of(&key), CatalogEntry::decode(&value)) {
                (Some(name), Some(entry)) => visit(name, entry),
                _ => return Err(self.bad_entry(&key, &value)),
            }
        }
        Ok(())
    }

    fn bad_entry(&self, key: &[u8], value: &[u8]) -> Error {
        let expected = "an entry that this version understands";
        let found = format!("{} under {}", value.escape_ascii(), key.escape_ascii());
        Error::corruption(self.read_path().storage.path(), 0, "entry of the catalog of keyspaces", expected, found)
    }
}

/// Notes the merge operators of keyspaces that come with the store, the names of the others, and how their data is stored. If the catalog is damaged,
/// they are missing, and what opens a keyspace reports the damage; the rest of the store stays readable.
pub(in crate::db) fn load_options(read: &Arc<ReadPath>) -> Result<()> {
    let loaded = Snapshot::take(read, KeyspaceId::CATALOG).visit_catalog(&mut |_, entry| {
        match named(&entry.merge_operator) {
            Some(operator) => read.merge_operators.add(entry.id, operator),
            None if entry.merge_operator.is_empty() => {}
            None => read.merge_operators.note_missing(entry.id, &entry.merge_operator),
        }
        if let Some(compression) = entry.compression {
            read.branches.compressions.insert(entry.id, Some(compression));
        }
    });
    unless_damaged(loaded)
}

/// What opening a store for writing does once the log was read: notes the options of keyspaces, and goes on freeing the space of
/// keyspaces that were dropped before.
pub(in crate::db) fn load(engine: &Engine) -> Result<()> {
    load_options(&engine.read)?;
    load_expiry(&engine.read)?;
    engine.background.changes.start(names)?;
    if engine.read.expiry.due().is_some() {
        engine.background.expired_space.note_expired();
        engine.background.scheduler.ask_for_workers();
    }
    // Memory has no newer number that is going to be incorporated.
    let view = engine.read.view.load_full();
    let recovered = view.generations.get(1).and_then(|generation| generation.end());
    let last = recovered.unwrap_or_else(|| engine.background.generations.incorporated());
    drop(view);
    let dropped = Snapshot::take(&engine.read, KeyspaceId::CATALOG).keyspaces_to_free(usize::MAX);
    unless_damaged(dropped.and_then(|dropped| dropped.into_iter().try_for_each(|id| engine.background.free(id, last))))
}

/// The ids and names of all keyspaces but the default one.
fn names(read: &Arc<ReadPath>) -> Result<Vec<(KeyspaceId, String)>> {
    let mut names = Vec::new();
    Snapshot::take(read, KeyspaceId::CATALOG)
        .visit_catalog(&mut |name, entry| names.push((entry.id, name.to_owned())))?;
    Ok(names)
}

/// Loads what the catalog has of the expiry of keyspaces: from here on readers miss what has expired.
pub(in crate::db) fn load_expiry(read: &Arc<ReadPath>) -> Result<()> {
    let catalog = Snapshot::take(read, KeyspaceId::CATALOG);
    let mut limits = BTreeMap::new();
    let loaded = catalog.visit_catalog(&mut |_, entry| {
        limits.extend(entry.expiry.map(|expiry| (entry.id, Duration::from_millis(expiry))));
    });
    // What is damaged is missing, and with it pairs live longer.
    unless_damaged(loaded)?;
    let dates = unless_damaged(catalog.numbers_under(catalog::DATES, catalog::date_of))?;
    let through = unless_damaged(catalog.numbers_under(catalog::EXPIRED, catalog::id_of_expired))?;
    read.expiry.load(limits, dates, through, read.snapshots.clock().date());
    read.branches.set_expired(read.retention().expired().clone());
    Ok(())
}

fn unless_damaged<T: Default>(result: Result<T>) -> Result<T> {
    result.or_else(|error| if error.is_damage() { Ok(T::default()) } else { Err(error) })
}

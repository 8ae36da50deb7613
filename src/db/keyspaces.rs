//! `Db`: the keyspaces of a store.
//!
//! The catalog is a keyspace of its own (`format/catalog.rs`), and each change of it is one write. So a snapshot has its
//! own list of keyspaces, and a crash leaves a keyspace that was created or dropped in order with the writes around it. One
//! thread at a time changes the catalog: it holds `Keyspaces::lock`.

use super::db::Db;
use super::keyspace::{Keyspace, KeyspaceOptions};
use super::read_only::ReadOnlyDb;
use super::snapshot::Snapshot;
use crate::branch::Compression;
use crate::engine::types::bounds::UserRange;
use crate::engine::types::effects::{Effects, KeyWrite};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::keyspace_info::{DEFAULT_NAME, KeyspaceInfo};
use crate::engine::types::options::Durability;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::mode::WriteMode;
use crate::engine::write::precondition::WriteOutcome;
use crate::format::catalog::{self, CatalogEntry};
use crate::merge::operator::{self, named};
use crate::merge::{MergeOperator, MergeOperators};
use crate::util::error::NO_OPERATOR;
use crate::util::sync::Arc;
use crate::util::{Error, KeyspaceId, Result, SequenceNumber, key};
use std::fmt::Debug;
use std::time::Duration;

/// Greatest length of a keyspace's name, bytes.
const NAME_BYTES_MAX: usize = 255;
/// Longest expiry, milliseconds: a thousand years.
const EXPIRY_MAX: u64 = 1000 * 365 * 24 * 60 * 60 * 1000;
/// How many keyspaces whose space was freed a drop removes from the catalog at most.
const FORGOTTEN_MAX: usize = 64;

/// Keyspaces.
impl Db {
    /// Opens the keyspace with a name. Creates it if it does not exist, unless `KeyspaceOptions::create_if_missing` is unset. Names have 1 to 255 bytes of UTF-8; "default" is
    /// the default keyspace. See [`Keyspace`].
    ///
    /// Creating one is one small write, and opening one a get. The store remembers the options of a keyspace. Those that
    /// are left out at a later opening are taken from there.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::{KeyspaceOptions, merge_operators::Add};
    /// let visits = db.keyspace("visits", KeyspaceOptions::new().merge_operator(Add))?;
    /// visits.merge("home", 1_i64.to_le_bytes())?;
    /// assert_eq!(visits.get("home")?, Some(1_i64.to_le_bytes().to_vec()));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `KeyspaceMismatch` if the keyspace has another value of an option than this call asks for. `Keyspace::set_options`
    ///   changes options. A merge operator cannot change, but may be given to a keyspace that has none.
    /// - `KeyspaceMismatch` if the keyspace has a merge operator that is not one of `merge_operators`, and this call does not
    ///   give it.
    /// - `NoKeyspace` if the keyspace does not exist, and `create_if_missing` is not set.
    /// - `InvalidArgument` for a name of another length, and for options of the default keyspace: those are in `Options`.
    /// - Those of `put` and `get`.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        check_name(name)?;
        if name == DEFAULT_NAME {
            options.check_default()?;
            return Ok(Keyspace::clone(self));
        }
        options.compression.map_or(Ok(()), Compression::check_built_in)?;
        // Before the lock: in a forked child its holder may not exist.
        self.engine.read.check_open()?;
        let mut open = self.engine.read.keyspaces.lock();
        let known = self.snapshot().catalog_entry(name)?;
        if known.is_none() && !options.create_if_missing {
            return Err(Error::NoKeyspace { keyspace: name.to_owned(), existing: self.keyspace_names()? });
        }
        let entry = known.clone().unwrap_or_default();
        let operators = &self.engine.read.merge_operators;
        let known_operator = || operators.get(entry.id).or_else(|| named(&entry.merge_operator));
        let operator = choose_operator(name, &entry, options.merge_operator, known_operator)?;
        let is_new = known.is_none();
        let durability = entry.durability.and_then(durability_of);
        let durability = choose(name, "durability", is_new, durability, options.durability)?;
        let compression = choose(name, "compression", is_new, entry.compression, options.compression)?;
        let asked = options.expiry.map(expiry_of).transpose()?;
        let expiry = choose(name, "expiry", is_new, entry.expiry.map(Duration::from_millis), asked)?;
        let merge_operator = operator.as_ref().map_or(String::new(), |operator| operator.name().to_owned());
        let wanted = CatalogEntry {
            merge_operator,
            durability: durability.map(byte_of),
            compression,
            expiry: expiry.map(|expiry| expiry.as_millis() as u64),
            ..entry
        };
        let entry = self.record(name, known, wanted)?;
        let is_known = |operator: &Arc<dyn MergeOperator>| {
            operators.get(entry.id).is_some_and(|known| Arc::ptr_eq(&known, operator))
        };
        if let Some(operator) = operator.filter(|operator| !is_known(operator)) {
            operators.add(entry.id, operator);
        }
        if options.compaction_filter.is_some() {
            self.engine.background.compaction_filters.set(entry.id, options.compaction_filter);
        }
        if let Some(compression) = compression.filter(|_| is_new) {
            self.engine.read.branches.compressions.insert(entry.id, Some(compression));
        }
        if expiry.is_some() && is_new {
            self.engine.read.expiry.set(entry.id, expiry);
            self.engine.background.scheduler.ask_for_workers();
        }
        let info = open.entry(name.into());
        let info = info.or_insert_with(|| KeyspaceInfo::new(entry.id, name, durability, self.engine.read.opening));
        info.set_expires(expiry.is_some());
        Ok(self.with_info(Arc::clone(info)))
    }

    /// Drops a keyspace: its name and all its keys, in one small write. Returns whether it existed. Its space is freed in the
    /// background, that of a small keyspace together with other data that is near.
    ///
    /// Snapshots and iterators from before still have its contents, and keep its space until they end. Later reads and writes
    /// of its handles return `KeyspaceDropped`; snapshots of it are empty. Batches and transactions that write it at the same
    /// time are applied completely before that, or fail with `KeyspaceDropped`. A keyspace that is created with the name later
    /// is another one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let old = db.keyspace("old", Default::default())?;
    /// old.put("key", "value")?;
    /// assert!(db.drop_keyspace("old")?);
    /// assert!(matches!(old.get("key"), Err(alluvium::Error::KeyspaceDropped { .. })));
    /// assert!(!db.drop_keyspace("old")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for the default keyspace, which can only be emptied (`Keyspace::clear`). Otherwise like `delete`.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        check_name(name)?;
        if name == DEFAULT_NAME {
            return Err(Error::InvalidArgument("the default keyspace cannot be dropped; `clear` empties it".into()));
        }
        self.engine.read.check_open()?;
        let mut open = self.engine.read.keyspaces.lock();
        let Some(entry) = self.snapshot().catalog_entry(name)? else { return Ok(false) };
        let info = match open.get(name) {
            Some(info) => Arc::clone(info),
            None => KeyspaceInfo::new(entry.id, name, None, self.engine.read.opening),
        };
        let mut writes = vec![delete(&catalog::key_of(name)), put(&catalog::key_to_free(entry.id), Vec::new())];
        if self.snapshot().has_expired(entry.id)? {
            writes.push(delete(&catalog::key_of_expired(entry.id)));
        }
        let freed = self.snapshot().keyspaces_to_free(FORGOTTEN_MAX)?;
        let freeing = &self.engine.background.space.freeing;
        let is_freed = |id: &KeyspaceId| !freeing.covers(&key::encoded(*id, &[]));
        writes.extend(freed.into_iter().filter(is_freed).map(|id| delete(&catalog::key_to_free(id))));
        let deleted = vec![UserRange::all(entry.id)];
        let dropped = self.change_catalog(Effects { writes, deleted }, Some(&info));
        if info.is_dropped() {
            open.remove(name);
        }
        let number = dropped?;
        if entry.expiry.is_some() {
            self.engine.read.expiry.set(entry.id, None);
        }
        self.engine.background.compaction_filters.set(entry.id, None);
        // The keys are gone. What fails here leaves their space to later merges.
        let _ = self.engine.background.free(entry.id, number);
        Ok(true)
    }

    /// The names of the keyspaces in order, without the default one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.keyspace("users", Default::default())?;
    /// db.keyspace("emails", Default::default())?;
    /// assert_eq!(db.keyspace_names()?, ["emails", "users"]);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reads.
    pub fn keyspace_names(&self) -> Result<Vec<String>> {
        self.snapshot().keyspace_names()
    }
}

/// Its options.
impl Keyspace {
    /// Its options, as the store remembers them. The default keyspace has none.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # use std::time::Duration;
    /// use alluvium::KeyspaceOptions;
    /// let hour = Duration::from_secs(3600);
    /// let sessions = db.keyspace("sessions", KeyspaceOptions::new().expiry(hour))?;
    /// assert_eq!(sessions.options()?.expiry, Some(hour));
    /// sessions.set_options(sessions.options()?.expiry(hour * 8))?;
    /// assert_eq!(sessions.options()?.expiry, Some(hour * 8));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `KeyspaceDropped`; otherwise those of reads.
    pub fn options(&self) -> Result<KeyspaceOptions> {
        if self.id() == KeyspaceId::DEFAULT {
            return Ok(KeyspaceOptions::new());
        }
        let compaction_filter = self.engine.background.compaction_filters.get(self.id());
        Ok(KeyspaceOptions { compaction_filter, ..options_of(&self.entry()?, &self.engine.read.merge_operators) })
    }

    /// Gives it these options in place of those that it has. One that is left out is from now on that of the store; only the
    /// merge operator stays, since there may be operands of it. Durability is that of later writes, compression that of files
    /// that are written later. An expiry applies to what the keyspace has, too: what has expired already stays so, and what was
    /// written while no keyspace had an expiry counts as written now, at the latest.
    ///
    /// # Errors
    /// `KeyspaceMismatch` for another merge operator than it has, `KeyspaceDropped`, `InvalidArgument` as for `Db::keyspace`.
    /// Otherwise like `put`.
    pub fn set_options(&self, options: KeyspaceOptions) -> Result<()> {
        if self.id() == KeyspaceId::DEFAULT {
            return options.check_default();
        }
        self.engine.read.check_open()?;
        options.compression.map_or(Ok(()), Compression::check_built_in)?;
        let _catalog = self.engine.read.keyspaces.lock();
        let known = self.entry()?;
        let operators = &self.engine.read.merge_operators;
        let known_operator = || operators.get(self.id()).or_else(|| named(&known.merge_operator));
        let operator = choose_operator(self.name(), &known, options.merge_operator, known_operator)?;
        let expiry = options.expiry.map(expiry_of).transpose()?;
        let wanted = CatalogEntry {
            id: self.id(),
            merge_operator: operator.as_ref().map_or(String::new(), |operator| operator.name().to_owned()),
            durability: options.durability.map(byte_of),
            compression: options.compression,
            expiry: expiry.map(|expiry| expiry.as_millis() as u64),
        };
        self.record(self.name(), Some(known), wanted)?;
        if let Some(operator) = operator {
            operators.add(self.id(), operator);
        }
        self.engine.background.compaction_filters.set(self.id(), options.compaction_filter);
        let branches = &self.engine.read.branches;
        branches.compressions.insert(self.id(), options.compression);
        self.info.set_durability(options.durability);
        // Writers note what they write as long as it may need a date.
        self.info.set_expires(true);
        self.engine.read.expiry.set(self.id(), expiry);
        self.info.set_expires(expiry.is_some());
        self.engine.background.scheduler.ask_for_workers();
        Ok(())
    }

    /// Its entry in the catalog.
    fn entry(&self) -> Result<CatalogEntry> {
        let entry = self.checked(self.snapshot().catalog_entry(self.name()))?;
        entry.filter(|entry| entry.id == self.id()).ok_or_else(|| self.info.dropped())
    }

    /// Writes an entry of the catalog if it differs from what is there. A new one gets an id.
    fn record(&self, name: &str, known: Option<CatalogEntry>, wanted: CatalogEntry) -> Result<CatalogEntry> {
        if known.as_ref() == Some(&wanted) {
            return Ok(wanted);
        }
        check_entry(&wanted)?;
        let mut writes = Vec::new();
        let mut entry = wanted;
        if known.is_none() {
            entry.id = self
                .engine
                .read
                .keyspaces
                .at_least_first_unused(self.snapshot().next_keyspace()?, || self.snapshot().last_used_keyspace())?;
            let next = KeyspaceId(entry.id.0 + 1);
            writes.push(put(catalog::NEXT_ID, catalog::encode_next_id(next)));
        }
        writes.push(put(&catalog::key_of(name), entry.encode()));
        self.change_catalog(Effects { writes, deleted: Vec::new() }, None)?;
        Ok(entry)
    }

    /// Applies a change of the catalog. Returns its number.
    fn change_catalog(&self, mut effects: Effects, drops: Option<&KeyspaceInfo>) -> Result<SequenceNumber> {
        effects.writes.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        // The list of keyspaces does not depend on how their writes are logged.
        let durability = match self.engine.write.durability {
            Durability::Unlogged => Durability::Buffered,
            durability => durability,
        };
        let mode = WriteMode { drops, ..WriteMode::new(durability, &[]) };
        Ok(match self.engine.write.write_all(&effects, None, mode)? {
            WriteOutcome::Written(number) => number,
            // Not without a precondition.
            WriteOutcome::Conflict(_) => SequenceNumber::ZERO,
        })
    }
}

/// Keyspaces.
impl ReadOnlyDb {
    /// The opened contents of the keyspace with a name; `None` if there is none. Of the options only `merge_operator` counts:
    /// it is needed to read operands of an operator that is not one of `merge_operators`. As for `Db::keyspace`, one may be
    /// given for a keyspace that has none.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options, ReadOnlyDb};
    /// let writer = Db::open(directory.path(), Options::default())?;
    /// writer.keyspace("users", Default::default())?.put("7", "Ada")?;
    /// let reader = ReadOnlyDb::open(directory.path(), Options::default())?;
    /// let users = reader.keyspace("users", Default::default())?.expect("it is there");
    /// assert_eq!(users.get("7")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `KeyspaceMismatch` if it has another merge operator, `InvalidArgument` for an operator of a keyspace with an expiry;
    /// those of reads.
    pub fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Option<Snapshot>> {
        let snapshot = self.snapshot();
        let Some(entry) = snapshot.catalog_entry(name)? else { return snapshot.keyspace(name) };
        if let Some(asked) = options.merge_operator {
            let chosen = choose_operator(name, &entry, Some(asked), || None)?;
            if let Some(operator) = chosen {
                check_entry(&CatalogEntry { merge_operator: operator.name().to_owned(), ..entry })?;
                snapshot.read_path().merge_operators.add(entry.id, operator);
            }
        }
        Ok(Some(snapshot.of_keyspace(entry.id)))
    }

    /// The names of the keyspaces in order, without the default one.
    ///
    /// # Errors
    /// Those of reads.
    pub fn keyspace_names(&self) -> Result<Vec<String>> {
        self.snapshot().keyspace_names()
    }

    /// The name of the merge operator of a keyspace, as the store remembers it, whether this program has the operator or not.
    /// `None` if the keyspace has none, and if there is no such keyspace.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, KeyspaceOptions, Options, ReadOnlyDb, merge_operators::Add};
    /// let writer = Db::open(directory.path(), Options::default())?;
    /// writer.keyspace("visits", KeyspaceOptions::new().merge_operator(Add))?;
    /// let reader = ReadOnlyDb::open(directory.path(), Options::default())?;
    /// assert_eq!(reader.merge_operator_name("visits")?.as_deref(), Some("alluvium.add"));
    /// assert_eq!(reader.merge_operator_name("default")?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reads.
    pub fn merge_operator_name(&self, keyspace: &str) -> Result<Option<String>> {
        let snapshot = self.snapshot();
        if keyspace == DEFAULT_NAME {
            let operators = &snapshot.read_path().merge_operators;
            let known = operators.get(KeyspaceId::DEFAULT).map(|operator| operator.name().to_owned());
            return Ok(known.or_else(|| operators.missing(KeyspaceId::DEFAULT)));
        }
        let entry = snapshot.catalog_entry(keyspace)?;
        Ok(entry.map(|entry| entry.merge_operator).filter(|name| !name.is_empty()))
    }

    /// The options of a keyspace, as the store remembers them; `None` if there is no such keyspace. A merge operator that is not
    /// one of `merge_operators` is missing unless `keyspace` was given it; `merge_operator_name` has its name. See
    /// `Keyspace::options`.
    ///
    /// # Errors
    /// Those of reads.
    pub fn keyspace_options(&self, name: &str) -> Result<Option<KeyspaceOptions>> {
        if name == DEFAULT_NAME {
            return Ok(Some(KeyspaceOptions::new()));
        }
        let snapshot = self.snapshot();
        let entry = snapshot.catalog_entry(name)?;
        Ok(entry.map(|entry| options_of(&entry, &snapshot.read_path().merge_operators)))
    }
}

/// What the options of a keyspace are according to the catalog.
pub(super) fn options_of(entry: &CatalogEntry, operators: &MergeOperators) -> KeyspaceOptions {
    KeyspaceOptions {
        merge_operator: operators.get(entry.id).or_else(|| named(&entry.merge_operator)),
        durability: entry.durability.and_then(durability_of),
        compression: entry.compression,
        expiry: entry.expiry.map(Duration::from_millis),
        ..KeyspaceOptions::new()
    }
}

/// The operator of a keyspace: the one that is asked for, or else the one that it has, if that is known.
fn choose_operator(
    name: &str,
    entry: &CatalogEntry,
    asked: Option<Arc<dyn MergeOperator>>,
    known: impl Fn() -> Option<Arc<dyn MergeOperator>>,
) -> Result<Option<Arc<dyn MergeOperator>>> {
    let stored = &entry.merge_operator;
    let differs = |asked: &str| Err(mismatch(name, "merge operator", stored.clone(), asked.to_owned()));
    if let Some(asked) = &asked {
        operator::check_name(&**asked)?;
    }
    match asked {
        Some(asked) if stored.is_empty() || asked.name() == stored => Ok(Some(asked)),
        Some(asked) => differs(asked.name()),
        None if stored.is_empty() => Ok(None),
        None => known().map_or_else(|| differs(NO_OPERATOR), |known| Ok(Some(known))),
    }
}

/// The value of an option of a keyspace; `None` if it is the store's.
fn choose<T: Copy + PartialEq + Debug>(
    name: &str,
    what: &'static str,
    is_new: bool,
    stored: Option<T>,
    asked: Option<T>,
) -> Result<Option<T>> {
    match asked {
        Some(asked) if !is_new && stored != Some(asked) => {
            // The store has no expiry of its own.
            let absent = if what == "expiry" { "none" } else { "that of the store" };
            let stored = stored.map_or(absent.to_owned(), |stored| format!("{stored:?}"));
            Err(mismatch(name, what, stored, format!("{asked:?}")))
        }
        _ => Ok(asked.or(stored)),
    }
}

/// An expiry as the catalog has it, in whole milliseconds.
fn expiry_of(expiry: Duration) -> Result<Duration> {
    let millis = expiry.as_nanos().div_ceil(1_000_000);
    match u64::try_from(millis) {
        Ok(millis @ 1..=EXPIRY_MAX) => Ok(Duration::from_millis(millis)),
        _ => Err(Error::InvalidArgument(format!("an expiry is at least 1 ms and at most 1,000 years, not {expiry:?}"))),
    }
}

/// An error if the options of an entry exclude each other.
fn check_entry(entry: &CatalogEntry) -> Result<()> {
    if entry.expiry.is_none() || entry.merge_operator.is_empty() {
        return Ok(());
    }
    let reason = "a keyspace with an expiry has no merge operator: an operand has no age of its own once it is folded; \
                  `update` reads and writes a value in one step";
    Err(Error::InvalidArgument(reason.into()))
}

fn delete(key: &[u8]) -> KeyWrite {
    KeyWrite { change: KeyChange::Delete, ..put(key, Vec::new()) }
}

fn put(key: &[u8], value: Vec<u8>) -> KeyWrite {
    KeyWrite { key: UserKey::new(KeyspaceId::CATALOG, key).to_owned(), change: KeyChange::Put(value) }
}

fn check_name(name: &str) -> Result<()> {
    if (1..=NAME_BYTES_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::InvalidArgument(format!(
        "the name of a keyspace has 1 to {NAME_BYTES_MAX} bytes, this one has {}",
        name.len()
    )))
}

fn mismatch(keyspace: &str, what: &'static str, stored: String, asked: String) -> Error {
    Error::KeyspaceMismatch { keyspace: keyspace.to_owned(), what, stored, asked }
}

fn byte_of(durability: Durability) -> u8 {
    match durability {
        Durability::Buffered => 0,
        Durability::Sync => 1,
        Durability::Unlogged => 2,
    }
}

fn durability_of(byte: u8) -> Option<Durability> {
    [Durability::Buffered, Durability::Sync, Durability::Unlogged].get(usize::from(byte)).copied()
}

#[cfg(test)]
mod tests;

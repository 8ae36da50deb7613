//! `Keyspace`: the keys of a store, or a part of them with a name.

pub(super) mod catalog;
mod ingest;
mod maintenance;
mod options;
mod reads;
mod writes;

use super::open_store::OpenStore;
use crate::engine::engine::Engine;
use crate::engine::types::keyspace_info::{DEFAULT_NAME, KeyspaceInfo};
use crate::engine::types::options::{Durability, WriteOptions};
use crate::engine::types::user_key::UserKey;
use crate::engine::write::mode::WriteMode;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Result};
pub use ingest::Ingest;
pub use options::KeyspaceOptions;

/// A keyspace: keys and values of their own, in the same store. The same key may be in several keyspaces, and a scan stays
/// in one. `Db::keyspace` opens one by its name and creates it if needed. A clone is cheap, and is the same keyspace.
///
/// All keyspaces share log, memory, cache and files. So an idle one costs nothing, a thousand are no problem, and one write
/// may change several: batches and transactions go into a keyspace by their `within`. A snapshot has all keyspaces at one
/// moment; its `within` reads one of them.
///
/// A [`Db`](crate::Db) is its store's *default keyspace*, which needs no name, and has the methods of this type.
///
/// After `Db::drop_keyspace` all reads and writes of its handles return `Error::KeyspaceDropped`. A handle keeps the store
/// open, as a `Db` does.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::{KeyspaceOptions, WriteBatch};
/// let users = db.keyspace("users", KeyspaceOptions::default())?;
/// let emails = db.keyspace("emails", KeyspaceOptions::default())?;
/// let mut batch = WriteBatch::new();
/// batch.within(&users).put("7", "Ada");
/// batch.within(&emails).put("ada@example.org", "7");
/// db.write(batch)?;
/// assert_eq!(users.get("7")?.as_deref(), Some(&b"Ada"[..]));
/// assert_eq!((emails.get("7")?, db.get("7")?), (None, None));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Keyspace {
    pub(crate) engine: Arc<Engine>,
    /// Shared by all handles of the store.
    pub(super) open: Arc<OpenStore>,
    pub(crate) info: Arc<KeyspaceInfo>,
}

impl Keyspace {
    /// The default keyspace of a store.
    pub(super) fn of_default(engine: Arc<Engine>) -> Self {
        let info = KeyspaceInfo::new(KeyspaceId::DEFAULT, DEFAULT_NAME, None, engine.read.opening);
        Self { open: OpenStore::new(&engine), engine, info }
    }

    /// Another keyspace of the same store.
    pub(super) fn with_info(&self, info: Arc<KeyspaceInfo>) -> Self {
        Self { info, ..self.clone() }
    }

    /// Its name: "default" for the default keyspace.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// assert_eq!(db.keyspace("users", Default::default())?.name(), "users");
    /// assert_eq!(db.name(), "default");
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.info.name
    }

    #[inline]
    pub(super) fn id(&self) -> KeyspaceId {
        self.info.id
    }

    /// A key of this keyspace.
    #[inline]
    pub(super) fn key<'k, K: AsRef<[u8]> + ?Sized>(&self, key: &'k K) -> UserKey<&'k [u8]> {
        UserKey::new(self.info.id, key)
    }

    /// How its writes with these options are done.
    #[inline]
    pub(super) fn mode(&self, options: WriteOptions) -> WriteMode<'_> {
        let keyspaces = if self.id() == KeyspaceId::DEFAULT { &[] } else { std::slice::from_ref(&self.info) };
        WriteMode::with(options, self.durability(options), keyspaces)
    }

    #[inline]
    pub(super) fn durability(&self, options: WriteOptions) -> Durability {
        options.durability.or(self.info.durability()).unwrap_or(self.engine.write.durability)
    }

    /// The result of a read, unless the keyspace was dropped before it.
    #[inline]
    pub(super) fn checked<T>(&self, read: Result<T>) -> Result<T> {
        let found = read?;
        self.info.check()?;
        Ok(found)
    }
}

//! Engines whose stores have named key spaces: Alluvium's and fjall's keyspaces, RocksDB's column families. All are
//! opened with their default options; where memory is limited, that is their only other option.

#[cfg(feature = "fjall")]
mod fjall;
mod ours;
#[cfg(feature = "rocksdb")]
mod rocksdb;

#[cfg(test)]
mod tests;

use super::{Selection, find, select};
use alluvium_bench::engine::Result;
use std::path::PathBuf;

/// The engines, in the order of tables.
pub const NAMES: [&str; 3] = [super::OURS, "rocksdb", "fjall"];

/// How to open a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyspaceSetup {
    /// Its directory, which exists.
    pub directory: PathBuf,
    /// Memory: Alluvium's budget for everything. The others get half of it as block cache, and RocksDB the other half
    /// for all write buffers; fjall has no such limit. `None` leaves the defaults.
    pub memory: Option<u64>,
    /// All keyspaces that it has, which are opened, too.
    pub names: Vec<String>,
    /// Values from this size on go to RocksDB's blob files, whose garbage is collected. Others have files of their own for large
    /// values by default, or none.
    pub blobs_from: Option<u64>,
}

/// An open store, with its keyspaces open.
pub trait KeyspaceStore {
    /// Creates a keyspace, which is open then.
    fn create(&mut self, name: &str) -> Result<()>;

    /// Drops an open keyspace and its data.
    fn drop_keyspace(&mut self, name: &str) -> Result<()>;

    /// The names of all keyspaces that were created here.
    fn names(&self) -> Result<Vec<String>>;

    /// A keyspace that is open.
    fn keyspace<'s>(&'s self, name: &str) -> Result<Box<dyn NamedKeyspace + 's>>;

    /// Bytes that were written to the log since the store was opened.
    fn logged_bytes(&self) -> Result<u64>;

    /// Closes the store.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A keyspace of an open store.
pub trait NamedKeyspace {
    /// Puts a pair.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Puts several pairs by one write.
    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> Result<()>;

    /// Ingests pairs with the keys 0 to `count`, as eight bytes in order, and values of `value_size` bytes that `fill` makes.
    /// An error of engines that are not compared in this.
    fn ingest(&self, _count: u64, _value_size: usize, _fill: &dyn Fn(u64, &mut [u8])) -> Result<()> {
        Err("does not ingest in this comparison".into())
    }

    /// Reads a value; false if there is none.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool>;

    /// Deletes the keys of a range, without its end.
    fn delete_range(&self, from: &[u8], to: &[u8]) -> Result<()>;

    /// A new iterator goes to the first key that is not smaller, and on to further pairs. Returns the pairs visited.
    fn seek(&self, from: &[u8], pairs: u64, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64>;

    /// Writes its memory to files, and waits until background work is done.
    fn flush(&self) -> Result<()>;

    /// Compacts all of it.
    fn compact(&self) -> Result<()>;
}

/// Opens a store.
pub type OpenKeyspaces = fn(&KeyspaceSetup) -> Result<Box<dyn KeyspaceStore>>;

/// How an engine is opened, if it has keyspaces and is built in.
pub fn opener(name: &str) -> Option<OpenKeyspaces> {
    match name {
        super::OURS => Some(ours::open),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Some(rocksdb::open),
        #[cfg(feature = "fjall")]
        "fjall" => Some(fjall::open),
        _ => None,
    }
}

/// An engine's version.
pub fn version(name: &str) -> String {
    match name {
        super::OURS => env!("CARGO_PKG_VERSION").to_owned(),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => super::rocksdb::version(),
        _ => super::versions::of(name).to_owned(),
    }
}

/// Picks engines that have keyspaces: those that are named, otherwise all that are built in.
///
/// # Errors
/// A name that no engine has, or a named engine that is not built in or has no keyspaces.
pub fn select_with_keyspaces(names: &[String]) -> std::result::Result<Selection, String> {
    if let Some(name) = names.iter().find(|name| find(name).is_some() && !NAMES.contains(&name.as_str())) {
        return Err(format!("{name} has no keyspaces in this comparison; these have: {}", NAMES.join(", ")));
    }
    if !names.is_empty() {
        return select(names, false);
    }
    let mut selection = Selection::default();
    for kind in NAMES.iter().filter_map(|name| find(name)) {
        match kind.hindrance(false) {
            None => selection.taken.push(kind),
            Some(why) => selection.skipped.push((kind.name, why)),
        }
    }
    Ok(selection)
}

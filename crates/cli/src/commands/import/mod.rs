//! `import`: loads the data of another store's directory, with a progress bar and a report.
//!
//! The source is opened first, so a wrong directory does not create an empty store. The source is only read.

mod leveldb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod rocksdb_files;
#[cfg(feature = "rocksdb")]
mod rocksdb_source;

use crate::arguments::Common;
use crate::failure::Failure;
use crate::import_arguments::{Import, ImportFrom};
use alluvium::limits::KEY_BYTES_MAX;

/// Bytes of a too-long key that an error message shows.
const KEY_BYTES_SHOWN: usize = 32;

/// Imports the pairs and prints a report.
pub fn run(common: &Common, import: &Import) -> Result<(), Failure> {
    let target = common.directory()?;
    if let (Ok(target), Ok(source)) = (target.canonicalize(), import.source.canonicalize())
        && target == source
    {
        return Err(Failure::Usage(format!(
            "{} cannot be imported into itself; pass another directory with --db",
            source.display()
        )));
    }
    match import.from {
        ImportFrom::Leveldb => leveldb::run(common, import),
        #[cfg(feature = "rocksdb")]
        ImportFrom::Rocksdb => rocksdb::run(common, import),
        #[cfg(not(feature = "rocksdb"))]
        ImportFrom::Rocksdb => Err(Failure::Usage(
            "this build cannot read RocksDB, because it lacks the feature `rocksdb`; \
             `cargo install --path crates/cli --features rocksdb` makes one that can, and the README says what that needs"
                .to_string(),
        )),
    }
}

/// What is wrong with a key that is too long.
fn too_long_text(key: &[u8]) -> String {
    let (length, beginning) = (key.len(), key[..KEY_BYTES_SHOWN].escape_ascii());
    format!("the key that begins with \"{beginning}\" has {length} bytes; the maximum is {KEY_BYTES_MAX}")
}

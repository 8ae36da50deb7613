//! The native part of the Python package `alluvium`. `python/alluvium/__init__.py` gives it its public names.
//!
//! Rules for every file here:
//! 1. Code that may read the disk, write or wait runs detached from the interpreter, so that other Python threads can
//!    run.
//! 2. Code waits for a lock only while detached (`lock.rs`), and no Python code runs while a lock or the open store is
//!    held. So nothing here can wait for a thread that waits for the interpreter.
//! 3. No Python memory is passed to the store while detached, except the contents of `bytes`, which never change.

mod backups;
mod batch;
mod changes;
mod database;
mod engine;
mod errors;
mod gap;
mod handle;
mod ingest;
mod iterator;
mod keys;
mod keyspace;
mod lock;
mod maintenance;
mod octets;
mod options;
mod place;
mod prefixed;
mod property;
mod raw_iterator;
mod retry;
mod scan;
mod snapshot;
mod source;
mod staged_batch;
mod stats;
mod transaction;
mod view;

/// The contents of `import alluvium._alluvium`.
#[pyo3::pymodule]
mod _alluvium {
    #[pymodule_export]
    use super::backups::Backups;
    #[pymodule_export]
    use super::batch::WriteBatch;
    #[pymodule_export]
    use super::changes::Changes;
    #[pymodule_export]
    use super::database::Db;
    #[pymodule_export]
    use super::iterator::Iterator;
    #[pymodule_export]
    use super::keyspace::Keyspace;
    #[pymodule_export]
    use super::maintenance::{destroy_db, repair_db};
    #[pymodule_export]
    use super::prefixed::PrefixedDb;
    #[pymodule_export]
    use super::raw_iterator::RawIterator;
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::staged_batch::StagedBatch;
    #[pymodule_export]
    use super::transaction::Transaction;
    #[pymodule_export]
    use super::view::View;

    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}

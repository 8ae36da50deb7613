//! The read set and write set of a transaction, and the check of its commit (`docs/concurrency.md`, P). The public type
//! is in `db`.

pub(crate) mod read_set;
pub(crate) mod validation;
pub(crate) mod write_set;

//! What a transaction remembers, and what its commit checks (`docs/concurrency.md`, P). The public handle is in `db`.

pub(crate) mod read_set;
pub(crate) mod validation;
pub(crate) mod write_set;

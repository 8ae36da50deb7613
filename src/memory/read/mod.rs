//! Reads of a Memtable: lookups of single keys, cursors, size estimates. Any thread.

pub(crate) mod approximate;
pub(crate) mod cursor;
pub(crate) mod lookup;
pub(crate) mod sealed_cursor;

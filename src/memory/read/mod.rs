//! Reads of a Memtable: one key, cursors in order, estimates.

pub(crate) mod approximate;
pub(crate) mod cursor;
pub(crate) mod lookup;
pub(crate) mod sealed_cursor;

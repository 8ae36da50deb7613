//! Reads of a Memtable: lookups of single keys, folds of operands, cursors, size estimates. Any thread.

pub(crate) mod approximate;
pub(crate) mod cursor;
pub(crate) mod folding;
pub(crate) mod lookup;
pub(crate) mod sealed_cursor;

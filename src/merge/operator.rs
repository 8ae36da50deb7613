//! Merge operators: the user's function from a value and operands to a new value.
//!
//! An operator is called from any thread, by reads and by background merges, any number of times for the same operands,
//! in any grouping that keeps their order. So it must be a pure function of its arguments.

use std::fmt;

/// Most bytes of a value that background merges fold operands into. Larger results stay as operands, which every read
/// folds. So a fold never creates a value that does not fit into a branch file.
pub const FOLDED_BYTES_MAX: usize = crate::util::limits::VALUE_FILE_BYTES_MIN;

/// See the module documentation. Keys are user keys.
pub trait MergeOperator: Send + Sync + 'static {
    /// The operator's name. It identifies how operands are interpreted: a store written with one operator cannot be
    /// read with another.
    fn name(&self) -> &str;

    /// Appends to `out` the value that results from applying the operands, oldest first, to `base` (`None`: the key has
    /// no value). An error explains why there is no result; a read returns it to its caller.
    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String>;

    /// Appends to `out` one operand equivalent to `older` followed by `newer`. Returns false if there is none. Must be
    /// associative.
    fn partial_merge(&self, key: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        let _ = (key, older, newer, out);
        false
    }
}

impl fmt::Debug for dyn MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "merge operator {:?}", self.name())
    }
}

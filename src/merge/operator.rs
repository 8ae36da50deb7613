//! What merge operands mean: the user's function from a value and operands to a new value.
//!
//! Called from any thread: from reads and from background merges, any number of times for the same operands, in any grouping
//! that keeps their order. So it is a pure function of its arguments.

use std::fmt;

/// Most bytes of what operands are folded into while branches are merged. What is larger stays as operands, which every read
/// folds; so a fold never makes a value that a branch file could not hold.
pub const FOLDED_BYTES_MAX: usize = crate::util::limits::VALUE_FILE_BYTES_MIN;

/// See the module. Keys are the user's.
pub trait MergeOperator: Send + Sync + 'static {
    /// Its name, which says how operands are to be read: a store written with one operator is not read with another.
    fn name(&self) -> &str;

    /// Appends to `out` the value that the operands, oldest first, make of `base` (`None`: the key has no value). An error
    /// says why they make none; a read hands it to its caller.
    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String>;

    /// Appends to `out` one operand that does what `older` and then `newer` do; false where there is none. Associative.
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

//! Merge operators: the user's function from a value and operands to a new value (the update messages of SplinterDB §2).
//!
//! `built_in` has those that come with the store, `associative` makes one of a function of two values.

mod associative;
mod built_in;
mod operators;

use std::any::Any;
use std::fmt;

pub use associative::Associative;
pub use built_in::{Add, Append, BitOr, Max, Min, check_name, named};
pub use operators::MergeOperators;

/// Most bytes of a value that background merges fold operands into. Larger results stay as operands, which every read
/// folds. So a fold never creates a value that does not fit into a branch file.
pub const FOLDED_BYTES_MAX: usize = crate::util::limits::VALUE_FILE_BYTES_MIN;

/// A function that makes a new value of a key's value and of *operands* that `Db::merge` has written. A merge writes
/// only the operand, without a read; reads and background merges call the operator.
///
/// The store calls an operator from any thread, any number of times for the same operands, in any grouping that keeps
/// their order. So an operator must be a pure function of its arguments, must not use the store, and should be fast. A
/// panic goes to the caller of a read or write, and in background work makes the store read-only: return an error instead.
/// A keyspace has one operator for all of its life: `Options::merge_operator` or `KeyspaceOptions::merge_operator`.
///
/// `merge_operators` has operators for common purposes. `merge_operators::Associative` makes one of a function of two
/// values, where operands and values have the same form.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, MergeOperator, Options};
///
/// /// A value is the number of visits and the last visitor; an operand is a visitor.
/// struct Visits;
///
/// impl MergeOperator for Visits {
///     fn name(&self) -> &str {
///         "example.visits"
///     }
///
///     fn full_merge(&self, _: &[u8], base: Option<&[u8]>, visitors: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
///         let before = base.and_then(|base| base.first()).copied().unwrap_or(0);
///         out.push(before.saturating_add(visitors.len().try_into().unwrap_or(u8::MAX)));
///         out.extend_from_slice(visitors.last().copied().unwrap_or_default());
///         Ok(())
///     }
/// }
///
/// let options = Options::new().merge_operator(Visits);
/// let db = Db::open(directory.path(), options)?;
/// db.merge("museum", "Ada")?;
/// db.merge("museum", "Grace")?;
/// assert_eq!(db.get("museum")?.as_deref(), Some(&b"\x02Grace"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub trait MergeOperator: Any + Send + Sync {
    /// The operator's name. It identifies how operands are interpreted, and the store remembers it: a store written with
    /// one operator cannot be opened with another one. Names that begin with `alluvium.` are reserved for the
    /// operators in `merge_operators`; others with such a name are refused, as `InvalidArgument`.
    fn name(&self) -> &str;

    /// Appends to `out` the value that results from applying the operands, oldest first, to `base` (`None`: the key has
    /// no value). An error explains why there is no result; a read returns it to its caller, as `Error::MergeOperands`.
    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String>;

    /// Appends to `out` one operand equivalent to `older` followed by `newer`. Returns false if there is none. With it,
    /// many merges of a key take the place of one, even where the key's value is not at hand.
    fn partial_merge(&self, key: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        let _ = (key, older, newer, out);
        false
    }

    /// Checks an operand before it is written. An error explains what is wrong with it.
    fn check(&self, key: &[u8], operand: &[u8]) -> Result<(), String> {
        let _ = (key, operand);
        Ok(())
    }
}

/// Joins neighbouring operands, which come oldest first, as far as the operator can and none gets longer than `bytes_max`. A
/// joined one has the tag of its newest part. Pairs are joined, then pairs of these, so that each byte is copied a few
/// times and not once for each operand.
pub fn join_operands<T>(
    operator: &dyn MergeOperator,
    key: &[u8],
    mut operands: Vec<(T, Vec<u8>)>,
    bytes_max: usize,
) -> Vec<(T, Vec<u8>)> {
    loop {
        let before = operands.len();
        let mut joined: Vec<(T, Vec<u8>)> = Vec::with_capacity(before);
        // Of a pair only the first one may be joined with the next: so each round halves what can be joined.
        let mut is_open = false;
        for (tag, operand) in operands {
            if let Some(last) = joined.last_mut().filter(|_| is_open) {
                let mut both = Vec::new();
                if last.1.len() + operand.len() <= bytes_max
                    && operator.partial_merge(key, &last.1, &operand, &mut both)
                    && both.len() <= bytes_max
                {
                    (*last, is_open) = ((tag, both), false);
                    continue;
                }
            }
            joined.push((tag, operand));
            is_open = true;
        }
        operands = joined;
        // Most operands cannot be joined: further rounds would hardly change that.
        if operands.len() * 10 > before * 9 {
            return operands;
        }
    }
}

impl fmt::Debug for dyn MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "merge operator {:?}", self.name())
    }
}

//! An operator made of an associative function.

use super::MergeOperator;
use std::fmt;

/// A merge operator whose operands have the form of values: a function of two of them appends what they make together.
/// A key without a value takes the first operand as its value. The function must be associative: `(a + b) + c` is
/// `a + (b + c)`. It need not be commutative: the first argument is the older one.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, merge_operators::Associative};
///
/// let longer = Associative::new("example.longer", |one: &[u8], other: &[u8], out: &mut Vec<u8>| {
///     out.extend_from_slice(if other.len() > one.len() { other } else { one });
/// });
/// let db = Db::open(directory.path(), Options::new().merge_operator(longer))?;
/// for name in ["Po", "Danube", "Rhine"] {
///     db.merge("longest name", name)?;
/// }
/// assert_eq!(db.get("longest name")?.as_deref(), Some(&b"Danube"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Associative<F> {
    name: String,
    function: F,
}

impl<F: Fn(&[u8], &[u8], &mut Vec<u8>) + Send + Sync + 'static> Associative<F> {
    /// An operator with this name. See `MergeOperator` for what the function must not do.
    pub fn new(name: impl Into<String>, function: F) -> Self {
        Self { name: name.into(), function }
    }
}

impl<F: Fn(&[u8], &[u8], &mut Vec<u8>) + Send + Sync + 'static> MergeOperator for Associative<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        fold(base, operands, out, |older, newer, out| {
            (self.function)(older, newer, out);
            Ok(())
        })
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        (self.function)(older, newer, out);
        true
    }
}

impl<F: Fn(&[u8], &[u8], &mut Vec<u8>) + Send + Sync + 'static> From<Associative<F>>
    for std::sync::Arc<dyn MergeOperator>
{
    fn from(operator: Associative<F>) -> Self {
        std::sync::Arc::<Associative<F>>::new(operator)
    }
}

impl<F> fmt::Debug for Associative<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Associative").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Applies a function of two values to all values, oldest first.
pub(super) fn fold(
    base: Option<&[u8]>,
    operands: &[&[u8]],
    out: &mut Vec<u8>,
    function: impl Fn(&[u8], &[u8], &mut Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    let mut values = base.into_iter().chain(operands.iter().copied());
    let (mut folded, mut next) = (values.next().unwrap_or_default().to_vec(), Vec::new());
    for value in values {
        next.clear();
        function(&folded, value, &mut next)?;
        std::mem::swap(&mut folded, &mut next);
    }
    out.extend_from_slice(&folded);
    Ok(())
}

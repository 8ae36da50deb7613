//! The operators that come with the store. A store that was written with one of them finds it by its name.

use super::MergeOperator;
use super::associative::fold;
use crate::util::{Error, Result as StoreResult};
use std::any::Any;
use std::sync::Arc;

/// How the names of the store's own operators begin.
const RESERVED: &str = "alluvium.";

/// Adds integers: values and operands are 64-bit integers in eight bytes, least significant byte first
/// (`i64::to_le_bytes`). A key without a value counts from 0; the sum wraps around.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, merge_operators::Add};
///
/// let db = Db::open(directory.path(), Options::new().merge_operator(Add))?;
/// db.merge("visits", 1_i64.to_le_bytes())?;
/// db.merge("visits", 41_i64.to_le_bytes())?;
/// assert_eq!(db.get("visits")?, Some(42_i64.to_le_bytes().to_vec()));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Add;

/// Appends operands to the value, without anything in between.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, merge_operators::Append};
///
/// let db = Db::open(directory.path(), Options::new().merge_operator(Append))?;
/// db.put("log", "start;")?;
/// db.merge("log", "stop;")?;
/// assert_eq!(db.get("log")?.as_deref(), Some(&b"start;stop;"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Append;

/// Keeps the greatest of value and operands, in the byte order of keys. Numbers need a form in which that is their own
/// order, such as `u64::to_be_bytes`.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, merge_operators::Max};
///
/// let db = Db::open(directory.path(), Options::new().merge_operator(Max))?;
/// for level in [3_u64, 17, 12] {
///     db.merge("flood", level.to_be_bytes())?;
/// }
/// assert_eq!(db.get("flood")?, Some(17_u64.to_be_bytes().to_vec()));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Max;

/// Keeps the least of value and operands, in the byte order of keys; see `Max`.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, merge_operators::Min};
///
/// let db = Db::open(directory.path(), Options::new().merge_operator(Min))?;
/// db.merge("first seen", "2026-03-01")?;
/// db.merge("first seen", "2025-11-09")?;
/// assert_eq!(db.get("first seen")?.as_deref(), Some(&b"2025-11-09"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Min;

/// Joins sets of bits: byte by byte, the bits that the value or an operand has. The result is as long as the longest of
/// them.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, merge_operators::BitOr};
///
/// let db = Db::open(directory.path(), Options::new().merge_operator(BitOr))?;
/// db.merge("seen", [0b0000_0001])?;
/// db.merge("seen", [0b0000_0100, 0b1000_0000])?;
/// assert_eq!(db.get("seen")?, Some(vec![0b0000_0101, 0b1000_0000]));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BitOr;

/// The operator with this name that comes with the store: `alluvium.add`, `alluvium.append`, `alluvium.bitor`,
/// `alluvium.max` or `alluvium.min`.
///
/// ```
/// use alluvium::merge_operators::named;
/// assert!(named("alluvium.add").is_some() && named("example.words").is_none());
/// ```
pub fn named(name: &str) -> Option<Arc<dyn MergeOperator>> {
    let all: [Arc<dyn MergeOperator>; 5] =
        [Arc::new(Add), Arc::new(Append), Arc::new(Max), Arc::new(Min), Arc::new(BitOr)];
    all.into_iter().find(|operator| operator.name() == name)
}

/// An error if a store cannot remember the operator by its name, or would take it for one of its own operators.
pub fn check_name(operator: &dyn MergeOperator) -> StoreResult<()> {
    let name = operator.name();
    if name.is_empty() {
        return Err(Error::InvalidArgument("the merge operator has an empty name".into()));
    }
    if name.starts_with(RESERVED) && !is_built_in(operator) {
        return Err(Error::InvalidArgument(format!(
            "the merge operator has the name {name:?}: names that begin with {RESERVED:?} are reserved for the operators \
             in `merge_operators`; choose another name"
        )));
    }
    Ok(())
}

/// Whether the operator is the one that its name finds. Another type with the same name is not.
fn is_built_in(operator: &dyn MergeOperator) -> bool {
    let type_of = |operator: &dyn MergeOperator| (operator as &dyn Any).type_id();
    named(operator.name()).is_some_and(|known| type_of(&*known) == type_of(operator))
}

/// The integer in a value or an operand of `Add`.
fn integer(bytes: &[u8]) -> Result<i64, String> {
    let bytes = bytes.try_into().map_err(|_| format!("{} bytes are no integer, which has 8 bytes", bytes.len()))?;
    Ok(i64::from_le_bytes(bytes))
}

impl MergeOperator for Add {
    fn name(&self) -> &str {
        "alluvium.add"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        let values = base.into_iter().chain(operands.iter().copied());
        let sum = values.map(integer).try_fold(0_i64, |sum, value| value.map(|value| sum.wrapping_add(value)))?;
        out.extend_from_slice(&sum.to_le_bytes());
        Ok(())
    }

    fn partial_merge(&self, key: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        self.full_merge(key, Some(older), &[newer], out).is_ok()
    }

    fn check(&self, _: &[u8], operand: &[u8]) -> Result<(), String> {
        integer(operand).map(drop)
    }
}

/// Implements an operator by a function of two values that cannot fail.
macro_rules! associative {
    ($operator:ty, $name:literal, $function:expr) => {
        impl MergeOperator for $operator {
            fn name(&self) -> &str {
                $name
            }

            fn full_merge(
                &self,
                _: &[u8],
                base: Option<&[u8]>,
                operands: &[&[u8]],
                out: &mut Vec<u8>,
            ) -> Result<(), String> {
                fold(base, operands, out, |older, newer, out| {
                    $function(older, newer, out);
                    Ok(())
                })
            }

            fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
                $function(older, newer, out);
                true
            }
        }
    };
}

associative!(Max, "alluvium.max", |older: &[u8], newer: &[u8], out: &mut Vec<u8>| {
    out.extend_from_slice(older.max(newer));
});

associative!(Min, "alluvium.min", |older: &[u8], newer: &[u8], out: &mut Vec<u8>| {
    out.extend_from_slice(older.min(newer));
});

associative!(BitOr, "alluvium.bitor", |older: &[u8], newer: &[u8], out: &mut Vec<u8>| {
    let (longer, shorter) = if older.len() < newer.len() { (newer, older) } else { (older, newer) };
    let start = out.len();
    out.extend_from_slice(longer);
    out[start..].iter_mut().zip(shorter).for_each(|(byte, other)| *byte |= other);
});

/// All operands are appended in one pass, however long the value is.
impl MergeOperator for Append {
    fn name(&self) -> &str {
        "alluvium.append"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        base.iter().chain(operands).for_each(|part| out.extend_from_slice(part));
        Ok(())
    }

    fn partial_merge(&self, _: &[u8], older: &[u8], newer: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(older);
        out.extend_from_slice(newer);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(operator: &dyn MergeOperator, base: Option<&[u8]>, operands: &[&[u8]]) -> Vec<u8> {
        let mut out = b"kept".to_vec();
        operator.full_merge(b"key", base, operands, &mut out).unwrap();
        out.strip_prefix(b"kept").unwrap().to_vec()
    }

    /// Every grouping of operands has the same result, which is what lets reads and merges fold any part of them.
    #[test]
    fn groupings_do_not_matter() {
        let numbers: Vec<Vec<u8>> = [i64::MAX, 5, -9, 1 << 40].iter().map(|n| n.to_le_bytes().to_vec()).collect();
        let texts: Vec<Vec<u8>> = ["b", "", "abc", "\u{ff}"].iter().map(|text| text.as_bytes().to_vec()).collect();
        let operators: [(&dyn MergeOperator, &[Vec<u8>]); 5] =
            [(&Add, &numbers), (&Append, &texts), (&Max, &texts), (&Min, &texts), (&BitOr, &texts)];
        for (operator, values) in operators {
            let parts: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
            for base in [None, Some(parts[0])] {
                let whole = full(operator, base, &parts[1..]);
                for split in 1..parts.len() - 1 {
                    let first = full(operator, base, &parts[1..=split]);
                    assert_eq!(full(operator, Some(&first), &parts[split + 1..]), whole, "{operator:?}");
                }
                let mut joined = Vec::new();
                assert!(operator.partial_merge(b"key", parts[2], parts[3], &mut joined));
                assert_eq!(full(operator, base, &[parts[1], &joined]), whole, "{operator:?}");
            }
            assert_eq!(named(operator.name()).map(|found| found.name().to_owned()), Some(operator.name().to_owned()));
        }
        assert!(named("alluvium.other").is_none());
    }

    #[test]
    fn results_are_what_the_names_say() {
        let number = |n: i64| n.to_le_bytes();
        assert_eq!(full(&Add, None, &[&number(i64::MAX), &number(1)]), number(i64::MIN));
        assert_eq!(full(&Append, Some(b"a"), &[b"b", b"c"]), b"abc");
        assert_eq!(
            (full(&Max, Some(b"ab"), &[b"b", b"a"]), full(&Min, None, &[b"b", b"a"])),
            (b"b".into(), b"a".into())
        );
        assert_eq!(full(&BitOr, Some(&[1]), &[&[4, 8], &[2]]), [7, 8]);
    }

    #[test]
    fn what_is_no_integer_is_refused() {
        assert!(Add.check(b"key", b"1").unwrap_err().contains("1 bytes"));
        assert!(Add.check(b"key", &[0; 8]).is_ok());
        let mut out = Vec::new();
        assert!(Add.full_merge(b"key", Some(b"text"), &[&[0; 8]], &mut out).is_err());
        assert!(!Add.partial_merge(b"key", b"", &[0; 8], &mut out));
    }
}

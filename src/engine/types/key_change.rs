//! What a write does to one key.

use crate::merge::MergeOperator;
use crate::util::{Error, Result, limits};

/// Operands are shorter than this: they stay in memory and in branch files.
pub(crate) const OPERAND_BYTES_END: usize = limits::VALUE_FILE_BYTES_MIN;

/// The error of an operator that refuses operands.
pub(crate) fn refused(key: &[u8], operator: &dyn MergeOperator, said: &str) -> Error {
    let reason = format!("{said}; a put or a delete of the key replaces them");
    Error::MergeOperands { operator: operator.name().to_owned(), key: key.to_vec(), reason }
}

/// What a write does to one key. `B` holds bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyChange<B> {
    Put(B),
    Delete,
    Merge(B),
}

impl<B: AsRef<[u8]>> KeyChange<B> {
    /// The same change with borrowed bytes.
    pub(crate) fn as_bytes(&self) -> KeyChange<&[u8]> {
        match self {
            Self::Put(value) => KeyChange::Put(value.as_ref()),
            Self::Delete => KeyChange::Delete,
            Self::Merge(operand) => KeyChange::Merge(operand.as_ref()),
        }
    }

    /// Length of the value or operand.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Put(bytes) | Self::Merge(bytes) => bytes.as_ref().len(),
            Self::Delete => 0,
        }
    }
}

impl<'b> KeyChange<&'b [u8]> {
    /// Puts a value; `None` deletes.
    pub(crate) fn to_value(value: Option<&'b [u8]>) -> Self {
        value.map_or(Self::Delete, Self::Put)
    }

    /// This change and then an operand, as one change; `None` if the operator cannot join two operands.
    pub(crate) fn followed_by(
        self,
        key: &[u8],
        operand: &[u8],
        operator: &dyn MergeOperator,
    ) -> Result<Option<KeyChange<Vec<u8>>>> {
        let mut out = Vec::new();
        let base = match self {
            Self::Put(value) => Some(value),
            Self::Delete => None,
            Self::Merge(older) => {
                let is_joined = operator.partial_merge(key, older, operand, &mut out) && out.len() < OPERAND_BYTES_END;
                return Ok(is_joined.then_some(KeyChange::Merge(out)));
            }
        };
        operator.full_merge(key, base, &[operand], &mut out).map_err(|said| refused(key, operator, &said))?;
        Ok(Some(KeyChange::Put(out)))
    }

    /// The same change with bytes of its own.
    pub(crate) fn to_owned(self) -> KeyChange<Vec<u8>> {
        match self {
            Self::Put(value) => KeyChange::Put(value.to_vec()),
            Self::Delete => KeyChange::Delete,
            Self::Merge(operand) => KeyChange::Merge(operand.to_vec()),
        }
    }
}

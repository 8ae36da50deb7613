//! The limits of keys, values, operands, ranges and batches. Pure functions.

use super::entry::Entry;
use crate::engine::types::bounds::UserRange;
use crate::engine::types::key_change::OPERAND_BYTES_END;
use crate::merge::MergeOperator;
use crate::util::{Error, Result, limits};

/// Checks the sizes of a batch, before its large values are in files. Returns the bytes of its values, or what it takes in memory if that is more.
pub(super) fn check_batch(entries: &[Entry<'_>], deleted: &[UserRange]) -> Result<usize> {
    let (mut in_memory, mut in_all) = (0, 0);
    for range in deleted {
        check_range(range)?;
        in_memory += limits::OPERATION_MEMORY_BYTES + range.bytes();
    }
    for Entry { key, value, .. } in entries {
        let value_bytes = value.len();
        check_lengths(key.bytes.len(), value_bytes)?;
        in_all += value_bytes;
        in_memory += limits::OPERATION_MEMORY_BYTES
            + key.bytes.len()
            + if value_bytes < limits::VALUE_FILE_BYTES_MIN { value_bytes } else { 0 };
    }
    if in_memory > limits::BATCH_BYTES_MAX {
        return Err(Error::InvalidArgument(format!(
            "the batch or transaction carries {in_memory} bytes, at most {} fit; split it",
            limits::BATCH_BYTES_MAX
        )));
    }
    Ok(in_all.max(in_memory))
}

/// Checks the sizes of a range's bounds.
pub(crate) fn check_range(range: &UserRange) -> Result<()> {
    let longest = range.start.len().max(range.end.as_ref().map_or(0, Vec::len));
    if longest > limits::KEY_BYTES_MAX {
        return Err(Error::InvalidArgument(format!(
            "a bound of the range has {longest} bytes, at most {} fit",
            limits::KEY_BYTES_MAX
        )));
    }
    Ok(())
}

/// Checks the sizes of a key and a value.
pub(crate) fn check_sizes(key: &[u8], value: Option<&[u8]>) -> Result<()> {
    check_lengths(key.len(), value.map_or(0, <[u8]>::len))
}

fn check_lengths(key_bytes: usize, value_bytes: usize) -> Result<()> {
    if key_bytes > limits::KEY_BYTES_MAX {
        return Err(Error::InvalidArgument(format!(
            "the key has {key_bytes} bytes, at most {} fit",
            limits::KEY_BYTES_MAX
        )));
    }
    if value_bytes > limits::VALUE_BYTES_MAX {
        return Err(Error::InvalidArgument(format!(
            "the value has {value_bytes} bytes, at most {} fit",
            limits::VALUE_BYTES_MAX
        )));
    }
    Ok(())
}

/// Checks an operand and its size.
pub(crate) fn check_operand(operator: &dyn MergeOperator, key: &[u8], operand: &[u8]) -> Result<()> {
    check_sizes(key, Some(operand))?;
    if operand.len() >= OPERAND_BYTES_END {
        return Err(Error::InvalidArgument(format!(
            "the operand has {} bytes, at most {} fit; read the value and put the result",
            operand.len(),
            OPERAND_BYTES_END - 1
        )));
    }
    operator.check(key, operand).map_err(|said| {
        Error::InvalidArgument(format!("the merge operator {:?} refuses the operand: {said}", operator.name()))
    })
}

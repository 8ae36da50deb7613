//! Writes of the log on their way into a change file: sorted, and without what concerns this store alone. One thread.

use crate::format::catalog;
use crate::format::log_record::{BatchEncoder, Operation, Operations, batch_length};
use crate::format::value_file::ValueReference;
use crate::util::{Error, KeyspaceId, Kind, Result, SequenceNumber};
use crate::value::ValueFiles;

/// Some writes. Large values are still references.
#[derive(Default)]
pub(super) struct Writes {
    /// Number, start in `bodies`, length.
    writes: Vec<(SequenceNumber, usize, usize)>,
    bodies: Vec<u8>,
}

impl Writes {
    /// Adds a write, if anything of it concerns followers.
    pub(super) fn add(&mut self, number: SequenceNumber, operations: Operations<'_>) {
        let wanted = || operations.clone().filter(concerns_followers);
        let (count, start) = (wanted().count(), self.bodies.len());
        if count == 0 {
            return;
        }
        let length = batch_length(wanted());
        self.bodies.resize(start + length, 0);
        let mut encoder = BatchEncoder::new(count as u64, &mut self.bodies[start..]);
        wanted().for_each(|operation| encoder.push(operation));
        self.writes.push((number, start, length));
    }

    /// Sorts by number, and calls `take` for each with the body of its batch, in which large values are values.
    pub(super) fn drain(
        &mut self,
        values: &ValueFiles,
        mut take: impl FnMut(SequenceNumber, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.writes.sort_unstable_by_key(|(number, ..)| *number);
        let mut whole = Vec::new();
        for (number, start, length) in self.writes.drain(..) {
            let body = &self.bodies[start..start + length];
            let operations = || Operations::parse(Kind::Batch, body).into_iter().flatten();
            if operations().all(|operation| operation.kind != Kind::ValueReference) {
                take(number, body)?;
                continue;
            }
            with_values(operations, values, &mut whole)?;
            take(number, &whole)?;
        }
        self.bodies.clear();
        Ok(())
    }
}

/// Of the catalog only the names of keyspaces; the rest is how this store does its own work.
fn concerns_followers(operation: &Operation<'_>) -> bool {
    operation.keyspace != KeyspaceId::CATALOG || operation.key.starts_with(catalog::NAMES)
}

/// Puts values in place of the references to their files.
fn with_values<'a, I: Iterator<Item = Operation<'a>>>(
    operations: impl Fn() -> I,
    values: &ValueFiles,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut read = Vec::new();
    for operation in operations().filter(|operation| operation.kind == Kind::ValueReference) {
        let reference = ValueReference::decode(operation.value).ok_or_else(|| {
            Error::InvalidArgument(format!("a value reference of {} bytes in the log", operation.value.len()))
        })?;
        let mut value = Vec::new();
        values.read(&reference, &mut value)?;
        read.push(value);
    }
    let whole = || {
        let mut values = read.iter();
        operations().map(move |operation| match operation.kind {
            Kind::ValueReference => {
                let value = values.next().map_or(&[][..], |value| &value[..]);
                Operation { kind: Kind::Put, value, ..operation }
            }
            _ => operation,
        })
    };
    out.clear();
    out.resize(batch_length(whole()), 0);
    let mut encoder = BatchEncoder::new(whole().count() as u64, out);
    whole().for_each(|operation| encoder.push(operation));
    Ok(())
}

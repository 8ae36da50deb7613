//! Writes of the log on their way into a change file: sorted, and without what concerns this store alone. One thread.

use crate::format::catalog;
use crate::format::log_record::{BatchEncoder, Operation, Operations, batch_length};
use crate::format::value_file::ValueReference;
use crate::util::{Error, KeyspaceId, Kind, Result, SequenceNumber};
use crate::value::ValueFiles;

/// Some writes. Large values are still references.
#[derive(Default)]
pub(super) struct Writes {
    writes: Vec<Write>,
    bodies: Vec<u8>,
}

/// The place of a write in `bodies`, and what is special about it.
struct Write {
    number: SequenceNumber,
    start: usize,
    length: usize,
    has_references: bool,
    names_keyspaces: bool,
}

impl Writes {
    /// Adds a write, if anything of it concerns followers.
    pub(super) fn add(&mut self, number: SequenceNumber, operations: Operations<'_>) {
        let (mut wanted, mut others, mut has_references, mut names_keyspaces) = (0, 0, false, false);
        for operation in operations.clone() {
            *(if concerns_followers(&operation) { &mut wanted } else { &mut others }) += 1;
            has_references |= operation.kind == Kind::ValueReference;
            names_keyspaces |= operation.keyspace == KeyspaceId::CATALOG;
        }
        if wanted == 0 {
            return;
        }
        let start = self.bodies.len();
        if others == 0 {
            operations.append_as_batch(&mut self.bodies);
        } else {
            let wanted_ones = || operations.clone().filter(concerns_followers);
            self.bodies.resize(start + batch_length(wanted_ones()), 0);
            let mut encoder = BatchEncoder::new(wanted, &mut self.bodies[start..]);
            wanted_ones().for_each(|operation| encoder.push(operation));
        }
        let length = self.bodies.len() - start;
        self.writes.push(Write { number, start, length, has_references, names_keyspaces });
    }

    /// About what it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.bodies.len() + self.writes.len() * size_of::<Write>()
    }

    /// Sorts by number, and calls `take` for each with the body of its batch, in which large values are values, and with whether it
    /// changes names of keyspaces.
    pub(super) fn drain(
        &mut self,
        values: &ValueFiles,
        mut take: impl FnMut(SequenceNumber, &[u8], bool) -> Result<()>,
    ) -> Result<()> {
        self.writes.sort_unstable_by_key(|write| write.number);
        let mut whole = Vec::new();
        for Write { number, start, length, has_references, names_keyspaces } in self.writes.drain(..) {
            let mut body = &self.bodies[start..start + length];
            if has_references {
                with_values(|| Operations::parse(Kind::Batch, body).into_iter().flatten(), values, &mut whole)?;
                body = &whole;
            }
            take(number, body, names_keyspaces)?;
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

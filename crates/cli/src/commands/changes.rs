//! `changes`: prints what was written, in order, or says how much of it is kept.

use crate::arguments::Common;
use crate::bytes::{escape_into, hex, hex_into};
use crate::changes_arguments::{Changes, ChangesAction, Keep};
use crate::failure::Failure;
use crate::output::Output;
use alluvium::{ChangeRetention, CommittedWrite, Error, KeyspaceChange, Operation};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long to wait before looking again.
const WAIT: Duration = Duration::from_millis(100);

/// Runs the action. Only printing prints something.
pub fn run(common: &Common, changes: &Changes) -> Result<(), Failure> {
    match &changes.action {
        Some(ChangesAction::Keep(asked)) => keep(common, asked),
        None => print(common, changes),
    }
}

fn keep(common: &Common, asked: &Keep) -> Result<(), Failure> {
    let retention = ChangeRetention::new(asked.bytes).age(asked.age);
    Ok(common.open_to_keep_changes(retention)?.close()?)
}

fn print(common: &Common, asked: &Changes) -> Result<(), Failure> {
    let db = common.open_to_read()?;
    let since = match asked.since {
        Some(since) => since,
        // The oldest that is kept.
        None => match db.changes(0) {
            Err(Error::ChangesTooOld { oldest, .. }) => oldest,
            other => other.map(|_| 0)?,
        },
    };
    let mut changes = db.changes(since)?;
    let mut output = Output::new();
    let mut left = asked.limit.unwrap_or(u64::MAX);
    let mut line = Vec::new();
    while left > 0 {
        let Some(write) = changes.next() else {
            output.flush()?;
            if !asked.follow {
                break;
            }
            std::thread::sleep(WAIT);
            continue;
        };
        let write = write?;
        for change in steps(&write) {
            line.clear();
            match common.json {
                true => line.extend_from_slice(change.json(write.number(), common.hex).to_string().as_bytes()),
                false => change.append(write.number(), common.hex, &mut line),
            }
            line.push(b'\n');
            output.bytes(&line)?;
        }
        left -= 1;
    }
    output.finish()
}

/// One line.
struct Step<'a> {
    what: &'static str,
    keyspace: &'a str,
    /// The names of the fields, and what they have; `None` for the open end of a range.
    fields: Vec<(&'static str, Option<&'a [u8]>)>,
}

fn steps(write: &CommittedWrite) -> impl Iterator<Item = Step<'_>> {
    let keyspaces = write.keyspaces().iter().filter_map(|change| match change {
        KeyspaceChange::Set { keyspace, .. } => Some(Step { what: "set-keyspace", keyspace, fields: Vec::new() }),
        KeyspaceChange::Dropped { keyspace } => Some(Step { what: "drop-keyspace", keyspace, fields: Vec::new() }),
        _ => None,
    });
    let operations = write.operations().filter_map(|operation| {
        let (what, keyspace, fields) = match operation {
            Operation::Put { keyspace, key, value } => {
                ("put", keyspace, vec![("key", Some(key)), ("value", Some(value))])
            }
            Operation::Delete { keyspace, key } => ("delete", keyspace, vec![("key", Some(key))]),
            Operation::Merge { keyspace, key, operand } => {
                ("merge", keyspace, vec![("key", Some(key)), ("operand", Some(operand))])
            }
            Operation::DeleteRange { keyspace, start, end } => {
                ("delete-range", keyspace, vec![("start", Some(start)), ("end", end)])
            }
            _ => return None,
        };
        Some(Step { what, keyspace, fields })
    });
    keyspaces.chain(operations)
}

impl Step<'_> {
    fn append(&self, number: u64, hexadecimal: bool, line: &mut Vec<u8>) {
        line.extend_from_slice(format!("{number}\t{}\t", self.what).as_bytes());
        escape_into(self.keyspace.as_bytes(), line);
        for (_, bytes) in &self.fields {
            line.push(b'\t');
            let bytes = bytes.unwrap_or_default();
            if hexadecimal { hex_into(bytes, line) } else { escape_into(bytes, line) }
        }
    }

    fn json(&self, number: u64, hexadecimal: bool) -> Value {
        let mut object = Map::new();
        object.insert("number".into(), json!(number));
        object.insert("operation".into(), json!(self.what));
        object.insert("keyspace".into(), json!(self.keyspace));
        for (name, bytes) in &self.fields {
            let Some(bytes) = bytes else { continue };
            match std::str::from_utf8(bytes).ok().filter(|_| !hexadecimal) {
                Some(text) => object.insert((*name).into(), json!(text)),
                None => object.insert(format!("{name}_hex"), json!(hex(bytes))),
            };
        }
        object.into()
    }
}

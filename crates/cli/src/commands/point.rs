//! `put`, `get`, `delete` and `merge`.

use super::key_range;
use crate::arguments::{Common, Delete, Get, Merge, Put};
use crate::bytes;
use crate::failure::Failure;
use crate::input::InputError;
use crate::output::{Output, PairForm};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Sets a key. Prints nothing.
pub fn put(common: &Common, put: &Put) -> Result<(), Failure> {
    let key = common.argument("KEY", &put.key)?;
    let value = match (&put.value, &put.value_file) {
        (_, Some(path)) => read_all(path)?,
        (value, None) => common.argument("VALUE", value.as_deref().unwrap_or_default())?,
    };
    let db = common.open_or_create()?;
    put.within.open_or_create(&db)?.put_with(&key, &value, common.write_options())?;
    Ok(db.close()?)
}

fn read_all(path: &Path) -> Result<Vec<u8>, InputError> {
    let mut value = Vec::new();
    let (name, read) = if path == Path::new("-") {
        ("standard input".to_string(), io::stdin().read_to_end(&mut value))
    } else {
        (path.display().to_string(), File::open(path).and_then(|mut file| file.read_to_end(&mut value)))
    };
    match read {
        Ok(_) => Ok(value),
        Err(source) => Err(InputError::Io { operation: "read", name, source }),
    }
}

/// Prints a key's value.
pub fn get(common: &Common, get: &Get) -> Result<(), Failure> {
    let key = common.argument("KEY", &get.key)?;
    let db = common.open_to_read()?;
    let value = get.within.read(&db)?.get(&key)?;
    let value = value.ok_or(Failure::Absent)?;
    let mut output = Output::new();
    if common.json {
        output.pair(PairForm::Json { hex: common.hex }, &key, &value)?;
    } else if get.integer {
        let wrong = |_| {
            let bytes = value.len();
            Failure::Usage(format!(
                "the value has {bytes} bytes and is no integer: --integer is for values of eight bytes"
            ))
        };
        output.bytes(i64::from_le_bytes(value[..].try_into().map_err(wrong)?).to_string().as_bytes())?;
        output.bytes(if get.no_newline { b"" } else { b"\n" })?;
    } else if common.hex {
        output.line(bytes::hex(&value))?;
    } else {
        output.bytes(&value)?;
        output.bytes(if get.no_newline { b"" } else { b"\n" })?;
    }
    output.finish()
}

/// Removes a key, or all keys of a range. Prints nothing.
pub fn delete(common: &Common, delete: &Delete) -> Result<(), Failure> {
    let key = delete.key.as_ref().map(|key| common.argument("KEY", key)).transpose()?;
    let range = key_range::parse(common, &delete.range)?;
    refuse_empty_bounds(delete)?;
    let db = common.open_to_change()?;
    let (keyspace, options) = (delete.within.open_existing(&db)?, common.write_options());
    match (key, range) {
        (Some(key), _) => keyspace.delete_with(&key, options)?,
        (None, Some(range)) => keyspace.delete_range_with(range, options)?,
        (None, None) => {}
    }
    Ok(db.close()?)
}

/// An empty prefix or bound is most likely a variable of a script that is not set, and would delete too much.
fn refuse_empty_bounds(delete: &Delete) -> Result<(), Failure> {
    let name = delete.within.keyspace.as_deref().unwrap_or("default");
    let range = &delete.range;
    let bounds = [("the prefix", &range.prefix), ("--from", &range.from), ("--to", &range.to)];
    let Some((what, _)) = bounds.into_iter().find(|(_, text)| text.as_deref() == Some("")) else { return Ok(()) };
    let without = if what == "the prefix" { "" } else { "leave it out for a range without this bound; " };
    Err(Failure::Usage(format!(
        "{what} is empty; nothing was deleted; {without}to delete all keys use `keyspaces clear {name}`"
    )))
}

/// Merges an operand into a key. Prints nothing.
pub fn merge(common: &Common, merge: &Merge) -> Result<(), Failure> {
    let key = common.argument("KEY", &merge.key)?;
    let operand = if merge.integer {
        let number: i64 = merge.operand.parse().map_err(|why| {
            Failure::Usage(format!("OPERAND {:?}: {why}; --integer takes a number of 64 bits", merge.operand))
        })?;
        number.to_le_bytes().to_vec()
    } else {
        common.argument("OPERAND", &merge.operand)?
    };
    common.refuse_other_order()?;
    // The operator of the default keyspace is an option of the store.
    let of_store = merge.operator.filter(|_| merge.within.is_default());
    let db = common.open_to_merge(of_store)?;
    let keyspace = merge.within.open_existing_with(&db, merge.operator)?;
    keyspace.merge_with(&key, &operand, common.write_options())?;
    Ok(db.close()?)
}

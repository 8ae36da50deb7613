//! `dump`: prints all pairs in a format that `load` reads, or the list of files.

use super::pairs::{Order, Pairs};
use crate::arguments::{Common, Dump};
use crate::failure::Failure;
use crate::input::Format;
use crate::keyspace_arguments::InKeyspace;
use crate::output::{Output, PairForm};
use crate::report::{align_right, grouped, table};
use crate::store_files::{self, FileKind, StoreFile};
use alluvium::ReadOnlyDb;
use comfy_table::Table;
use serde_json::{Value, json};
use std::ops::Bound;

/// Most keyspaces that the note about others names.
const NAMED_MAX: usize = 10;

/// Prints the pairs or the files.
pub fn run(common: &Common, dump: &Dump) -> Result<(), Failure> {
    if dump.files { files(common) } else { pairs(common, dump) }
}

fn pairs(common: &Common, dump: &Dump) -> Result<(), Failure> {
    let form = match dump.format {
        None => PairForm::new(common.json, common.hex),
        Some(Format::Tsv) => PairForm::new(false, common.hex),
        Some(Format::Jsonl) => PairForm::new(true, common.hex),
        Some(Format::Csv) => PairForm::Csv { hex: common.hex },
    };
    let db = common.open_to_read()?;
    let contents = dump.within.read(&db)?;
    let mut output = Output::new();
    let mut pairs = Pairs::new(contents, (Bound::Unbounded, Bound::Unbounded), Order::Ascending)?;
    while let Some((key, value)) = pairs.pair() {
        output.pair(form, key, value)?;
        pairs.step()?;
    }
    output.finish()?;
    note_others(&dump.within, &db)?;
    pairs.finish()
}

/// Says on standard error which keyspaces the dump does not have: it could be taken for a copy of the whole store.
fn note_others(within: &InKeyspace, db: &ReadOnlyDb) -> Result<(), Failure> {
    let mut others = db.keyspace_names()?;
    if !within.is_default() {
        others.retain(|name| Some(name) != within.keyspace.as_ref());
        if !db.snapshot().is_empty()? {
            others.insert(0, "default".to_owned());
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = others.iter().take(NAMED_MAX).map(|name| format!("{name:?}")).collect();
    let more = others.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    eprintln!(
        "alluvium: note: this dump has one keyspace; not in it: {}{more} (`dump --keyspace NAME` dumps one, \
         `load --keyspace NAME` loads it)",
        names.join(", ")
    );
    Ok(())
}

fn files(common: &Common) -> Result<(), Failure> {
    let files = store_files::list(common.directory()?)?;
    let mut output = Output::new();
    if common.json {
        output.line(files_json(&files))?
    } else {
        output.line(files_table(&files))?
    }
    output.finish()
}

/// The number of files of a kind and their total size.
fn sum(files: &[StoreFile], kind: FileKind) -> (u64, u64) {
    files.iter().filter(|file| file.kind == kind).fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes))
}

fn files_json(files: &[StoreFile]) -> Value {
    let list: Vec<Value> =
        files.iter().map(|file| json!({"name": file.name, "kind": file.kind.name(), "bytes": file.bytes})).collect();
    let kinds: serde_json::Map<String, Value> = FileKind::ALL
        .iter()
        .map(|&kind| (kind, sum(files, kind)))
        .filter(|(_, (count, _))| *count > 0)
        .map(|(kind, (count, bytes))| (kind.name().to_string(), json!({"files": count, "bytes": bytes})))
        .collect();
    let bytes: u64 = files.iter().map(|file| file.bytes).sum();
    json!({"files": list, "kinds": kinds, "bytes": bytes})
}

fn files_table(files: &[StoreFile]) -> Table {
    let mut table = table(&["file", "kind", "bytes"]);
    for file in files {
        table.add_row([file.name.clone(), file.kind.name().to_string(), grouped(file.bytes)]);
    }
    for kind in FileKind::ALL {
        let (count, bytes) = sum(files, kind);
        if count > 1 {
            table.add_row([format!("all {count}"), kind.name().to_string(), grouped(bytes)]);
        }
    }
    table.add_row([
        format!("all {}", files.len()),
        "total".to_string(),
        grouped(files.iter().map(|file| file.bytes).sum()),
    ]);
    align_right(&mut table, 2);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_add_up_by_kind() {
        let file = |name: &str, bytes| StoreFile { name: name.to_string(), kind: FileKind::of_name(name), bytes };
        let files = [file("MANIFEST", 10), file("000001.log", 1000), file("000002.log", 500), file("LOCK", 0)];
        let json = files_json(&files);
        assert_eq!(json["bytes"], 1510);
        assert_eq!(json["kinds"]["log"], json!({"files": 2, "bytes": 1500}));
        assert_eq!(json["files"].as_array().unwrap().len(), 4);
        assert!(json["kinds"].get("branch").is_none());
        let text = files_table(&files).to_string();
        assert!(text.contains("1,500") && text.contains("1,510"), "{text}");
    }
}

//! What `stat` shows of the file system in a store.

use crate::failure::Failure;
use crate::report::{Report, grouped, size};
use alluvium::ReadOnlyDb;
use serde_json::{Value, json};
use skipfs::format::key;
use skipfs::{Layout, Superblock};

/// Adds the superblock to a report, if the store has one. In JSON it is null otherwise.
pub fn add(report: &mut Report, db: &ReadOnlyDb) -> Result<(), Failure> {
    let bytes = db.get(key::superblock())?.filter(|bytes| Superblock::is_one(bytes));
    let Some(bytes) = bytes else {
        report.member("file_system", Value::Null);
        return Ok(());
    };
    let superblock = match Superblock::decode(&bytes) {
        Ok(superblock) => superblock,
        Err(error) => {
            report.add(
                "file_system",
                "file system",
                json!({ "damaged": error.to_string() }),
                format!("damaged: {error}"),
            );
            return Ok(());
        }
    };
    let (layout, inline_bytes) = match superblock.layout {
        Layout::Items => ("items", 0),
        Layout::Inline { up_to } => ("inline", up_to),
    };
    let shown = match inline_bytes {
        0 => layout.to_string(),
        bytes => format!("{layout}, up to {}", size(bytes.into())),
    };
    let value = json!({
        "layout": layout,
        "inline_bytes": inline_bytes,
        "small_bytes": superblock.small_bytes,
        "unused_inodes_from": superblock.unused_from,
        "max_bytes": superblock.limits.max_bytes,
        "max_inodes": superblock.limits.max_inodes,
    });
    report
        .add("file_system", "file system, layout", value, shown)
        .text("file system, one item up to", size(superblock.small_bytes.into()))
        .text("file system, inode numbers unused from", grouped(superblock.unused_from));
    if let Some(max) = superblock.limits.max_bytes {
        report.text("file system, limit of bytes", size(max));
    }
    if let Some(max) = superblock.limits.max_inodes {
        report.text("file system, limit of inodes", grouped(max));
    }
    Ok(())
}

//! Disk errors: the error is returned, no partial file remains, and a reader continues after a failed read.

use super::harness::*;
use crate::branch::{BranchBuilder, Compression, Purpose};
use crate::format::manifest_edit::BranchMeta;
use crate::io::Storage;
use crate::io::simulated::Operation;
use crate::merge::Cursor;
use crate::util::{Result, SequenceNumber};

fn entries() -> Vec<Owned> {
    (0..2000u32).map(|at| Owned::put(&at.to_be_bytes(), u64::from(at) + 1, &[at as u8; 1500])).collect()
}

fn build(store: &Store, entries: &[Owned]) -> Result<BranchMeta> {
    let mut builder = BranchBuilder::create(&store.context)?;
    for entry in entries {
        builder.add(entry.borrow())?;
    }
    builder.finish()
}

#[test]
fn a_failed_build_leaves_no_file_and_the_next_one_works() {
    let entries = entries();
    for operation in [Operation::Create, Operation::Write, Operation::Sync] {
        for nth in 1..=if operation == Operation::Write { 4 } else { 1 } {
            let store = Store::new(Compression::None, 1 << 20);
            store.disk.inject(&format!("({operation} nth={nth}) -> enospc"));
            let error = build(&store, &entries).expect_err("the disk is full");
            assert!(error.is_disk_full(), "{error}");
            assert!(store.disk.list().unwrap().is_empty(), "{operation:?} {nth}");
            assert_eq!(store.context.cache.bytes_used(), 0);
            let meta = build(&store, &entries).unwrap();
            store.open(&meta).verify().unwrap();
        }
    }
}

#[test]
fn a_failed_read_is_an_error_and_the_next_one_works() {
    let entries = entries();
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries);
    for nth in 1..40 {
        let store = store.reopened(if nth % 2 == 0 { 0 } else { 1 << 30 });
        let branch = store.open(&meta);
        store.disk.inject(&format!("(read nth={nth}) -> eio"));
        let mut cursor = branch.cursor(if nth % 3 == 0 { Purpose::Compaction } else { Purpose::Read });
        let mut seen = 0;
        let mut failures = 0;
        while seen < entries.len() {
            let moved = match cursor.valid() {
                true => cursor.next(),
                false => cursor.seek(&entries[seen].key, SequenceNumber::MAX),
            };
            assert_eq!(moved.is_ok(), cursor.valid());
            match moved {
                Ok(()) => {
                    assert_eq!(cursor.entry(), entries[seen].borrow());
                    seen += 1;
                }
                Err(_) => failures += 1,
            }
        }
        assert!(failures <= 1);
        store.disk.clear_faults();
        branch.verify().unwrap();
    }
}

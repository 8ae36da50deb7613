//! Damaged files: every flipped byte and every truncation gives an error that names the file, or does not affect the
//! read. No read returns a wrong answer or panics.

use super::harness::*;
use crate::branch::{Branch, Compression, Purpose, file_name};
use crate::io::simulated::SimulatedStorage;
use crate::io::{OpenMode, Storage};
use crate::merge::Cursor;
use crate::util::hash::{encoded_key_hash, fingerprint};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, Result, SequenceNumber};

fn entries() -> Vec<Owned> {
    let mut random = Random(9);
    let all = (0..40u64).map(|at| {
        let length = random.below(300);
        Owned::put(&[b"\0\0\0\0key", &(at / 2).to_be_bytes()[..]].concat(), at + 1, &vec![at as u8; length])
    });
    in_order(all.collect())
}

/// A disk that holds one file with these bytes.
fn disk_with(name: &str, bytes: &[u8]) -> SimulatedStorage {
    let disk = SimulatedStorage::new(1);
    disk.create_directory().unwrap();
    disk.open(name, OpenMode::Create).unwrap().write_all_at(bytes, 0).unwrap();
    disk
}

fn names_the_file(error: &Error) {
    let text = error.to_string();
    assert!(text.contains("000007.branch"), "{text}");
}

/// Reads everything that can be read. Every answer must be right.
fn read_everything(branch: &Arc<Branch>, entries: &[Owned]) -> Result<()> {
    for entry in entries {
        let found = get(branch, &entry.key, entry.number)?;
        assert_eq!(found, Some((entry.number, entry.kind, entry.value.clone())));
    }
    let filter = branch.whole_filter()?;
    assert!(entries.iter().all(|entry| filter.may_contain(fingerprint(encoded_key_hash(&entry.key)))));
    for purpose in [Purpose::Read, Purpose::Compaction] {
        let mut cursor = branch.cursor(purpose);
        cursor.seek_first()?;
        let mut at = 0;
        while cursor.valid() {
            assert_eq!(cursor.entry(), entries[at].borrow());
            at += 1;
            let moved = cursor.next();
            assert!(moved.is_ok() || !cursor.valid());
            moved?;
        }
        assert_eq!(at, entries.len());
    }
    Ok(())
}

#[test]
fn every_flipped_byte_is_found_and_never_misleads() {
    for compression in [Compression::None, Compression::Lz4] {
        let entries = entries();
        let store = Store::new(compression, 0);
        let meta = store.write(&entries);
        let name = file_name(meta.file);
        let image = store.disk.current_image()[&name].clone();
        let disk = disk_with(&name, &image);
        for offset in 0..image.len() as u64 {
            let bits = if offset % 7 == 0 { 0x80 } else { 0x01 };
            disk.corrupt(&name, offset, bits);
            let damaged = Store::over(disk.clone(), compression, 0, DatabaseId(42));
            let branch = damaged.open(&meta);
            let error = branch.verify().expect_err("a flipped byte goes unnoticed");
            names_the_file(&error);
            assert!(matches!(error, Error::Corruption { .. }), "byte {offset}: {error}");
            if offset % 7 == 0
                && let Err(error) = read_everything(&branch, &entries)
            {
                names_the_file(&error);
            }
            disk.corrupt(&name, offset, bits);
        }
        Store::over(disk, compression, 0, DatabaseId(42)).open(&meta).verify().unwrap();
    }
}

#[test]
fn a_truncated_file_is_an_error() {
    let entries = entries();
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries);
    let name = file_name(meta.file);
    let image = store.disk.current_image()[&name].clone();
    let cuts = (0..image.len()).step_by(509).chain((0..image.len()).step_by(4096)).chain([image.len() - 1]);
    for length in cuts {
        let disk = disk_with(&name, &image[..length]);
        let damaged = Store::over(disk, Compression::None, 0, DatabaseId(42));
        let error = damaged.open(&meta).verify().unwrap_err();
        names_the_file(&error);
        names_the_file(&get(&damaged.open(&meta), &entries[0].key, SequenceNumber::MAX).unwrap_err());
        assert!(Branch::read_meta(&damaged.context, meta.file).is_err(), "{length}");
    }
}

#[test]
fn swapped_pages_are_found() {
    let entries = entries();
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries);
    let name = file_name(meta.file);
    let mut image = store.disk.current_image()[&name].clone();
    let (first, second) = image.split_at_mut(4096);
    first.swap_with_slice(&mut second[..4096]);
    let damaged = Store::over(disk_with(&name, &image), Compression::None, 0, DatabaseId(42));
    let error = damaged.open(&meta).verify().unwrap_err();
    assert!(error.to_string().contains("page checksum"), "{error}");
}

#[test]
fn files_of_other_stores_and_other_numbers_are_errors() {
    let store = Store::new(Compression::None, 0);
    let mut meta = store.write(&entries());
    let image = store.disk.current_image()[&file_name(meta.file)].clone();
    let other = Store::over(store.disk.clone(), Compression::None, 0, DatabaseId(43));
    let text = other.open(&meta).verify().unwrap_err().to_string();
    assert!(text.contains("000000000000002a"), "{text}");
    meta.file = FileNumber(8);
    let renamed = Store::over(disk_with(&file_name(meta.file), &image), Compression::None, 0, DatabaseId(42));
    assert!(renamed.open(&meta).verify().is_err());
}

#[test]
fn a_manifest_that_disagrees_is_found() {
    let store = Store::new(Compression::None, 0);
    let meta = store.write(&entries());
    let lies = [
        crate::format::manifest_edit::BranchMeta { entries: meta.entries + 1, ..meta.clone() },
        crate::format::manifest_edit::BranchMeta { key_min: b"a".to_vec(), ..meta.clone() },
        crate::format::manifest_edit::BranchMeta { bytes: meta.bytes + 4096, ..meta.clone() },
    ];
    for lie in lies {
        names_the_file(&store.open(&lie).verify().unwrap_err());
    }
    store.open(&meta).verify().unwrap();
}

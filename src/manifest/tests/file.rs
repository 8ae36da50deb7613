//! The file on a disk without failures: replay, damage, the torn end, rotation.

use super::generator::{first_edit, next_edit};
use crate::format::manifest_edit::testing::Random;
use crate::format::manifest_edit::{Identity, ManifestEdit};
use crate::format::manifest_header::{self as header, HEADER_BYTES};
use crate::io::simulated::{Operation, SimulatedStorage};
use crate::io::{OpenMode, PosixStorage, Storage};
use crate::manifest::file::read_state;
use crate::manifest::replay::replay;
use crate::manifest::{MANIFEST_NAME, MANIFEST_NEW_NAME, Manifest, ManifestState};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, Result};
use std::path::Path;

const IDENTITY: Identity = Identity { database: DatabaseId(0x1122_3344_5566_7788) };

fn create(storage: &SimulatedStorage) -> Manifest {
    Manifest::create(Arc::new(storage.clone()), IDENTITY, &first_edit()).unwrap()
}

fn open(storage: &SimulatedStorage) -> Result<Manifest> {
    Manifest::open(Arc::new(storage.clone()))
}

/// A manifest of a few edits: its bytes, and where each record begins with the state before it.
fn small_file(seed: u64, edits: u64) -> (Vec<u8>, Vec<(usize, ManifestState)>) {
    let storage = SimulatedStorage::new(seed);
    let mut manifest = create(&storage);
    let mut random = Random(seed);
    let mut steps = Vec::new();
    for _ in 0..edits {
        steps.push((manifest.bytes() as usize, manifest.state().clone()));
        let edit = next_edit(manifest.state(), &mut random);
        manifest.append(&edit).unwrap();
    }
    steps.push((manifest.bytes() as usize, manifest.state().clone()));
    (storage.current_image()[MANIFEST_NAME].clone(), steps)
}

#[test]
fn appended_edits_exist_after_reopening() {
    for seed in 0..20 {
        let storage = SimulatedStorage::new(seed);
        let mut random = Random(seed);
        let mut manifest = create(&storage);
        let mut model = ManifestState { identity: IDENTITY, ..ManifestState::default() };
        model.apply(&first_edit()).unwrap();
        for number in 2..60 {
            let edit = next_edit(&model, &mut random);
            assert_eq!(manifest.append(&edit).unwrap(), number);
            model.apply(&edit).unwrap();
            model.edits = number;
            if random.once_in(4) {
                manifest.release_file();
            }
            if random.once_in(10) {
                assert_eq!(read_state(&storage).unwrap(), *manifest.state(), "seed {seed}");
                manifest = open(&storage).unwrap();
            }
            assert_eq!(*manifest.state(), model, "seed {seed}, edit {number}");
        }
    }
}

#[test]
fn works_on_a_real_directory() {
    let directory = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(PosixStorage::new(directory.path()));
    let mut manifest = Manifest::create(Arc::clone(&storage), IDENTITY, &first_edit()).unwrap();
    let mut random = Random(1);
    for _ in 0..20 {
        let edit = next_edit(manifest.state(), &mut random);
        manifest.append(&edit).unwrap();
    }
    manifest.rotate().unwrap();
    let edit = next_edit(manifest.state(), &mut random);
    manifest.append(&edit).unwrap();
    let state = manifest.state().clone();
    drop(manifest);
    assert_eq!(read_state(&*storage).unwrap(), state);
    assert_eq!(*Manifest::open(Arc::clone(&storage)).unwrap().state(), state);
    assert_eq!(storage.list().unwrap(), [MANIFEST_NAME]);
}

#[test]
fn missing_newer_and_existing_stores_are_distinguished() {
    let storage = SimulatedStorage::new(1);
    assert!(matches!(open(&storage), Err(Error::NoStore { .. })));
    assert!(matches!(read_state(&storage), Err(Error::NoStore { .. })));
    create(&storage);
    let again = Manifest::create(Arc::new(storage.clone()), IDENTITY, &first_edit());
    assert!(matches!(again, Err(Error::InvalidArgument(_))));
    assert!(open(&storage).is_ok());

    let mut bytes = storage.current_image()[MANIFEST_NAME].clone();
    bytes[8] = 9;
    let sum = crate::util::checksum::checksum(&bytes[..HEADER_BYTES - 4], 0);
    bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    storage.open(MANIFEST_NAME, OpenMode::ReadWrite).unwrap().write_all_at(&bytes, 0).unwrap();
    assert!(matches!(open(&storage), Err(Error::NewerFormat { found: 9, .. })));
}

#[test]
fn a_leftover_of_an_interrupted_creation_is_replaced() {
    let storage = SimulatedStorage::new(1);
    let leftover = storage.open(MANIFEST_NEW_NAME, OpenMode::Create).unwrap();
    leftover.write_all_at(&[0xee; 9000], 0).unwrap();
    create(&storage);
    assert_eq!(storage.list().unwrap(), [MANIFEST_NAME]);
    assert!(open(&storage).is_ok());
}

/// Every kind of damage to every byte gives an error without a panic, or, in the last record only, the state without
/// that record. It never gives another state.
#[test]
fn every_damaged_byte_is_an_error_or_a_torn_last_edit() {
    let (bytes, steps) = small_file(11, 8);
    let last = steps[steps.len() - 2].0;
    let path = Path::new("MANIFEST");
    assert_eq!(replay(&bytes, path).unwrap().state, steps.last().unwrap().1);
    let mut torn = 0;
    for at in 0..bytes.len() {
        for flip in [0x01, 0x10, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            match replay(&bad, path) {
                Ok(replayed) => {
                    assert!(at >= last, "damage at {at} was not found");
                    assert_eq!(replayed.state, steps[steps.len() - 2].1);
                    assert_eq!(replayed.end, last as u64);
                    torn += 1;
                }
                Err(Error::Corruption { offset, .. }) => {
                    assert!(at < last, "a torn last record is reported as corruption");
                    assert!(offset <= at as u64 || at < HEADER_BYTES, "damage at {at} is reported at {offset}");
                }
                Err(Error::NewerFormat { .. }) => assert!((8..12).contains(&at), "damage at {at}"),
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert_eq!(torn, (bytes.len() - last) * 3);
}

#[test]
fn every_shorter_file_is_an_error_or_a_prefix_of_the_edits() {
    let (bytes, steps) = small_file(12, 8);
    for length in 0..=bytes.len() {
        match replay(&bytes[..length], Path::new("MANIFEST")) {
            Ok(replayed) => {
                let (end, state) = steps.iter().rev().find(|(end, _)| *end <= length).unwrap();
                assert_eq!((replayed.end, &replayed.state), (*end as u64, state), "length {length}");
            }
            Err(error) => {
                assert!(matches!(error, Error::Corruption { .. }), "{error}");
                assert!(length < steps[0].0, "length {length}: {error}");
            }
        }
    }
}

#[test]
fn random_bytes_after_the_header_never_panic() {
    let mut random = Random(5);
    for _ in 0..300 {
        let mut bytes = header::encode_header(&IDENTITY);
        for _ in 0..random.below(40) {
            bytes.extend_from_slice(&random.number().to_le_bytes());
        }
        assert!(matches!(replay(&bytes, Path::new("m")), Err(Error::Corruption { .. })));
    }
}

fn file_of(records: &[(u64, ManifestEdit)]) -> Vec<u8> {
    let mut bytes = header::encode_header(&IDENTITY);
    for (number, edit) in records {
        header::encode_record(*number, header::record_salt(IDENTITY.database), &mut bytes, |out| edit.encode(out));
    }
    bytes
}

#[test]
fn valid_records_that_do_not_belong_are_corruption() {
    let path = Path::new("m");
    let drop_missing = ManifestEdit { branches_dropped: vec![FileNumber(3)], ..ManifestEdit::default() };
    let empty = ManifestEdit::default;
    let what = |records: &[(u64, ManifestEdit)]| match replay(&file_of(records), path) {
        Err(Error::Corruption { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(replay(&file_of(&[(5, first_edit()), (6, empty())]), path).unwrap().state.edits, 6);
    assert_eq!(what(&[(0, first_edit())]), "edit number");
    assert_eq!(what(&[(1, first_edit()), (3, empty())]), "edit number");
    assert_eq!(what(&[(2, first_edit()), (2, empty())]), "edit number");
    assert_eq!(what(&[(2, first_edit()), (1, empty())]), "edit number");
    assert_eq!(what(&[(1, first_edit()), (2, drop_missing)]), "manifest edit");

    let mut unknown = header::encode_header(&IDENTITY);
    header::encode_record(1, header::record_salt(IDENTITY.database), &mut unknown, |out| out.extend([99, 0]));
    assert!(matches!(replay(&unknown, path), Err(Error::Corruption { what: "manifest edit", .. })));

    // A record of another store at the end is treated as a torn edit.
    let mut bytes = file_of(&[(1, first_edit())]);
    let end = bytes.len() as u64;
    header::encode_record(2, header::record_salt(DatabaseId(1)), &mut bytes, |out| empty().encode(out));
    assert_eq!(replay(&bytes, path).unwrap().end, end);
}

/// A torn end is truncated before the next edit: the rest of the longer old record must not show after the shorter new
/// one.
#[test]
fn a_torn_end_is_truncated_before_the_next_edit() {
    let storage = SimulatedStorage::new(2);
    let mut manifest = create(&storage);
    let mut random = Random(2);
    for _ in 0..5 {
        let edit = next_edit(manifest.state(), &mut random);
        manifest.append(&edit).unwrap();
    }
    let (end, state) = (manifest.bytes(), manifest.state().clone());
    drop(manifest);
    let file = storage.open(MANIFEST_NAME, OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[0xab; 5000], end).unwrap();

    let mut manifest = open(&storage).unwrap();
    assert_eq!(*manifest.state(), state);
    assert_eq!(manifest.bytes(), end);
    assert_eq!(file.length().unwrap(), end + 5000, "opening changed the file");
    let number = manifest.append(&ManifestEdit::default()).unwrap();
    assert_eq!(number, state.edits + 1);
    assert_eq!(file.length().unwrap(), manifest.bytes());
    assert_eq!(open(&storage).unwrap().state().edits, number);
}

#[test]
fn a_grown_file_is_rotated_without_changing_the_state() {
    let storage = SimulatedStorage::new(3);
    let mut manifest = create(&storage);
    let mut random = Random(3);
    let (mut rotations, mut before) = (0, manifest.bytes());
    for number in 2..3000 {
        let edit = next_edit(manifest.state(), &mut random);
        assert_eq!(manifest.append(&edit).unwrap(), number);
        if manifest.bytes() < before {
            rotations += 1;
            assert!(before > 60 << 10, "rotated at {before} bytes");
            assert_eq!(storage.list().unwrap(), [MANIFEST_NAME]);
            assert_eq!(*open(&storage).unwrap().state(), *manifest.state());
        }
        before = manifest.bytes();
        assert_eq!(storage.current_image()[MANIFEST_NAME].len() as u64, before);
    }
    assert!(rotations >= 2, "{rotations} rotations");
    assert_eq!(*open(&storage).unwrap().state(), *manifest.state());
}

#[test]
#[should_panic(expected = "an inconsistent manifest edit")]
fn an_inconsistent_edit_is_a_bug() {
    let mut manifest = create(&SimulatedStorage::new(4));
    let _ = manifest.append(&ManifestEdit { branches_dropped: vec![FileNumber(3)], ..ManifestEdit::default() });
}

#[test]
fn an_append_is_one_write_and_one_sync() {
    let storage = SimulatedStorage::new(5);
    let mut manifest = create(&storage);
    let before = storage.operations();
    manifest.append(&ManifestEdit::default()).unwrap();
    assert_eq!(storage.operations() - before, 2);
    assert_eq!(storage.operation_count(Operation::SetLength), 0);
}

/// A program that puts a backup in the place of an open store's files must not get edits appended to them.
#[test]
fn a_released_file_that_another_program_has_changed_is_refused() {
    let storage = SimulatedStorage::new(7);
    let mut manifest = create(&storage);
    manifest.release_file();
    manifest.append(&ManifestEdit::default()).unwrap();
    manifest.release_file();
    let end = manifest.bytes();
    let other = storage.open(MANIFEST_NAME, OpenMode::ReadWrite).unwrap();
    other.write_all_at(&[1], end).unwrap();
    let error = manifest.append(&ManifestEdit::default()).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("as this process left it"), "{error}");
    assert_eq!(other.length().unwrap(), end + 1, "appended to another file");
    other.set_length(end).unwrap();
    let again = manifest.append(&ManifestEdit::default()).unwrap_err();
    assert_eq!(again.to_string(), error.to_string());
}

#[test]
fn a_torn_file_is_not_released_before_it_is_truncated() {
    let storage = SimulatedStorage::new(8);
    let manifest = create(&storage);
    let end = manifest.bytes();
    drop(manifest);
    storage.open(MANIFEST_NAME, OpenMode::ReadWrite).unwrap().write_all_at(&[1; 9], end).unwrap();
    let mut manifest = open(&storage).unwrap();
    manifest.release_file();
    manifest.append(&ManifestEdit::default()).unwrap();
    assert_eq!(open(&storage).unwrap().state().edits, manifest.state().edits);
}

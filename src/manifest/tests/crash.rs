//! The file on a failing disk: errors, a full disk, and crashes before every operation, with the outcomes of a power
//! cut that a few seeds give.

use super::generator::{first_edit, next_edit};
use crate::format::manifest_edit::testing::Random;
use crate::format::manifest_edit::{Identity, ManifestEdit};
use crate::io::simulated::{Operation, SimulatedStorage};
use crate::io::{OpenMode, Storage};
use crate::manifest::{MANIFEST_NAME, MANIFEST_NEW_NAME, Manifest, ManifestState};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error};

const IDENTITY: Identity = Identity { database: DatabaseId(77) };

fn create(storage: &SimulatedStorage) -> Manifest {
    Manifest::create(Arc::new(storage.clone()), IDENTITY, &first_edit()).unwrap()
}

fn open(storage: &SimulatedStorage) -> Manifest {
    Manifest::open(Arc::new(storage.clone())).unwrap()
}

/// A manifest with some edits, and the next edit.
fn prepared(seed: u64) -> (SimulatedStorage, Manifest, ManifestEdit) {
    let storage = SimulatedStorage::new(seed);
    let mut manifest = create(&storage);
    let mut random = Random(seed);
    for _ in 0..10 {
        let edit = next_edit(manifest.state(), &mut random);
        manifest.append(&edit).unwrap();
    }
    let edit = next_edit(manifest.state(), &mut random);
    (storage, manifest, edit)
}

#[test]
fn a_failed_write_or_sync_poisons_permanently() {
    for operation in [Operation::Write, Operation::Sync] {
        let (storage, mut manifest, edit) = prepared(1);
        let before = manifest.state().clone();
        storage.inject(&format!("({operation} nth=1) -> eio"));
        let first = manifest.append(&edit).unwrap_err();
        assert!(matches!(first, Error::Io { .. }), "{first}");
        let operations = storage.operations();
        for _ in 0..3 {
            assert_eq!(manifest.append(&edit).unwrap_err().to_string(), first.to_string());
            assert_eq!(manifest.rotate().unwrap_err().to_string(), first.to_string());
        }
        assert_eq!(storage.operations(), operations, "a poisoned manifest performed an operation");
        assert_eq!(*manifest.state(), before);
        let found = open(&storage.kill()).state().edits;
        assert!(found == before.edits || found == before.edits + 1);
    }
}

/// Regression test: an opening once appended to the file that it had read. If a sync of the previous process had
/// failed, that file showed an edit which only the page cache had. The next edit became durable behind it, and after a
/// power cut the store could not be opened.
#[test]
fn an_opening_after_a_failed_sync_writes_no_edit_behind_a_hole() {
    for seed in 0..40 {
        let (storage, mut manifest, edit) = prepared(seed);
        storage.inject("(sync nth=1) -> eio");
        manifest.append(&edit).unwrap_err();
        let storage = storage.kill();
        let mut manifest = open(&storage);
        let edit = next_edit(manifest.state(), &mut Random(seed));
        manifest.append_in_new_file(&edit).unwrap();
        let edit = next_edit(manifest.state(), &mut Random(seed));
        manifest.append(&edit).unwrap();
        assert_eq!(open(&storage.power_cut(seed)).state(), manifest.state(), "seed {seed}");
    }
    // Without space for another file the edit is appended to the old one.
    let (storage, mut manifest, edit) = prepared(1);
    let before = manifest.state().edits;
    storage.inject("(create) -> enospc");
    assert_eq!(manifest.append_in_new_file(&edit).unwrap(), before + 1);
    assert_eq!(open(&storage.power_cut(1)).state(), manifest.state());
}

#[test]
fn a_full_disk_changes_nothing_and_is_temporary() {
    let (storage, mut manifest, edit) = prepared(2);
    let before = manifest.state().clone();
    for _ in 0..3 {
        storage.inject("(write nth=1) -> enospc");
        assert!(manifest.append(&edit).unwrap_err().is_disk_full());
        assert_eq!(*manifest.state(), before);
        let found = Manifest::open(Arc::new(storage.clone_disk())).unwrap();
        assert_eq!(*found.state(), before, "an edit that failed because the disk was full must be absent");
    }
    assert_eq!(manifest.append(&edit).unwrap(), before.edits + 1);
    let state = manifest.state().clone();
    assert_eq!(*open(&storage.power_cut(1)).state(), state);
}

#[test]
fn a_full_disk_that_cannot_be_undone_poisons() {
    for operation in [Operation::SetLength, Operation::Sync] {
        let (storage, mut manifest, edit) = prepared(3);
        storage.inject("(write nth=1) -> enospc");
        storage.inject(&format!("({operation} nth=1) -> eio"));
        // Not "disk full", which would promise that the edit is certainly absent.
        assert!(matches!(manifest.append(&edit).unwrap_err(), Error::ReadOnly { .. } | Error::Io { .. }));
        assert!(!manifest.append(&edit).unwrap_err().is_disk_full());
    }
}

/// A sync that reports "disk full" (delayed allocation, network file systems) leaves the edit in the file. A caller
/// that took the edit for absent would delete branch files that the next open needs.
#[test]
fn a_full_disk_in_a_sync_poisons() {
    let (storage, mut manifest, edit) = prepared(4);
    storage.inject("(sync nth=1) -> enospc");
    let error = manifest.append(&edit).unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error}");
    assert!(matches!(manifest.append(&edit).unwrap_err(), Error::ReadOnly { .. }));
}

/// A manifest just below the size at which it is rotated.
fn about_to_rotate(seed: u64) -> (SimulatedStorage, Manifest, ManifestEdit) {
    let storage = SimulatedStorage::new(seed);
    let mut manifest = create(&storage);
    let mut random = Random(seed);
    loop {
        let edit = next_edit(manifest.state(), &mut random);
        let mut payload = Vec::new();
        edit.encode(&mut payload);
        if manifest.bytes() + payload.len() as u64 > 64 << 10 {
            return (storage, manifest, edit);
        }
        manifest.append(&edit).unwrap();
    }
}

#[test]
fn rotation_waits_for_space() {
    let (storage, mut manifest, edit) = about_to_rotate(4);
    storage.inject("(create) -> enospc");
    let number = manifest.append(&edit).unwrap();
    let edit = next_edit(manifest.state(), &mut Random(1));
    assert_eq!(manifest.append(&edit).unwrap(), number + 1);
    assert!(manifest.rotate().unwrap_err().is_disk_full());
    let before = manifest.bytes();
    storage.clear_faults();
    manifest.rotate().unwrap();
    assert!(manifest.bytes() < before);
    assert_eq!(open(&storage).state().edits, number + 1);
}

#[test]
fn a_failed_rotation_poisons_and_loses_nothing() {
    let operations = [Operation::Create, Operation::Rename, Operation::SyncDirectory, Operation::Open];
    for operation in operations {
        for nth in 1..=2 {
            let (storage, mut manifest, edit) = about_to_rotate(5);
            let before = manifest.state().edits;
            storage.inject(&format!("({operation} nth={nth}) -> eio"));
            if manifest.append(&edit).is_ok() {
                assert!(nth > 1, "{operation:?} was not used");
                continue;
            }
            assert!(manifest.append(&ManifestEdit::default()).is_err(), "{operation:?}");
            assert_eq!(open(&storage.power_cut(nth)).state().edits, before + 1, "{operation:?}: the edit was synced");
        }
    }
}

/// Runs until the process dies at its `nth` operation. Returns the last state that an append confirmed, and the one
/// that the append in progress would have produced.
fn run_until_crash(storage: &SimulatedStorage, nth: u64, seed: u64) -> (Option<ManifestState>, Option<ManifestState>) {
    let mut random = Random(seed);
    storage.crash_at(nth);
    let mut model = ManifestState { identity: IDENTITY, ..ManifestState::default() };
    model.apply(&first_edit()).unwrap();
    model.edits = 1;
    let mut manifest = match Manifest::create(Arc::new(storage.clone()), IDENTITY, &first_edit()) {
        Ok(manifest) => manifest,
        Err(_) => return (None, Some(model)),
    };
    for step in 0..14 {
        let confirmed = Some(model.clone());
        if step == 7 && manifest.rotate().is_err() {
            return (confirmed, None);
        }
        let edit = next_edit(&model, &mut random);
        model.apply(&edit).unwrap();
        model.edits += 1;
        if manifest.append(&edit).is_err() {
            return (confirmed, Some(model));
        }
    }
    (Some(model), None)
}

/// After a crash anywhere, the state is the confirmed one, or the one with the edit in progress. It stays the same
/// after a second power cut, and accepts further edits.
#[test]
fn a_crash_at_every_operation_loses_nothing_confirmed() {
    let (mut before, mut after, mut none) = (0, 0, 0);
    for seed in 0..12 {
        for nth in 1.. {
            let storage = SimulatedStorage::new(seed);
            let (confirmed, tried) = run_until_crash(&storage, nth, seed);
            if !storage.is_dead() {
                break;
            }
            let next = if seed % 4 == 0 { storage.kill() } else { storage.power_cut(seed * 1000 + nth) };
            let Some(mut manifest) = reopened(&next, confirmed.is_some()) else {
                none += 1;
                create(&next);
                continue;
            };
            let found = manifest.state().clone();
            assert_eq!(found.check(), Ok(()));
            match (&confirmed, &tried) {
                (Some(confirmed), _) if *confirmed == found => before += 1,
                (_, Some(tried)) if *tried == found => after += 1,
                _ => panic!("seed {seed}, operation {nth}: {found:#?}"),
            }
            let again = next.clone_disk().power_cut(seed + nth);
            assert_eq!(*open(&again).state(), found, "seed {seed}, operation {nth}: the opened state is not durable");
            let edit = next_edit(&found, &mut Random(nth));
            manifest.append(&edit).unwrap();
            let state = manifest.state().clone();
            assert_eq!(*open(&next.power_cut(nth)).state(), state, "seed {seed}, operation {nth}");
        }
    }
    assert!(before > 50 && after > 50 && none > 10, "{before} before, {after} after, {none} without a store");
}

/// The manifest found after a crash; `None` if the creation had not come that far.
fn reopened(storage: &SimulatedStorage, must_be_there: bool) -> Option<Manifest> {
    match Manifest::open(Arc::new(storage.clone())) {
        Ok(manifest) => Some(manifest),
        Err(Error::NoStore { .. }) if !must_be_there => None,
        Err(error) => panic!("{error}; {:?}", storage.list()),
    }
}

#[test]
fn a_damaged_byte_in_the_middle_is_found_at_the_next_open() {
    let (storage, manifest, _) = prepared(9);
    drop(manifest);
    storage.corrupt(MANIFEST_NAME, 4096 + 20, 0x40);
    let error = Manifest::open(Arc::new(storage)).unwrap_err();
    assert!(matches!(error, Error::Corruption { offset: 4096, what: "record checksum", .. }), "{error}");
}

/// Rotates after `leave` has left something, with a crash before each operation, and expects the state after a power
/// cut.
fn rotate_with_crashes(leave: impl Fn(&SimulatedStorage, &mut Manifest)) {
    for seed in 0..300 {
        for nth in 1..20 {
            assert!(nth < 19, "the rotation never succeeds");
            let (storage, mut manifest, _) = prepared(seed);
            leave(&storage, &mut manifest);
            storage.crash_at(nth);
            let rotated = manifest.rotate();
            let found = open(&storage.power_cut(seed));
            assert_eq!(found.state(), manifest.state(), "seed {seed}, operation {nth}");
            if rotated.is_ok() {
                break;
            }
        }
    }
}

/// A leftover of an earlier rotation is durable under the temporary name. It is removed, and the name is created again
/// and renamed. If the rename survived a power cut without the other two, the leftover would become the manifest.
#[test]
fn a_leftover_never_becomes_the_manifest() {
    rotate_with_crashes(|storage, _| {
        let leftover = storage.open(MANIFEST_NEW_NAME, OpenMode::Create).unwrap();
        leftover.write_all_at(&[0xee; 5000], 0).unwrap();
        leftover.sync().unwrap();
        storage.sync_directory().unwrap();
    });
}

/// As before, but the leftover is one of this process: a rotation failed on a full disk, and its file was removed.
#[test]
fn a_removed_leftover_never_becomes_the_manifest() {
    rotate_with_crashes(|storage, manifest| {
        storage.inject("(sync nth=1) -> enospc");
        assert!(manifest.rotate().unwrap_err().is_disk_full());
        storage.clear_faults();
    });
}

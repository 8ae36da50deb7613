//! Puts wait for the space of what was deleted, as long as background work may free some (`docs/recovery.md`, F12).

use crate::support::disks::{Tmpfs, with_private_mounts};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{PosixStorage, Storage};
use alluvium::{Db, DiskComponent, LevelsOptions, Options, WriteBatch, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const VALUE: [u8; 4000] = [7; 4000];

/// The pieces of a file, which is there under another number afterwards.
fn write_file(db: &Db, file: u64, pieces: u64) -> alluvium::Result<()> {
    for piece in 0..pieces {
        let mut value = VALUE;
        value[..8].copy_from_slice(&(file << 32 | piece).to_be_bytes());
        db.put_with(format!("file {file:08} {piece:08}"), value, WriteOptions::new().waits_for_space(true))?;
    }
    Ok(())
}

/// A program replaces its data again and again: each file is written, and then the one before it is deleted, by a range delete. At
/// most two of them live, a quarter of the disk; but a put found the disk full, since deletes take no space back by themselves.
fn replaces_its_data(storage: Arc<dyn Storage>, component: DiskComponent, pieces: u64) {
    let options = Options::new().memory_budget(4 << 20).background_threads(2).disk_component(component);
    let db = Db::open_with(storage, options).unwrap();
    for file in 0..24 {
        write_file(&db, file, pieces).unwrap_or_else(|error| panic!("file {file}: {error}"));
        if let Some(before) = file.checked_sub(1) {
            db.delete_prefix(format!("file {before:08} ")).unwrap();
        }
    }
    assert_eq!(db.iter().unwrap().map(Result::unwrap).count() as u64, pieces);
}

#[test]
fn a_program_that_replaces_its_data_finds_space() {
    let (leveled, skip) = (LevelsOptions::leveled(), LevelsOptions::skip());
    for component in [DiskComponent::Trunk, DiskComponent::Levels(leveled), DiskComponent::Levels(skip)] {
        let disk = SimulatedStorage::new(1);
        disk.set_capacity(Some(48 << 20));
        replaces_its_data(Arc::new(disk), component, 1500);
    }
}

/// A batch that needs the next segment of the log finds the disk full only there, after puts were admitted: it waits, too, and the
/// disk has space again meanwhile. Such batches failed (one of 24 runs of SkipFS's test of files that replace each other).
#[test]
fn a_batch_waits_for_the_space_of_its_log_record() {
    let disk = SimulatedStorage::new(2);
    let db =
        Db::open_with(Arc::new(disk.clone()), Options::new().memory_budget(4 << 20).background_threads(2)).unwrap();
    // As long as this snapshot lives, there is a range whose space is to be freed: so puts wait as long as they may.
    write_file(&db, 0, 1000).unwrap();
    db.flush().unwrap();
    let snapshot = db.snapshot();
    db.delete_prefix("file ").unwrap();
    db.flush().unwrap();
    for round in 0..20 {
        let failed = disk.failed_operations().len();
        disk.inject("(create,rename name~.log) -> enospc");
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let clear = scope.spawn(|| {
                while disk.failed_operations().len() == failed && !has_ended.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                disk.clear_faults();
            });
            let mut batches = 0;
            while !clear.is_finished() && batches < 1000 {
                let mut batch = WriteBatch::new();
                for key in 0..100_u64 {
                    batch.put(key.to_be_bytes(), VALUE);
                }
                let written = db.write_with(batch, WriteOptions::new().waits_for_space(true));
                if let Err(error) = written {
                    has_ended.store(true, Ordering::Relaxed);
                    panic!("round {round}: {error}");
                }
                batches += 1;
            }
            has_ended.store(true, Ordering::Relaxed);
            assert!(batches < 1000, "round {round}: the disk was never full");
        });
    }
    drop(snapshot);
}

#[test]
fn tmpfs_a_program_that_replaces_its_data_finds_space() {
    with_private_mounts("full tmpfs", || {
        let disk = Tmpfs::new(96 << 20);
        replaces_its_data(Arc::new(PosixStorage::new(disk.path().join("store"))), DiskComponent::Trunk, 3000);
    });
}

//! Value files on a real and on the simulated disk: round trips, damage, and what survives a kill or a power cut.

use super::*;
use crate::io::PosixStorage;
use crate::io::simulated::{Operation, SimulatedStorage};

const DATABASE: DatabaseId = DatabaseId(99);

fn over(storage: &SimulatedStorage) -> ValueFiles {
    ValueFiles::new(Arc::new(storage.clone()), DATABASE)
}

fn on_every_storage(test: impl Fn(Arc<dyn Storage>)) {
    let directory = tempfile::tempdir().unwrap();
    test(Arc::new(PosixStorage::new(directory.path())));
    test(Arc::new(SimulatedStorage::new(1)));
}

/// Bytes that differ with the place and the seed.
fn value(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn read(values: &ValueFiles, reference: &ValueReference) -> Result<Vec<u8>> {
    let mut out = b"old".to_vec();
    let done = values.read(reference, &mut out);
    assert!(done.is_ok() || out.is_empty());
    done.map(|()| out)
}

#[test]
fn values_of_every_length_round_trip() {
    on_every_storage(|storage| {
        let values = ValueFiles::new(Arc::clone(&storage), DATABASE);
        let piece = PIECE_BLOCKS * PAYLOAD_BYTES;
        let edges = [0, 4092, 4096, PAYLOAD_BYTES, 2 * PAYLOAD_BYTES, piece, piece + 4092, 2 * piece, 3_000_000];
        for (at, length) in edges.into_iter().flat_map(|edge| [edge, edge + 1, edge.saturating_sub(1)]).enumerate() {
            let file = FileNumber(at as u64 + 1);
            let bytes = value(at as u64, length);
            let reference = values.write(file, &bytes).unwrap();
            assert_eq!((reference.file, reference.length), (file, length as u64));
            assert!(read(&values, &reference).unwrap() == bytes, "length {length}");
            values.verify(&reference).unwrap();
            assert!(values.is_complete(&reference).unwrap());
            // A new instance: another process, other buffers.
            let other = ValueFiles::new(Arc::clone(&storage), DATABASE);
            assert!(read(&other, &reference).unwrap() == bytes);
            let stranger = ValueFiles::new(Arc::clone(&storage), DatabaseId(100));
            assert!(matches!(read(&stranger, &reference), Err(Error::Corruption { .. })));
        }
        values.sync().unwrap();
    });
}

#[test]
fn a_file_number_is_written_once() {
    on_every_storage(|storage| {
        let values = ValueFiles::new(storage, DATABASE);
        let reference = values.write(FileNumber(1), b"first").unwrap();
        assert!(values.write(FileNumber(1), b"second").is_err());
        assert_eq!(read(&values, &reference).unwrap(), b"first");
    });
}

#[test]
fn removed_and_missing_values_are_incomplete_and_removal_repeats() {
    on_every_storage(|storage| {
        let values = ValueFiles::new(Arc::clone(&storage), DATABASE);
        let reference = values.write(FileNumber(7), &value(1, 300_000)).unwrap();
        assert_eq!(storage.list().unwrap(), ["000007.value"]);
        values.remove(FileNumber(7)).unwrap();
        values.remove(FileNumber(7)).unwrap();
        assert!(storage.list().unwrap().is_empty());
        assert!(!values.is_complete(&reference).unwrap());
        assert!(read(&values, &reference).is_err());
        values.sync().unwrap();
    });
}

#[test]
fn every_damaged_place_is_found_and_reported() {
    let storage = SimulatedStorage::new(1);
    let values = over(&storage);
    let bytes = value(1, 200_000);
    let reference = values.write(FileNumber(3), &bytes).unwrap();
    let length = storage.current_image()["000003.value"].len() as u64;
    for at in (0..length).step_by(499).chain([length - 1]) {
        storage.corrupt("000003.value", at, 0x40);
        match read(&values, &reference) {
            Err(Error::Corruption { path, offset, .. }) => {
                assert!(path.ends_with("000003.value"));
                let same_page = at < HEADER_BYTES as u64 && offset < HEADER_BYTES as u64;
                let same_block = offset <= at && at - offset < BLOCK_BYTES as u64;
                assert!(same_page || same_block, "byte {at} reported as {offset}");
            }
            Err(Error::NewerFormat { .. }) => assert!((8..12).contains(&at)),
            other => panic!("byte {at}: {:?}", other.map(|bytes| bytes.len())),
        }
        assert!(values.verify(&reference).is_err());
        storage.corrupt("000003.value", at, 0x40);
    }
    assert!(read(&values, &reference).unwrap() == bytes);
    for wrong in [
        ValueReference { checksum: reference.checksum ^ 1, ..reference },
        ValueReference { length: reference.length - 1, ..reference },
        ValueReference { length: u64::MAX >> 1, ..reference },
        ValueReference { length: 5, ..reference },
    ] {
        assert!(matches!(read(&values, &wrong), Err(Error::Corruption { .. })));
        assert!(!values.is_complete(&wrong).unwrap());
    }
}

#[test]
fn a_file_truncated_anywhere_is_incomplete() {
    for length in [0, 1, 4095, 4096, 5000, 4096 + 65536, 200_000, 204_799] {
        let storage = SimulatedStorage::new(1);
        let values = over(&storage);
        let reference = values.write(FileNumber(3), &value(1, 200_000)).unwrap();
        storage.truncate("000003.value", length);
        assert!(!values.is_complete(&reference).unwrap(), "cut at {length}");
        assert!(matches!(read(&values, &reference), Err(Error::Corruption { .. })));
    }
}

#[test]
fn a_read_error_does_not_mean_absence() {
    let storage = SimulatedStorage::new(1);
    let values = over(&storage);
    let reference = values.write(FileNumber(3), b"value").unwrap();
    storage.inject("(read nth=1) -> eio");
    assert!(values.is_complete(&reference).is_err());
    assert!(values.is_complete(&reference).unwrap());
}

#[test]
fn synced_values_survive_every_power_cut_and_unsynced_ones_are_whole_or_incomplete() {
    let (mut whole, mut incomplete) = (0, 0);
    for seed in 0..100 {
        let storage = SimulatedStorage::new(seed);
        let values = over(&storage);
        let bytes: Vec<_> = (0..4).map(|at| value(seed * 10 + at, 50_000 * at as usize + 10)).collect();
        let write = |at: usize| values.write(FileNumber(at as u64), &bytes[at]).unwrap();
        let mut references = vec![write(0), write(1)];
        values.sync().unwrap();
        references.extend([write(2), write(3)]);
        let after = over(&storage.power_cut(seed));
        for (at, reference) in references.iter().enumerate() {
            if after.is_complete(reference).unwrap() {
                assert!(read(&after, reference).unwrap() == bytes[at]);
                whole += usize::from(at >= 2);
            } else {
                assert!(at >= 2, "seed {seed}: a synced value is lost");
                incomplete += 1;
            }
        }
    }
    assert!(whole > 0 && incomplete > 0);
}

#[test]
fn a_kill_loses_no_value() {
    let storage = SimulatedStorage::new(1);
    let values = over(&storage);
    let reference = values.write(FileNumber(1), &value(1, 300_000)).unwrap();
    assert!(over(&storage.kill()).is_complete(&reference).unwrap());
    assert!(values.write(FileNumber(2), b"x").is_err());
    assert!(values.sync().is_err());
}

#[test]
fn contents_are_synced_before_names_and_nothing_twice() {
    let storage = SimulatedStorage::new(1);
    let values = over(&storage);
    let counts = || (storage.operation_count(Operation::Sync), storage.operation_count(Operation::SyncDirectory));
    values.sync().unwrap();
    assert_eq!(counts(), (0, 0));
    values.write(FileNumber(1), b"1").unwrap();
    values.write(FileNumber(2), b"2").unwrap();
    assert_eq!(counts(), (0, 0));
    // A crash must never show a name without contents.
    let fork = storage.clone_disk();
    assert!(fork.durable_image().is_empty());
    storage.crash_at(3);
    assert!(values.sync().is_err());
    assert!(storage.kill().durable_image().is_empty());
    assert_eq!(counts(), (2, 0));

    let storage = SimulatedStorage::new(1);
    let values = over(&storage);
    let counts = || (storage.operation_count(Operation::Sync), storage.operation_count(Operation::SyncDirectory));
    values.write(FileNumber(1), b"1").unwrap();
    values.sync().unwrap();
    values.sync().unwrap();
    assert_eq!(counts(), (1, 1));
    // The contents of a removed file no longer need a sync.
    values.write(FileNumber(2), b"2").unwrap();
    values.remove(FileNumber(2)).unwrap();
    values.sync().unwrap();
    assert_eq!(counts(), (1, 2));
}

#[test]
fn a_failed_sync_fails_all_later_syncs() {
    for operation in [Operation::Sync, Operation::SyncDirectory] {
        let storage = SimulatedStorage::new(1);
        let values = over(&storage);
        let reference = values.write(FileNumber(1), b"value").unwrap();
        storage.inject(&format!("({operation} nth=1) -> eio"));
        let first = values.sync().unwrap_err().to_string();
        for _ in 0..3 {
            assert_eq!(values.sync().unwrap_err().to_string(), first);
        }
        assert_eq!(values.write(FileNumber(2), b"value").unwrap_err().to_string(), first);
        // Reads still work.
        assert_eq!(read(&values, &reference).unwrap(), b"value");
        values.remove(FileNumber(1)).unwrap();
        assert!(values.sync().is_err());
    }
}

#[test]
fn a_full_disk_fails_the_write_and_leaves_no_file() {
    let storage = SimulatedStorage::new(1);
    let values = over(&storage);
    storage.set_capacity(Some(100_000));
    let first = values.write(FileNumber(1), &value(1, 50_000)).unwrap();
    let error = values.write(FileNumber(2), &value(2, 50_000)).unwrap_err();
    assert!(error.is_disk_full());
    assert_eq!(storage.list().unwrap(), ["000001.value"]);
    // It is not a failure of unknown effect: writing works again once there is space.
    values.sync().unwrap();
    values.remove(first.file).unwrap();
    let reference = values.write(FileNumber(3), &value(3, 50_000)).unwrap();
    values.sync().unwrap();
    assert!(values.is_complete(&reference).unwrap());
}

#[test]
fn open_files_are_bounded_without_any_sync() {
    let storage = SimulatedStorage::new(1);
    let values = over(&storage);
    let count = 3 * OPEN_FILES_MAX as u64;
    let references: Vec<_> = (0..count).map(|at| values.write(FileNumber(at), &at.to_le_bytes()).unwrap()).collect();
    assert_eq!(values.pending.lock().files.len(), OPEN_FILES_MAX);
    assert_eq!(storage.operation_count(Operation::Sync), count - OPEN_FILES_MAX as u64);
    values.sync().unwrap();
    assert!(values.pending.lock().is_empty());
    let after = over(&storage.power_cut(1));
    assert!(references.iter().all(|reference| after.is_complete(reference).unwrap()));
}

#[test]
fn a_returned_sync_covers_every_value_written_before_it_on_any_thread() {
    let storage = SimulatedStorage::new(1);
    let values = Arc::new(over(&storage));
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let (values, storage) = (Arc::clone(&values), storage.clone());
            std::thread::spawn(move || {
                for round in 0..30 {
                    let file = FileNumber(thread * 1000 + round);
                    let reference = values.write(file, &value(file.0, 2000)).unwrap();
                    values.sync().unwrap();
                    let durable = storage.clone_disk();
                    let after = over(&durable.power_cut(round));
                    assert!(after.is_complete(&reference).unwrap(), "{file}");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    values.sync().unwrap();
    assert!(!values.unsynced.load(Ordering::Relaxed));
}

#[test]
fn a_value_above_the_limit_is_rejected() {
    let storage = SimulatedStorage::new(1);
    // Zeroes that are never touched: the length alone is rejected.
    let error = over(&storage).write(FileNumber(1), &vec![0; VALUE_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument(_)));
    assert_eq!(storage.operations(), 0);
}

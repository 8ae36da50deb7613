//! The log by itself: writers, segments, sync, recycling, failures. What recovery decides is in `recovery/tests.rs`.

pub mod harness;
mod torture;

use super::*;
use crate::format::log_record::{BatchEncoder, Operation, batch_length};
use crate::io::PosixStorage;
use crate::io::Storage;
use crate::io::simulated::{Operation as Io, SimulatedStorage};
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::util::{DatabaseId, Error, SequenceNumber};
use crate::util::{KeyspaceId, Kind};
use harness::{OPTIONS, Opened, Random, recover_from};
use std::collections::BTreeMap;
use std::io::ErrorKind;

fn names(storage: &dyn Storage, ending: &str) -> usize {
    storage.list().unwrap().iter().filter(|name| name.ends_with(ending)).count()
}

/// Threads write values of all sizes, some larger than a chunk. Returns the value of each number.
fn write_in_threads(opened: &Opened, threads: u64, writes: u64) -> BTreeMap<u64, Vec<u8>> {
    let written = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let mut client = opened.client();
            let written = &written;
            scope.spawn(move || {
                let mut random = Random(thread);
                for _ in 0..writes {
                    let length = if random.below(50) == 0 { random.below(9000) } else { random.below(200) };
                    let value: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
                    let number = client.put(&value).unwrap();
                    assert!(written.lock().insert(number, value).is_none());
                }
            });
        }
    });
    written.into_inner()
}

#[test]
fn writes_of_many_threads_are_recovered_on_a_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(PosixStorage::new(directory.path()));
    let options = LogOptions { segment_bytes: 16 * 8192, chunk_bytes: 8192, ..OPTIONS };
    let (opened, mut manifest) = Opened::fresh(Arc::clone(&storage), options);
    let written = {
        let _log_threads = opened.log_threads();
        write_in_threads(&opened, 4, 2000)
    };
    assert_eq!(written.len(), 8000);
    assert!(opened.log.bytes() > 8000 * 100);
    opened.log.maintain(&opened.sequencer).unwrap();
    drop(opened);

    let outcome = recover_from(&*storage, &manifest).unwrap();
    assert_eq!(outcome.values, written);
    assert_eq!(outcome.recovered.next_number, SequenceNumber(8001));
    let edit = outcome.recovered.edit.clone().unwrap();
    assert_eq!((edit.epoch, edit.cut, &edit.skipped[..]), (1, SequenceNumber(8000), &[][..]));

    // The next opening replays both log epochs, the first one through the edit.
    let opened = Opened::new(Arc::clone(&storage), &mut manifest, outcome.recovered, options).unwrap();
    let mut all = written;
    {
        let _log_threads = opened.log_threads();
        all.extend(write_in_threads(&opened, 3, 500));
    }
    assert_eq!(recover_from(&*storage, &manifest).unwrap().values, all);
}

#[test]
fn every_kind_of_record_is_recovered() {
    let storage = SimulatedStorage::new(1);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    let mut client = opened.client();
    let operation = |kind, value| Operation { kind, keyspace: KeyspaceId(9), key: b"k", value };
    client.write(operation(Kind::Put, b"put")).unwrap();
    client.write(operation(Kind::Delete, b"")).unwrap();
    client.write(operation(Kind::ValueReference, b"reference")).unwrap();
    let batch = [operation(Kind::Put, b"one,"), operation(Kind::Delete, b""), operation(Kind::Put, b"two")];
    let log = &opened.log;
    let number = |client: &harness::Client| {
        opened.sequencer.announce(&client.slot);
        assert!(log.is_current(&client.writer));
        let number = opened.sequencer.take(&client.slot);
        opened.sequencer.leave(&client.slot);
        number
    };
    let fill = |body: &mut [u8]| {
        let mut encoder = BatchEncoder::new(3, body);
        batch.iter().for_each(|operation| encoder.push(*operation));
    };
    log.prepare(&mut client.writer, Kind::Batch, batch_length(batch.iter().copied()), fill).unwrap();
    let taken = number(&client);
    log.seal(&mut client.writer, taken);
    // A void, a write that failed after it took its number, a run of voids.
    log.prepare(&mut client.writer, Kind::Void, 0, |_| ()).unwrap();
    let taken = number(&client);
    log.seal(&mut client.writer, taken);
    client.prepare(operation(Kind::Put, b"never seen")).unwrap();
    let taken = number(&client);
    log.seal_void(&mut client.writer, taken);
    log.prepare(&mut client.writer, Kind::Void, 8, |_| ()).unwrap();
    let first = number(&client);
    let last = (0..5).map(|_| number(&client)).max().unwrap();
    log.seal_run(&mut client.writer, first, last);
    assert_eq!((first.0, last.0), (7, 12));
    assert_eq!(client.put(b"end").unwrap(), 13);

    let outcome = recover_from(&storage.kill(), &manifest).unwrap();
    let values: Vec<(u64, &[u8])> = outcome.values.iter().map(|(number, value)| (*number, &value[..])).collect();
    assert_eq!(values, [(1, &b"put"[..]), (2, b""), (3, b"reference"), (4, b"one,two"), (13, b"end")]);
    assert_eq!(outcome.recovered.edit.unwrap().skipped, []);
    assert_eq!(outcome.recovered.next_number, SequenceNumber(14));
}

#[test]
fn records_larger_than_a_chunk_or_a_segment_are_recovered() {
    let storage = SimulatedStorage::new(2);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    let log_threads = opened.log_threads();
    let mut client = opened.client();
    let mut written = BTreeMap::new();
    // Four chunks of 4096 bytes make a segment: up to 10 pages is up to two and a half segments.
    for pages in [0usize, 1, 2, 3, 4, 5, 0, 10, 0, 4, 1] {
        for length in [pages * 4096, pages * 4096 + 100, (pages * 4096).saturating_sub(60)] {
            let value = vec![pages as u8 + 1; length];
            written.insert(client.put(&value).unwrap(), value);
        }
    }
    drop(log_threads);
    opened.log.maintain(&opened.sequencer).unwrap();
    assert!(opened.log.state.lock().dedicated.is_empty());
    assert_eq!(recover_from(&storage.clone_disk(), &manifest).unwrap().values, written);
    // None of it was synced by number, but retired segments were: whatever survives is a prefix.
    let cut = recover_from(&storage.power_cut(5), &manifest).unwrap().values;
    assert!(cut.iter().eq(written.iter().take(cut.len())));
}

#[test]
fn recovery_skips_the_place_of_a_cancelled_large_record() {
    let storage = SimulatedStorage::new(3);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    let _log_threads = opened.log_threads();
    let mut client = opened.client();
    let large = vec![1; 3 * 4096];
    let operation = Operation { kind: Kind::Put, keyspace: KeyspaceId(0), key: b"", value: &large };
    for _ in 0..3 {
        client.prepare(operation).unwrap();
        opened.log.cancel(&mut client.writer);
        for _ in 0..40 {
            client.put(&[2; 300]).unwrap();
        }
        // Prepared and never cancelled: the next record takes its place.
        client.prepare(operation).unwrap();
    }
    assert_eq!(recover_from(&storage.kill(), &manifest).unwrap().values.len(), 120);
}

#[test]
fn one_sync_serves_many_threads() {
    let storage = SimulatedStorage::new(4);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    let _log_threads = opened.log_threads();
    let value_syncs = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            let mut client = opened.client();
            let (opened, value_syncs) = (&opened, &value_syncs);
            scope.spawn(move || {
                for _ in 0..30 {
                    let number = SequenceNumber(client.put(b"value").unwrap());
                    let before = || {
                        value_syncs.fetch_add(1, Ordering::Relaxed);
                        std::thread::sleep(std::time::Duration::from_micros(200));
                        Ok(())
                    };
                    opened.log.sync_through(&opened.sequencer, number, &before).unwrap();
                    assert!(opened.log.synced() >= number);
                }
            });
        }
    });
    assert_eq!(opened.log.synced(), SequenceNumber(180));
    let leaders = value_syncs.into_inner();
    assert!((1..180).contains(&leaders), "{leaders} syncs for 180 waiters");
    assert_eq!(recover_from(&storage.power_cut(9), &manifest).unwrap().values.len(), 180);
}

#[test]
fn a_failed_sync_poisons_and_recovery_trusts_only_the_disk() {
    let storage = SimulatedStorage::new(5);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    let mut client = opened.client();
    client.put(b"one").unwrap();
    opened.sync_all().unwrap();
    client.put(b"two").unwrap();
    storage.inject("(sync name~.log nth=1) -> eio");
    assert!(matches!(opened.sync_all(), Err(Error::Io { .. })));
    for result in [client.put(b"three").map(drop), opened.sync(2), opened.log.maintain(&opened.sequencer)] {
        assert!(matches!(result, Err(Error::ReadOnly { .. })), "{result:?}");
    }
    assert!(opened.log.is_poisoned());
    assert_eq!(opened.log.synced(), SequenceNumber(1));
    assert_eq!(names(&storage, "POISON"), 1);

    // The same life, and still a gap would be a cut.
    let next = storage.kill();
    let outcome = recover_from(&next, &manifest).unwrap();
    assert!(outcome.values.contains_key(&1));
    let mut manifest = manifest;
    let opened = Opened::new(Arc::new(next.clone()), &mut manifest, outcome.recovered, OPTIONS).unwrap();
    assert_eq!(names(&next, "POISON"), 0);
    opened.client().put(b"four").unwrap();
}

#[test]
fn an_error_from_the_before_callback_also_poisons() {
    let storage = SimulatedStorage::new(6);
    let (opened, _) = Opened::fresh(Arc::new(storage), OPTIONS);
    let number = SequenceNumber(opened.client().put(b"one").unwrap());
    let failing = || Err(Error::io("sync", std::path::Path::new("value"), ErrorKind::Other.into()));
    assert!(opened.log.sync_through(&opened.sequencer, number, &failing).is_err());
    assert!(opened.log.is_poisoned() && opened.log.synced() < number);
}

#[test]
fn a_full_disk_stops_writes_until_there_is_space() {
    let storage = SimulatedStorage::new(7);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    storage.set_capacity(Some(storage.used()));
    let log_threads = opened.log_threads();
    let mut client = opened.client();
    let mut count = 0;
    let error = loop {
        match client.put(&[1; 1000]) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        assert!(count < 100);
    };
    assert!(error.is_disk_full(), "{error}");
    assert!(count >= 12, "expected a segment of four chunks of three records, got {count}");
    assert!(!opened.log.is_poisoned());
    storage.set_capacity(None);
    while client.put(&[1; 1000]).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    drop(log_threads);
    assert_eq!(recover_from(&storage.kill(), &manifest).unwrap().values.len(), count + 1);
}

#[test]
fn recycled_segments_keep_the_log_within_its_budget_and_stale_bytes_never_replay() {
    let storage = SimulatedStorage::new(8);
    let options = LogOptions { budget_bytes: 10 * 5 * 4096, ..OPTIONS };
    let (opened, mut manifest) = Opened::fresh(Arc::new(storage.clone()), options);
    let log_threads = opened.log_threads();
    let mut client = opened.client();
    let mut idle = opened.client();
    idle.put(b"an idle thread").unwrap();
    let (mut last, mut files_max) = (0, 0);
    for round in 0..400u64 {
        last = client.put(&[round as u8; 900]).unwrap();
        if round % 20 == 19 {
            opened.sync(last).unwrap();
            manifest.incorporated = SequenceNumber(last);
            // Unsealed segments are not recycled, and on a busy machine the log thread may wait for a processor.
            opened.log.maintain(&opened.sequencer).unwrap();
            opened.log.recycle(&opened.log.recyclable(manifest.incorporated)).unwrap();
            files_max = files_max.max(storage.used());
        }
    }
    assert!(storage.used() <= 14 * 5 * 4096 && files_max <= 14 * 5 * 4096, "{files_max} bytes of files");
    assert!(opened.log.bytes() <= 10 * 5 * 4096, "{} bytes of log", opened.log.bytes());
    assert!(storage.operation_count(Io::Create) < 14, "files were not recycled");
    drop(log_threads);

    // The idle thread still owns its chunk of a file that is now another segment: it must not write there.
    opened.log.maintain(&opened.sequencer).unwrap();
    let number = idle.put(b"awake again").unwrap();
    assert_eq!(number, last + 1);
    let outcome = recover_from(&storage.kill(), &manifest).unwrap();
    assert_eq!(outcome.values.keys().copied().collect::<Vec<_>>(), [number]);
    assert_eq!(outcome.values[&number], b"awake again");
}

#[test]
fn an_idle_writer_pins_only_its_chunk_across_recycling() {
    let storage = SimulatedStorage::new(9);
    let (opened, mut manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    let (mut client, mut slow) = (opened.client(), opened.client());
    slow.put(b"first").unwrap();
    // A slow thread is inside `prepare` while its segment is retired, sealed, recycled and in use again.
    let log = Arc::clone(&opened.log);
    let mut written = BTreeMap::new();
    let fill = |body: &mut [u8]| {
        body[..50].fill(0xee);
        for round in 0..130u64 {
            let value = vec![round as u8; 900];
            written.insert(client.put(&value).unwrap(), value);
            opened.log.maintain(&opened.sequencer).unwrap();
            if round % 20 == 0 && round <= 60 {
                opened.sync_all().unwrap();
                manifest.incorporated = opened.sequencer.last();
                opened.log.recycle(&opened.log.recyclable(manifest.incorporated)).unwrap();
            }
        }
        body[50..].fill(0xee);
    };
    log.prepare(&mut slow.writer, Kind::Put, 2000, fill).unwrap();
    assert!(!log.is_current(&slow.writer));
    log.cancel(&mut slow.writer);
    let segments = opened.log.state.lock().current.number.0;
    assert!(segments > 8 && storage.operation_count(Io::Create) < segments, "no file was used again");
    written.retain(|number, _| *number > manifest.incorporated.0);
    assert_eq!(recover_from(&storage.clone_disk(), &manifest).unwrap().values, written);
    let number = slow.put(b"second").unwrap();
    written.insert(number, b"second".to_vec());
    assert_eq!(recover_from(&storage.kill(), &manifest).unwrap().values, written);
}

/// Idle threads own chunks of every file and every shadow that is reused. A record that needs most of a segment once
/// fitted into none of them, and its writer went through segments for ever; so did any record once idle threads owned
/// all chunks.
#[test]
fn idle_writers_of_many_chunks_block_no_other_writer() {
    for mapped in [false, true] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let work = std::thread::spawn(move || {
            let storage = SimulatedStorage::new(7);
            storage.set_maps_safely(mapped);
            let options = LogOptions { budget_bytes: 6 * 5 * 4096, ..OPTIONS };
            let (opened, mut manifest) = Opened::fresh(Arc::new(storage.clone()), options);
            let mut idle = Vec::new();
            let mut busy = opened.client();
            for round in 0..120u64 {
                if round < 60 {
                    let mut client = opened.client();
                    client.put(b"once").unwrap();
                    idle.push(client);
                    // No other thread makes segments here.
                    opened.log.maintain(&opened.sequencer).unwrap();
                }
                busy.put(&vec![round as u8; if round % 3 == 0 { 13_000 } else { 3000 }]).unwrap();
                opened.log.maintain(&opened.sequencer).unwrap();
                if round % 10 == 9 && round < 110 {
                    opened.sync_all().unwrap();
                    manifest.incorporated = opened.log.synced();
                    opened.log.recycle(&opened.log.recyclable(manifest.incorporated)).unwrap();
                }
            }
            assert!(!mapped || (1..=3 * 5 * 4096).contains(&opened.log.shadow_bytes()));
            let last = opened.sequencer.last().0;
            let outcome = recover_from(&storage.kill(), &manifest).unwrap();
            assert!(outcome.values.keys().copied().eq(manifest.incorporated.0 + 1..=last));
            sender.send(()).unwrap();
        });
        let done = receiver.recv_timeout(std::time::Duration::from_secs(60));
        assert!(done.is_ok() || work.is_finished(), "a writer waits for ever, with mapped shadows: {mapped}");
        work.join().unwrap();
    }
}

#[test]
fn a_closed_log_rejects_writes_and_its_mark_is_durable() {
    let storage = SimulatedStorage::new(10);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    let mut client = opened.client();
    client.put(b"one").unwrap();
    opened.log.note_manifest_edit(17);
    opened.sync_all().unwrap();
    opened.log.close(&opened.sequencer, SequenceNumber::ZERO).unwrap();
    opened.log.close(&opened.sequencer, SequenceNumber::ZERO).unwrap();
    assert!(matches!(client.put(b"two"), Err(Error::Closed)));
    let disk = storage.power_cut(3);
    let outcome = recover_from(&disk, &manifest).unwrap();
    assert_eq!(outcome.values.len(), 1);
    let with_edits = |manifest_edits| {
        let input = RecoveryInput { manifest_edits, ..harness::input(&disk, &manifest) };
        recover(input)
    };
    assert!(with_edits(17).is_ok());
    assert!(matches!(with_edits(16), Err(Error::Corruption { .. })));
}

#[test]
fn a_quiet_log_becomes_small_and_loses_nothing() {
    let storage = SimulatedStorage::new(13);
    let options = LogOptions { segment_bytes: 1 << 20, ..OPTIONS };
    let (opened, mut manifest) = Opened::fresh(Arc::new(storage.clone()), options);
    let mut written = {
        let _log_threads = opened.log_threads();
        write_in_threads(&opened, 3, 3000)
    };
    let smallest = 4096 + (32 << 10);
    assert!(opened.log.state.lock().current.size().bytes() > smallest);
    assert!(opened.log.rest(&opened.sequencer).unwrap());
    {
        let state = opened.log.state.lock();
        assert_eq!(state.current.size().bytes(), smallest);
        assert!(state.free.is_empty() && state.retiring.is_empty());
    }
    assert_eq!((names(&storage, ".shadow"), opened.log.shadow_bytes()), (1, smallest as u64));
    assert!(!opened.log.rest(&opened.sequencer).unwrap(), "it is small already");
    written.extend([(opened.client().put(b"after the rest").unwrap(), b"after the rest".to_vec())]);
    assert_eq!(recover_from(&storage.clone_disk(), &manifest).unwrap().values, written);
    // What is not needed any more goes, and the trimmed files with it.
    opened.sync_all().unwrap();
    manifest.incorporated = SequenceNumber(*written.keys().next_back().unwrap() - 1);
    opened.log.recycle(&opened.log.recyclable(manifest.incorporated)).unwrap();
    opened.log.drop_spares();
    assert_eq!((names(&storage, ".log"), names(&storage, ".free")), (1, 0));
    written.retain(|number, _| *number > manifest.incorporated.0);
    assert_eq!(recover_from(&storage.power_cut(1), &manifest).unwrap().values, written);
}

/// A rest once took back the wish of a writer for another segment, and the writer waited for ever.
#[test]
fn a_rest_leaves_the_wishes_of_writers() {
    let (opened, _) = Opened::fresh(Arc::new(SimulatedStorage::new(14)), OPTIONS);
    let mut client = opened.client();
    // A chunk for each: one segment is used up and retired, and a quarter of the next one is in use.
    for _ in 0..5 {
        client.put(&[1; 3000]).unwrap();
        if opened.log.state.lock().retiring.is_empty() {
            opened.log.make_ready(&opened.sequencer, &|_| false).unwrap();
        }
    }
    assert!(opened.log.state.lock().wants_next() && !opened.log.state.lock().retiring.is_empty());
    opened.log.rest(&opened.sequencer).unwrap();
    let state = opened.log.state.lock();
    assert!(state.next.is_some() || state.next_wanted);
}

#[test]
fn invalid_options_are_rejected() {
    for (segment_bytes, chunk_bytes) in [(0, 0), (4096, 0), (4096, 8192), (10_000, 1000)] {
        let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(11));
        let identity = LogIdentity { database: DatabaseId(1), epoch: 1, life: None, first: SequenceNumber(1) };
        let options = LogOptions { segment_bytes, chunk_bytes, ..OPTIONS };
        let name_segment = Box::new(|_, _| Ok(0));
        let (numbers, wake) = (Arc::default(), Box::new(|_| ()));
        let resources = LogResources { clock: storage.clock(), storage, numbers, name_segment, wake };
        let log = Log::create(resources, identity, options);
        assert!(matches!(log, Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn a_segment_is_sealed_only_when_no_writer_can_seal_a_record_in_it() {
    // A writer finds its segment current; then the segment is retired, and others take numbers; then the writer takes a
    // greater number and seals. Waiting only for the newest number at the retirement would have missed it.
    let storage = SimulatedStorage::new(12);
    let (opened, _) = Opened::fresh(Arc::new(storage), OPTIONS);
    let (mut slow, mut other) = (opened.client(), opened.client());
    slow.prepare(Operation { kind: Kind::Put, keyspace: KeyspaceId(0), key: b"k", value: b"slow" }).unwrap();
    opened.sequencer.announce(&slow.slot);
    assert!(opened.log.is_current(&slow.writer));
    other.put(&[1; 900]).unwrap();
    opened.log.make_ready(&opened.sequencer, &|_| false).unwrap();
    while opened.log.is_current(&slow.writer) {
        other.put(&[1; 900]).unwrap();
    }
    std::thread::scope(|scope| {
        let sealing = scope.spawn(|| opened.log.maintain(&opened.sequencer).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(opened.log.state.lock().sealed.is_empty());
        let number = opened.sequencer.take(&slow.slot);
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(opened.log.state.lock().sealed.is_empty());
        opened.log.seal(&mut slow.writer, number);
        opened.sequencer.leave(&slow.slot);
        sealing.join().unwrap();
        let state = opened.log.state.lock();
        assert!(state.retiring.is_empty() && state.sealed.len() == 1 && state.sealed[0].last() >= number);
    });
}

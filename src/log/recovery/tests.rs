//! What recovery decides: the interleavings that `docs/recovery.md` describes, and damaged files.

use super::*;
use crate::format::log_record::Operation;
use crate::format::log_segment::PAGE_BYTES;
use crate::io::OpenMode;
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::log::tests::harness::{DATABASE, Manifest, OPTIONS, Opened, Outcome, input, recover_from, recover_with};
use crate::util::Kind;
use crate::util::sync::Arc;
use crate::util::{Error, Result, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};

fn disk(seed: u64) -> (SimulatedStorage, Opened, Manifest) {
    let storage = SimulatedStorage::new(seed);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    (storage, opened, manifest)
}

fn keys(outcome: &Outcome) -> Vec<u64> {
    outcome.values.keys().copied().collect()
}

fn skipped(outcome: &Outcome) -> Vec<(u64, u64)> {
    let edit = outcome.recovered.edit.as_ref().unwrap();
    edit.skipped.iter().map(|(first, last)| (first.0, last.0)).collect()
}

/// Where the record with this number starts: (its segment, offset of the header). It may be in the shadow only.
fn find(storage: &SimulatedStorage, number: u64) -> (String, u64) {
    let image = storage.current_image();
    for (name, bytes) in &image {
        let Some(first) = bytes.first_chunk::<512>().filter(|_| name.ends_with(".log")) else { continue };
        let header = crate::format::log_segment::SegmentHeader::decode(first, std::path::Path::new(&name)).unwrap();
        let salt = crate::format::log_record::Salt::new(DATABASE, header.number);
        for bytes in [bytes].into_iter().chain(shadow_of(&image, name).and_then(|shadow| image.get(&shadow))) {
            for at in (PAGE_BYTES..bytes.len() - 24).step_by(8) {
                let found = bytes[at..]
                    .first_chunk()
                    .and_then(|bytes| crate::format::log_record::RecordHeader::decode(bytes, salt, at as u64));
                if found.is_some_and(|header| header.number.0 == number) {
                    return (name.clone(), at as u64);
                }
            }
        }
    }
    panic!("no record {number}");
}

/// The name of a segment's shadow.
fn shadow_of(image: &BTreeMap<String, Vec<u8>>, segment: &str) -> Option<String> {
    let header = image[segment].first_chunk::<512>()?;
    let header = crate::format::log_segment::SegmentHeader::decode(header, std::path::Path::new(segment)).unwrap();
    Some(crate::log::file_name(header.shadow?, crate::log::Role::Shadow))
}

/// Either file of a segment may be the one that is named, if both have the damage.
fn assert_corruption(result: Result<Outcome>, file: &str, at: u64) {
    match result {
        Err(Error::Corruption { path, offset, .. }) => {
            let is_named = path.ends_with(file) || path.extension().is_some_and(|kind| kind == "shadow");
            assert!(is_named && offset == at, "{}:{offset} instead of {file}:{at}", path.display());
        }
        other => panic!("{:?}", other.map(|outcome| keys(&outcome))),
    }
}

/// A copy with one damaged byte of a segment, in its file and in its shadow.
fn damaged(storage: &SimulatedStorage, name: &str, offset: u64) -> SimulatedStorage {
    let copy = storage.clone_disk();
    let image = copy.current_image();
    copy.corrupt(name, offset, 0x10);
    if let Some(shadow) = shadow_of(&image, name).filter(|shadow| image.contains_key(shadow)) {
        copy.corrupt(&shadow, offset, 0x10);
    }
    copy
}

#[test]
fn a_kill_leaves_a_gap_that_is_skipped_for_ever() {
    // A kill leaves gap 5, which is skipped; later everything up to 100 is synced; then a power loss: the cut must not
    // be at 5.
    let (storage, opened, mut manifest) = disk(1);
    let (mut client, mut other) = (opened.client(), opened.client());
    for _ in 0..4 {
        client.put(b"before").unwrap();
    }
    assert_eq!(other.lose(), 5);
    for _ in 0..3 {
        client.put(b"behind").unwrap();
    }
    let storage = storage.kill();
    let outcome = recover_from(&storage, &manifest).unwrap();
    assert_eq!((keys(&outcome), skipped(&outcome)), (vec![1, 2, 3, 4, 6, 7, 8], vec![(5, 5)]));
    let opened = Opened::new(Arc::new(storage.clone()), &mut manifest, outcome.recovered, OPTIONS).unwrap();
    opened.log.maintain(&opened.sequencer).unwrap();
    let mut client = opened.client();
    for number in 9..=100 {
        assert_eq!(client.put(b"after").unwrap(), number);
        opened.log.maintain(&opened.sequencer).unwrap();
    }
    opened.sync(100).unwrap();
    let outcome = recover_from(&storage.power_cut(7), &manifest).unwrap();
    assert_eq!(keys(&outcome), (1..=100).filter(|number| *number != 5).collect::<Vec<_>>());
}

#[test]
fn what_a_cut_discarded_never_comes_back() {
    // A cut at 500; new writes reuse 500..520; a kill: the discarded 521..600 must not come back.
    let (storage, opened, manifest) = disk(2);
    let log_threads = opened.log_threads();
    let mut client = opened.client();
    for number in 1..=600u64 {
        client.put(&number.to_le_bytes()).unwrap();
        if number == 500 {
            opened.sync(500).unwrap();
        }
    }
    drop(log_threads);
    let mut seen = false;
    for seed in 0..20 {
        let (storage, mut manifest) = (storage.clone_disk().power_cut(seed), manifest.clone());
        let outcome = recover_from(&storage, &manifest).unwrap();
        let cut = outcome.values.len() as u64;
        assert_eq!(keys(&outcome), (1..=cut).collect::<Vec<_>>());
        assert!(cut >= 500);
        seen |= (501..590).contains(&cut) && outcome.recovered.next_number.0 > cut + 1;
        let next = outcome.recovered.next_number.0;
        let opened = Opened::new(Arc::new(storage.clone()), &mut manifest, outcome.recovered, OPTIONS).unwrap();
        opened.log.maintain(&opened.sequencer).unwrap();
        let mut client = opened.client();
        for number in next..next + 20 {
            assert_eq!(client.put(b"new").unwrap(), number);
        }
        let outcome = recover_from(&storage.kill(), &manifest).unwrap();
        assert_eq!(keys(&outcome), (1..=cut).chain(next..next + 20).collect::<Vec<_>>());
    }
    assert!(seen, "no seed left records after the cut");
}

#[test]
fn killed_during_recovery_then_a_power_cut() {
    let (storage, opened, manifest) = disk(3);
    let log_threads = opened.log_threads();
    let mut client = opened.client();
    for _ in 0..50 {
        client.put(&[1; 500]).unwrap();
    }
    drop(log_threads);
    let storage = storage.kill();
    assert_eq!(recover_from(&storage, &manifest).unwrap().values.len(), 50);
    // The first recovery has synced what it read, so the second one, under the other rule, finds all of it.
    assert_eq!(recover_from(&storage.power_cut(1), &manifest).unwrap().values.len(), 50);
}

#[test]
fn the_rule_follows_the_life() {
    let (storage, opened, manifest) = disk(4);
    let (mut client, mut other) = (opened.client(), opened.client());
    client.put(b"1").unwrap();
    other.lose();
    client.put(b"3").unwrap();
    let skips = |outcome: Outcome| (keys(&outcome), skipped(&outcome));
    let (all, cut) = ((vec![1, 3], vec![(2, 2)]), (vec![1], vec![]));
    assert_eq!(skips(recover_from(&storage.clone_disk(), &manifest).unwrap()), all);
    assert_eq!(skips(recover_with(&storage.clone_disk(), &manifest, true, &|_| Ok(true)).unwrap()), cut);
    assert_eq!(skips(recover_from(&storage.clone_disk().remount(), &manifest).unwrap()), cut);
    let unknown = storage.clone_disk();
    unknown.set_life_known(false);
    assert_eq!(skips(recover_from(&unknown, &manifest).unwrap()), cut);
    let poisoned = storage.clone_disk();
    poisoned.open("POISON", OpenMode::Create).unwrap().write_all_at(b"torn", 0).unwrap();
    assert_eq!(skips(recover_from(&poisoned, &manifest).unwrap()), cut);
    let poisoned = storage.clone_disk();
    let mark = crate::format::log_segment::encode_poison(7, "another log epoch");
    poisoned.open("POISON", OpenMode::Create).unwrap().write_all_at(&mark, 0).unwrap();
    assert_eq!(skips(recover_from(&poisoned, &manifest).unwrap()), all);
}

#[test]
fn a_bad_record_below_the_mark_is_corruption_and_above_it_the_cut() {
    let (storage, opened, manifest) = disk(5);
    let mut client = opened.client();
    for _ in 0..10 {
        client.put(&[5; 100]).unwrap();
    }
    opened.sync(10).unwrap();
    // The second sync makes the first one's mark durable. 11 and 12 are synced, too, but no mark says so.
    client.put(&[5; 100]).unwrap();
    client.put(&[5; 100]).unwrap();
    opened.sync(12).unwrap();
    let storage = storage.power_cut(3);
    assert_eq!(recover_from(&storage, &manifest).unwrap().values.len(), 12);
    for number in 1..=12 {
        let (name, at) = find(&storage, number);
        for offset in 0..40 {
            // The mark of the second sync may have reached the disk by chance.
            let result = recover_from(&damaged(&storage, &name, at + offset), &manifest);
            let place = if offset < 24 { at } else { at + 16 };
            match result {
                Ok(outcome) if number > 10 => assert_eq!(keys(&outcome), (1..number).collect::<Vec<_>>()),
                result => assert_corruption(result, &name, place),
            }
        }
    }
}

#[test]
fn in_the_same_life_only_a_chunks_last_record_may_be_bad() {
    let (storage, opened, manifest) = disk(6);
    let mut client = opened.client();
    for _ in 0..10 {
        client.put(&[6; 100]).unwrap();
    }
    let storage = storage.kill();
    for number in 1..=10 {
        let (name, at) = find(&storage, number);
        assert_corruption(recover_from(&damaged(&storage, &name, at + 24 + 50), &manifest), &name, at + 16);
        let result = recover_from(&damaged(&storage, &name, at + 8), &manifest);
        if number < 10 {
            assert_corruption(result, &name, at);
        } else {
            assert_eq!(keys(&result.unwrap()), (1..=9).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_lost_synced_record_is_corruption_in_the_same_life_too() {
    let (storage, opened, manifest) = disk(7);
    let mut client = opened.client();
    client.put(b"one").unwrap();
    opened.sync(1).unwrap();
    let (name, at) = find(&storage, 1);
    assert_corruption(recover_from(&damaged(&storage, &name, at), &manifest), &name, at);
}

#[test]
fn an_earlier_epoch_must_be_complete_up_to_its_cut() {
    let (storage, opened, mut manifest) = disk(8);
    let mut client = opened.client();
    for _ in 0..3 {
        client.put(b"old").unwrap();
    }
    let storage = storage.kill();
    let outcome = recover_from(&storage, &manifest).unwrap();
    Opened::new(Arc::new(storage.clone()), &mut manifest, outcome.recovered, OPTIONS).unwrap();
    for number in 1..=3 {
        let (name, at) = find(&storage, number);
        assert_corruption(recover_from(&damaged(&storage, &name, at), &manifest), &name, at);
        manifest.incorporated = SequenceNumber(number);
        let left = recover_from(&damaged(&storage, &name, at), &manifest);
        // Reading stops at the bad record, so the records after it are missing as well.
        if number < 3 {
            assert_corruption(left, &name, at)
        } else {
            assert!(left.unwrap().values.is_empty())
        }
        manifest.incorporated = SequenceNumber(0);
    }
    let (name, _) = find(&storage, 1);
    storage.remove(&name).unwrap();
    assert!(matches!(recover_from(&storage, &manifest), Err(Error::Corruption { .. })));
    manifest.incorporated = SequenceNumber(3);
    assert!(recover_from(&storage, &manifest).unwrap().values.is_empty());
}

#[test]
fn a_record_whose_value_file_is_incomplete_is_missing() {
    let (storage, opened, mut manifest) = disk(9);
    let mut client = opened.client();
    let reference = |value| Operation { kind: Kind::ValueReference, keyspace: Default::default(), key: b"k", value };
    for value in [&b"good"[..], b"bad", b"good"] {
        client.write(reference(value)).unwrap();
    }
    let complete = |value: &[u8]| Ok(value == b"good");
    // In the same life nothing was lost, and the file was complete before the record was sealed: so it was damaged.
    let storage = storage.kill();
    assert!(matches!(recover_with(&storage, &manifest, false, &complete), Err(Error::Corruption { .. })));
    let outcome = recover_with(&storage, &manifest, true, &complete).unwrap();
    assert_eq!(keys(&outcome), [1]);
    assert_eq!(outcome.recovered.next_number, SequenceNumber(4));
    // The second one is incomplete, so only the third one was discarded.
    assert_eq!(outcome.recovered.discarded, 1);
    // Decided once, by a forced cut: the record does not come back even if its file reappears.
    manifest.recovered.extend(outcome.recovered.edit);
    assert_eq!(keys(&recover_from(&storage, &manifest).unwrap()), [1]);
    let failing = |_: &[u8]| Err(Error::Closed);
    assert!(matches!(recover_with(&storage, &manifest, false, &failing), Err(Error::Closed)));
}

#[test]
fn damaged_headers_are_named_and_unprepared_segments_are_unused() {
    let (storage, opened, manifest) = disk(10);
    opened.client().put(b"one").unwrap();
    let (name, _) = find(&storage, 1);
    for offset in 0..512 {
        assert!(recover_from(&damaged(&storage, &name, offset), &manifest).is_err(), "offset {offset}");
    }
    let copy = storage.clone_disk();
    copy.corrupt(&name, 8, 3);
    assert_corruption(recover_from(&copy, &manifest), &name, 8);
    copy.corrupt(&name, 100, 1);
    assert!(matches!(recover_from(&copy, &manifest), Err(Error::NewerFormat { found: 2, .. })));
    let copy = storage.clone_disk();
    copy.truncate(&name, 5000);
    assert!(matches!(recover_from(&copy, &manifest), Err(Error::Corruption { .. })));
    let copy = storage.clone_disk();
    copy.rename(&name, "000099.log").unwrap();
    let outcome = recover_from(&copy, &manifest).unwrap();
    assert!(outcome.values.is_empty());
    assert!(outcome.recovered.segments.iter().any(|segment| segment.name == "000099.log" && segment.unused));
    let copy = storage.clone_disk();
    copy.rename(&name, "000000.log").unwrap();
    assert_corruption(recover_from(&copy, &manifest), "000000.log", 24);
    let forgotten = Manifest { epochs_from: 2, ..manifest.clone() };
    assert!(recover_from(&storage, &forgotten).unwrap().recovered.edit.is_none());
}

#[test]
fn two_epochs_without_an_edit_are_rejected() {
    let (storage, opened, mut manifest) = disk(11);
    opened.client().put(b"one").unwrap();
    let storage = storage.kill();
    let outcome = recover_from(&storage, &manifest).unwrap();
    Opened::new(Arc::new(storage.clone()), &mut manifest, outcome.recovered, OPTIONS).unwrap();
    manifest.recovered.clear();
    assert!(matches!(recover_from(&storage, &manifest), Err(Error::Corruption { .. })));
}

#[test]
fn garbage_anywhere_is_an_error_or_harmless() {
    let (storage, opened, manifest) = disk(12);
    let mut clients = [opened.client(), opened.client()];
    for round in 0..24usize {
        clients[round % 2].put(&[round as u8; 300]).unwrap();
    }
    opened.sync(24).unwrap();
    let names: Vec<String> = storage.current_image().into_keys().filter(|name| name.ends_with(".log")).collect();
    let mut random = crate::log::tests::harness::Random(1);
    for _ in 0..600 {
        let copy = storage.clone_disk();
        for _ in 0..1 + random.below(3) {
            let name = &names[random.below(names.len() as u64) as usize];
            copy.corrupt(name, random.below(5 * 4096), 1 << random.below(8));
        }
        if random.below(8) == 0 {
            copy.truncate(&names[0], random.below(5 * 4096));
        }
        // All 24 were synced and the mark is there, unless the marks themselves are hit: never fewer without an error.
        if let Ok(outcome) = recover_from(&copy, &manifest) {
            assert!(outcome.values.iter().all(|(number, value)| value[..] == [(number - 1) as u8; 300]));
            assert_eq!(outcome.values.len(), 24);
        }
    }
}

/// In one life all unacknowledged numbers were held by threads, each of which had a chunk. A chunk that was lost
/// completely (a page of zeroes, an older page) once counted as that many threads.
#[test]
fn more_missing_numbers_than_chunks_are_corruption_in_the_same_life_too() {
    let (storage, opened, manifest) = disk(14);
    let mut client = opened.client();
    for _ in 0..90 {
        client.put(&[6; 100]).unwrap();
    }
    let storage = storage.kill();
    let whole = recover_from(&storage, &manifest).unwrap();
    assert_eq!((whole.values.len(), skipped(&whole)), (90, vec![]));
    // The last records of a chunk may be missing, as many as there are chunks with space for one: this one, and five
    // empty ones.
    for (lost, noticed) in [(25, false), (24, true), (1, true)] {
        let copy = storage.clone_disk();
        let (name, from) = find(&storage, lost);
        let zeroes = vec![0; 2 * PAGE_BYTES - from as usize];
        let shadow = shadow_of(&copy.current_image(), &name).unwrap();
        for name in [&name, &shadow] {
            copy.open(name, OpenMode::ReadWrite).unwrap().write_all_at(&zeroes, from).unwrap();
        }
        match recover_from(&copy, &manifest) {
            Ok(outcome) if !noticed => assert_eq!(skipped(&outcome), [(lost, 30)]),
            result => assert_corruption(result, &name, from),
        }
    }
}

/// A number that two records have: reading chunks in parallel must not hide what a merge would have found.
#[test]
fn a_number_that_comes_twice_is_corruption() {
    let (storage, opened, manifest) = disk(15);
    let (mut client, mut other) = (opened.client(), opened.client());
    client.put(b"one").unwrap();
    other.prepare(Operation { kind: Kind::Put, keyspace: Default::default(), key: b"k", value: b"again" }).unwrap();
    opened.log.seal(&mut other.writer, SequenceNumber(1));
    let storage = storage.kill();
    let (name, first) = find(&storage, 1);
    assert_eq!(first, PAGE_BYTES as u64);
    assert_corruption(recover_from(&storage, &manifest), &name, 2 * PAGE_BYTES as u64 + 8);
}

#[test]
fn the_number_of_threads_changes_no_result() {
    let storage = SimulatedStorage::new(16);
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), OPTIONS);
    let mut clients = [opened.client(), opened.client(), opened.client()];
    for round in 0..900usize {
        clients[round % 3].put(&[round as u8; 60]).unwrap();
        opened.log.maintain(&opened.sequencer).unwrap();
    }
    for (life, storage) in [storage.clone_disk().kill(), storage.clone_disk().power_cut(5)].into_iter().enumerate() {
        for damage in [None, Some(200), Some(700)] {
            let copy = storage.clone_disk();
            if let Some((name, at)) = damage.filter(|_| life == 0).map(|number| find(&storage, number)) {
                copy.corrupt(&name, at + 30, 1);
            }
            let found = |threads| {
                let found = recover(RecoveryInput { threads, ..input(&copy, &manifest) });
                format!("{:?}", found.map(|found| (found.edit, found.segments, found.contents.ranges(1000))))
            };
            assert_eq!(found(1), found(3));
        }
    }
}

/// Not a reliable measurement, but a replay that became a hundred times slower is visible: run with `--nocapture`.
#[test]
fn two_hundred_thousand_records_replay_fast() {
    let storage = SimulatedStorage::new(13);
    let options = crate::log::LogOptions {
        segment_bytes: 64 << 20,
        chunk_bytes: 256 << 10,
        budget_bytes: 1 << 30,
        deterministic: false,
        scarce: false,
    };
    let (opened, manifest) = Opened::fresh(Arc::new(storage.clone()), options);
    let mut clients = [opened.client(), opened.client(), opened.client()];
    let log_threads = opened.log_threads();
    for round in 0..200_000usize {
        clients[round % 3].put(&[7; 80]).unwrap();
    }
    drop(log_threads);
    let start = std::time::Instant::now();
    let input = RecoveryInput {
        storage: &storage.kill(),
        database: DATABASE,
        recovered: &[],
        incorporated: SequenceNumber::ZERO,
        epochs_from: manifest.epochs_from,
        files_from: crate::util::FileNumber(0),
        life: storage.life(),
        segments: const { &BTreeSet::new() },
        synced: SequenceNumber::ZERO,
        manifest_edits: u64::MAX,
        access: super::Access::Write,
        force_cut: true,
        threads: 2,
        value_complete: &|_| Ok(true),
    };
    let (mut applied, mut bytes) = (0, 0);
    let contents = recover(input).unwrap().contents;
    contents
        .read(&(SequenceNumber(1)..=SequenceNumber::MAX), &mut |_, operations| {
            applied += 1;
            bytes += operations.map(|operation| operation.value.len()).sum::<usize>();
            Ok(())
        })
        .unwrap();
    println!("{} ns a record", start.elapsed().as_nanos() / 200_000);
    assert_eq!((applied, bytes), (200_000, 200_000 * 80));
}

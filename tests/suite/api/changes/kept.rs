//! What is kept: by bytes, by age, on a full disk, and when a file is damaged.

use super::{PLENTY, everything, follow, in_memory, key};
use crate::support::tiny;
use alluvium::internals::DeterministicDb;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{ChangeRetention, Db, Error, Options};
use std::sync::Arc;
use std::time::Duration;

fn open(disk: &SimulatedStorage, retention: ChangeRetention) -> DeterministicDb {
    let options = Options::new().memory_budget(1 << 20).listener(super::say).change_retention(retention);
    DeterministicDb::open_small(Arc::new(disk.clone()), options).unwrap()
}

/// The files of the stream in order.
fn files(disk: &SimulatedStorage) -> Vec<String> {
    let mut names = disk.list().unwrap();
    names.retain(|name| name.ends_with(".changes"));
    names.sort();
    names
}

/// The oldest changes go when there are too many bytes; a follower that needs them gets a clear error.
#[test]
fn the_oldest_changes_go_first() {
    let db = in_memory(tiny().change_retention(ChangeRetention::new(400 << 10)));
    let start = db.stats().last_number;
    let mut behind = db.changes(start).unwrap();
    for round in 0..4_000 {
        db.put(key(round % 100), [7; 500]).unwrap();
        if round == 0 {
            behind.next().unwrap().unwrap();
        }
    }
    db.flush().unwrap();
    // The last file is not full yet.
    let kept = db.stats();
    assert!(kept.change_bytes <= 400 << 10, "{} bytes", kept.change_bytes);
    assert!(kept.change_bytes > 250 << 10, "{} bytes", kept.change_bytes);
    let oldest = kept.changes_after;
    assert!(oldest > start);
    let error = db.changes(start).unwrap_err();
    assert!(matches!(error, Error::ChangesTooOld { since, oldest: from } if since == start && from == oldest));
    assert!(error.to_string().contains("begin with a checkpoint"), "{error}");
    let mut changes = db.changes(oldest).unwrap();
    assert_eq!(changes.by_ref().map(Result::unwrap).count() as u64, db.stats().last_number - oldest);
    // What a slow follower has read of a file that is gone it has; then it gets the error, and again when it asks again.
    let rest: Vec<_> = behind.by_ref().take(4_000).take_while(Result::is_ok).map(Result::unwrap).collect();
    assert!(rest.windows(2).all(|pair| pair[0].number() + 1 == pair[1].number()));
    assert!(matches!(behind.next(), Some(Err(Error::ChangesTooOld { .. }))));
    assert_eq!(kept.changes_lost, 0);
}

#[test]
fn old_changes_go() {
    let disk = SimulatedStorage::new(3);
    let day = Duration::from_secs(24 * 60 * 60);
    let db = open(&disk, ChangeRetention::new(200 << 10).age(day));
    let start = db.stats().last_number;
    let write = |rounds: u64| {
        (0..rounds).for_each(|round| db.put(key(round), [7; 500]).unwrap());
        db.flush().unwrap();
        db.stats().last_number
    };
    let first = write(100);
    assert_eq!(db.stats().changes_after, start);
    disk.advance(day / 2);
    let second = write(100);
    assert_eq!(db.stats().changes_after, start);
    disk.advance(day / 2 + day / 10);
    let last = write(1);
    let oldest = db.stats().changes_after;
    assert!(oldest > start && oldest <= first, "{oldest} of {start}, {first}");
    disk.advance(day);
    write(100);
    let oldest = db.stats().changes_after;
    assert!(oldest > first && oldest <= last, "{oldest} of {second}, {last}");
    assert!(db.changes(start).is_err());
}

/// On a full disk the stream goes before anything else of the store suffers, and begins anew when there is space again.
#[test]
fn a_full_disk_takes_the_stream_first() {
    let disk = SimulatedStorage::new(4);
    let db = open(&disk, PLENTY);
    let start = db.stats().last_number;
    for round in 0..2_000 {
        db.put(key(round % 20), [7; 500]).unwrap();
        while db.step() {}
    }
    let kept = db.stats();
    assert!(kept.change_bytes > 900 << 10 && kept.changes_after == start);
    // Less than the stream has taken is left.
    disk.set_capacity(Some(disk.used() + (200 << 10)));
    for round in 0..1_500 {
        db.put(key(round % 20), [8; 500]).unwrap();
        while db.step() {}
    }
    let kept = db.stats();
    assert!(kept.changes_lost >= 1);
    assert!(matches!(db.changes(start), Err(Error::ChangesTooOld { .. })));
    disk.set_capacity(None);
    while db.step() {}
    let start = db.stats().last_number;
    let copy = in_memory(tiny());
    for (key, value) in db.iter().unwrap().map(Result::unwrap) {
        copy.put(key, value).unwrap();
    }
    let since = {
        // From the next writes on.
        db.put("next", "write").unwrap();
        db.flush().unwrap();
        db.stats().changes_after.max(start)
    };
    (0..100).for_each(|round| db.put(key(round), "after").unwrap());
    copy.put("next", "write").unwrap();
    while follow(&db, &copy, since, 100).unwrap() {}
    assert_eq!(everything(&copy), everything(&db));
}

/// A damaged file is an error of the follower that needs it, and of nothing else. The newest one may end anywhere.
#[test]
fn a_damaged_file_is_named_or_the_stream_begins_anew() {
    let disk = SimulatedStorage::new(5);
    let db = open(&disk, ChangeRetention::new(200 << 10));
    let start = db.stats().last_number;
    (0..200).for_each(|round| db.put(key(round), [7; 500]).unwrap());
    db.close().unwrap();
    let names = files(&disk);
    assert!(names.len() > 2, "{names:?}");
    let expected = everything(&open(&disk.clone_disk(), PLENTY));
    let mut anew = 0;
    for (at, name) in names.iter().enumerate() {
        let length = disk.current_image()[name].len() as u64;
        for offset in [0, 20, 40, 70, 100, length / 2, length - 1] {
            let disk = disk.clone_disk();
            disk.corrupt(name, offset, 0x40);
            let what = format!("{name} of {names:?} at {offset}");
            let db = open(&disk, PLENTY);
            assert_eq!(everything(&db), expected, "{what}");
            match db.changes(start) {
                Err(Error::ChangesTooOld { .. }) => anew += 1,
                Err(error) => panic!("{what}: {error}"),
                Ok(changes) => {
                    let mut seen = 0;
                    let end = changes.take(1_000).find_map(|write| match write {
                        Ok(write) => {
                            seen += 1;
                            assert_eq!(write.number(), start + seen, "{what}: a write is missing");
                            None
                        }
                        Err(error) => Some(error),
                    });
                    match end {
                        Some(Error::Corruption { path, .. }) => assert!(path.ends_with(name), "{what}: {path:?}"),
                        Some(Error::ChangesTooOld { .. }) => {}
                        // The log still had what the end of the newest file has lost.
                        None if at + 1 == names.len() && seen == 200 => {}
                        other => panic!("{what}: {other:?} after {seen} writes"),
                    }
                }
            }
            // What comes is kept, whatever came before.
            let start = db.stats().last_number;
            db.put("next", "write").unwrap();
            if at + 1 == names.len() || db.changes(start).is_ok() {
                assert_eq!(db.changes(start).unwrap().count(), 1, "{what}");
            }
            let found = Db::verify_closed_with(Arc::new(disk.kill()), alluvium::Depth::Deep, &mut |_| ()).unwrap();
            // It names the damaged file, or the opening has removed it.
            let names_it = |error: &Error| matches!(error, Error::Corruption { path, .. } if path.ends_with(name));
            assert!(found.damage.iter().all(names_it), "{what}: {:?}", found.damage);
        }
    }
    assert!(anew > 3, "{anew}");
}

/// A record that was copied is damaged in the log, and a forced cut leaves it out: a follower must not go on, since the store never
/// has what the follower has seen.
#[test]
fn a_forced_cut_below_what_was_copied_ends_the_stream() {
    let disk = SimulatedStorage::new(8);
    let db = open(&disk, PLENTY);
    (0..5).for_each(|number| db.put(key(number), format!("value {number}.")).unwrap());
    assert_eq!(db.changes(0).unwrap().map(Result::unwrap).count(), 5);
    let (mut cut, mut ended) = (0, 0);
    for seed in 0..40 {
        let disk = disk.clone_disk().power_cut(seed);
        let damaged = b"value 2.";
        let places = disk.current_image().into_iter().filter_map(|(name, bytes)| {
            let at = bytes.windows(damaged.len()).position(|window| window == damaged)?;
            (!name.ends_with(".changes")).then_some((name, at))
        });
        for (name, at) in places.collect::<Vec<_>>() {
            disk.corrupt(&name, at as u64, 1);
        }
        let options = Options::new().memory_budget(1 << 20).force_cut(true);
        // If the mark of the sync is on the disk, the record must be there.
        let Ok(db) = DeterministicDb::open_small(Arc::new(disk.clone()), options) else { continue };
        cut += 1;
        assert_eq!(db.iter().unwrap().count(), 2);
        let last = db.stats().last_number;
        assert!(last >= 5, "{last}");
        match db.changes(0) {
            // The copy was not synced either, and was made again.
            Ok(changes) => assert_eq!((changes.count(), db.stats().changes_lost), (2, 0)),
            Err(Error::ChangesTooOld { oldest, .. }) => {
                assert_eq!((oldest, db.stats().changes_lost), (last, 1));
                ended += 1;
            }
            Err(error) => panic!("{error}"),
        }
        db.put("next", "write").unwrap();
        assert_eq!(db.changes(last).unwrap().count(), 1);
    }
    assert!(cut > 6 && ended > 2, "{cut} cut, {ended} ended");
}

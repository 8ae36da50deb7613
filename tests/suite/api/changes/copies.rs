//! Stores that were made of another one: a position in the changes of the one is none in those of the other.

use super::{PLENTY, key};
use crate::support::tiny;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Backups, Db, Error, Options, ReadOnlyDb};
use std::sync::Arc;

fn put(db: &Db, count: u64) -> u64 {
    (0..count).for_each(|number| db.put(key(number), "").unwrap());
    db.stats().last_number
}

/// Opens a copy, writes to it, and checks that a follower that has seen the writes of another store up to `position` notices.
fn check_copy(disk: &SimulatedStorage, path: &str, position: u64) -> u64 {
    let copy = Db::open_with(Arc::new(disk.at(path)), tiny().change_retention(PLENTY)).unwrap();
    for count in [150, 300] {
        put(&copy, count);
        let found = copy.changes(position).map(|_| ());
        assert!(
            matches!(found, Err(Error::ChangesTooOld { since, .. }) if since == position),
            "{path}: there is no gap for a follower at {position} after {count} writes: {found:?}"
        );
    }
    let start = copy.stats().last_number;
    let mut changes = copy.changes(start).unwrap();
    copy.put("next", "").unwrap();
    assert_eq!(changes.next().unwrap().unwrap().number(), start + 1);
    assert_eq!(copy.stats().last_number, start + 1);
    copy.close().unwrap();
    // The numbers stay after another opening.
    let copy = Db::open_with(Arc::new(disk.at(path)), tiny().change_retention(PLENTY)).unwrap();
    assert_eq!(copy.changes(start).unwrap().map(|write| write.unwrap().number()).collect::<Vec<_>>(), [start + 1]);
    start + 1
}

/// A backup is restored in place of its store, which was at number 200, and writers write more than the store had: a follower of
/// the store went on after 200 without a word. Two restored stores, a checkpoint and its store differ likewise.
#[test]
fn positions_of_other_histories_are_too_old() {
    let disk = SimulatedStorage::new(1);
    let db = Db::open_with(Arc::new(disk.at("/store")), tiny().change_retention(PLENTY)).unwrap();
    put(&db, 100);
    db.backup("/backups").unwrap();
    let checkpoint = db.checkpoint("/checkpoint").unwrap();
    let position = put(&db, 100);
    assert!(position > checkpoint.number);
    let backups = Backups::open_with(Arc::new(disk.at("/backups"))).unwrap();
    for path in ["/one", "/other"] {
        assert_eq!(backups.restore(1, path).unwrap().number, checkpoint.number);
    }
    let one = check_copy(&disk, "/one", position);
    let other = check_copy(&disk, "/other", position);
    assert!(one.abs_diff(other) > 100_000, "two copies take the numbers {one} and {other}");
    check_copy(&disk, "/checkpoint", position);
    // And the other way round.
    put(&db, 1000);
    let ahead = db.changes(one).map(|_| ());
    assert!(matches!(&ahead, Err(Error::InvalidArgument(reason)) if reason.contains("no change after")), "{ahead:?}");
    // A copy of a copy.
    let copy = Db::open_with(Arc::new(disk.at("/one")), tiny()).unwrap();
    copy.checkpoint("/third").unwrap();
    let ahead = put(&copy, 10);
    copy.close().unwrap();
    check_copy(&disk, "/third", ahead);
}

/// A reader took any position for one that is to come, and waited for it.
#[test]
fn a_reader_refuses_a_position_that_the_store_has_not_reached() {
    let disk = SimulatedStorage::new(1);
    let db = Db::open_with(Arc::new(disk.at("/store")), tiny().change_retention(PLENTY)).unwrap();
    let last = put(&db, 100);
    let mut own = db.changes(0).unwrap();
    assert_eq!(own.by_ref().count(), 100);
    let reader = ReadOnlyDb::open_with(Arc::new(disk.at("/store")), Options::new()).unwrap();
    assert!(reader.changes(last).unwrap().next().is_none());
    assert_eq!(reader.changes(last - 1).unwrap().count(), 1);
    for position in [last + 1, 1 << 40, u64::MAX] {
        let found = reader.changes(position).map(|_| ());
        let is_named = |reason: &str| reason.contains("no change after") && reason.contains(&format!("number {last};"));
        assert!(matches!(&found, Err(Error::InvalidArgument(reason)) if is_named(reason)), "{position}: {found:?}");
    }
    put(&db, 20);
    own.by_ref().for_each(|write| drop(write.unwrap()));
    assert_eq!(reader.changes(last + 1).unwrap().count(), 19);
}

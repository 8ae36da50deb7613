//! Keyspaces on a full disk and in a damaged store.

use super::*;
use std::time::Duration;

/// A drop frees space, so it must work where there is none. (What it frees needs some: the tombstone goes to the disk first.)
#[test]
fn a_keyspace_can_be_dropped_on_a_full_disk() {
    let disk = SimulatedStorage::new(1);
    disk.set_capacity(Some(4 << 20));
    let options = tiny().memory_budget(256 << 10).sync_interval(None);
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    let doomed = keyspace(&db, "doomed");
    let full = (0..100_000_u32).find(|at| {
        let put = doomed.put(at.to_be_bytes(), vec![*at as u8; 2000]);
        put.is_err() && db.stats().disk_full
    });
    assert!(full.is_some(), "the disk is never full");
    assert!(doomed.put("more", vec![0; 2000]).is_err());
    assert!(db.drop_keyspace("doomed").unwrap());
    let before = db.stats().branch_bytes;
    disk.set_capacity(Some(8 << 20));
    disk.advance(Duration::from_secs(60));
    while db.step() {}
    keyspace(&db, "next").put("a", "1").unwrap();
    assert!(db.stats().branch_bytes < before / 2, "{before} bytes before, {} after", db.stats().branch_bytes);
}

/// The file with the catalog is lost. A new keyspace must not get the id, and with it the data, of an old one.
#[test]
fn a_repair_without_the_catalog_gives_no_id_again() {
    let disk = SimulatedStorage::new(1);
    let db = DeterministicDb::open_small(Arc::new(disk.clone()), tiny()).unwrap();
    let old = keyspace(&db, "old");
    for at in 0..2000_u32 {
        old.put(at.to_be_bytes(), [at as u8; 300]).unwrap();
    }
    db.compact().unwrap();
    while db.step() {}
    db.close().unwrap();
    let mut without_catalog = 0;
    for name in disk.current_image().keys().filter(|name| name.ends_with(".branch")) {
        let broken = disk.clone_disk();
        broken.remove(name).unwrap();
        let broken: Arc<dyn Storage> = Arc::new(broken);
        Db::repair_with(Arc::clone(&broken), &mut |_| ()).unwrap();
        let db = DeterministicDb::open_small(broken, tiny()).unwrap();
        if db.keyspace_names().unwrap().is_empty() {
            without_catalog += 1;
            let new = keyspace(&db, "new");
            assert!(new.is_empty().unwrap(), "{} pairs of another keyspace", new.iter().unwrap().count());
        }
    }
    assert!(without_catalog > 0);
}

//! Another thread writes: everything that was handed over, in order, up to the first failure.

use super::harness::*;
use crate::branch::{Compression, WriteBehind};
use crate::io::{OpenMode, Storage, StorageFile};
use crate::util::Result;
use crate::util::sync::Arc;

const PAGE: usize = 4096;

fn hand_over(store: &Store, behind: &WriteBehind, file: &Arc<dyn StorageFile>, at: u64) -> Result<()> {
    let mut buffer = store.context.write_buffers.take();
    buffer[..PAGE].fill(at as u8);
    behind.write(Arc::clone(file), buffer, PAGE, PAGE as u64 * at).map(drop)
}

#[test]
fn what_was_handed_over_is_written_after_a_wait() {
    let store = Store::new(Compression::None, 1 << 20);
    let behind = WriteBehind::start().unwrap();
    for name in ["one", "two"] {
        let file = store.disk.open(name, OpenMode::CreateDirect).unwrap();
        (0..20).try_for_each(|at| hand_over(&store, &behind, &file, at)).unwrap();
        behind.end(file).unwrap();
        behind.wait().unwrap();
        let mut bytes = vec![0; 20 * PAGE];
        store.disk.open(name, OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert!((0..).zip(bytes.chunks(PAGE)).all(|(at, page)| page == [at; PAGE]), "{name}");
    }
}

#[test]
fn after_a_failure_nothing_more_is_written() {
    let store = Store::new(Compression::None, 1 << 20);
    let behind = WriteBehind::start().unwrap();
    let file = store.disk.open("file", OpenMode::CreateDirect).unwrap();
    store.disk.inject("(write nth=3) -> enospc");
    // Those that are handed over before the failure is known are accepted.
    let refused = (0..).find_map(|at| hand_over(&store, &behind, &file, at).err()).unwrap();
    assert!(refused.is_disk_full(), "{refused}");
    assert!(behind.wait().unwrap_err().is_disk_full());
    // The one that failed may be there in part.
    let length = file.length().unwrap() as usize;
    assert!((2 * PAGE..3 * PAGE).contains(&length), "{length}");
}

#[test]
fn files_are_synced_and_the_failure_of_a_sync_is_reported() {
    let store = Store::new(Compression::None, 1 << 20);
    let behind = WriteBehind::start().unwrap();
    // Of the first files that are synced together, and of the last ones.
    for (count, nth) in [(40, 3), (40, 39), (1, 1)] {
        store.disk.inject(&format!("(sync nth={nth}) -> eio"));
        let behind = WriteBehind::start().unwrap();
        let ended = (0..count).try_for_each(|at| {
            let file = store.disk.open(&format!("file{at}"), OpenMode::CreateDirect)?;
            hand_over(&store, &behind, &file, 0)?;
            behind.end(file)
        });
        assert!(ended.and_then(|()| behind.wait()).is_err(), "{count} files, failure {nth}");
        store.disk.clear_faults();
        (0..count).for_each(|at| drop(store.disk.remove(&format!("file{at}"))));
    }
    behind.wait().unwrap();
}

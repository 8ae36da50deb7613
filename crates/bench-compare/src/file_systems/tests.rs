//! Every file system with all requests, by each face, and RocksDB as a store.

use super::targets::Face;
use super::*;
use std::path::Path;

fn target(name: &str, layout: LayoutName, face: Face, directory: &Path) -> Target {
    let directory = directory.join(format!("{name}-{layout:?}"));
    Target { name: name.into(), face, layout, directory, memory: 64 << 20, data_bytes: 1 << 20 }
}

/// All requests; returns the operations of the store for an append and a read.
fn use_all(target: &Target) -> Option<[Counts; 2]> {
    let mut system = open(target).unwrap();
    let requests = &mut *system.requests;
    let directory = requests.make_directory("s0").unwrap();
    requests.create(directory, "1", b"river").unwrap();
    requests.create(ROOT_DIRECTORY, "1", &[7; 3000]).unwrap();
    requests.create(ROOT_DIRECTORY, "2", &[]).unwrap();
    let before = system.backing.counts();
    requests.append(directory, "1", b"bank").unwrap();
    let appended = system.backing.counts();
    let mut content = [0; 4096];
    let size = requests.read(directory, "1", &mut content).unwrap();
    let read = system.backing.counts();
    assert_eq!(&content[..size], b"riverbank", "{target:?}");
    assert_eq!(requests.read(ROOT_DIRECTORY, "1", &mut content).unwrap(), 3000);
    assert_eq!(requests.read(ROOT_DIRECTORY, "2", &mut content).unwrap(), 0);
    assert!(requests.read(ROOT_DIRECTORY, "3", &mut content).is_err());
    use_names(requests, directory);
    system.backing.settle().unwrap();
    assert!(system.backing.written_bytes().unwrap() > 3000);
    assert!(requests.remove_directory(directory).is_err());
    for (directory, name) in [(directory, "1"), (ROOT_DIRECTORY, "1"), (ROOT_DIRECTORY, "2")] {
        requests.unlink(directory, name).unwrap();
    }
    requests.remove_directory(directory).unwrap();
    system.close().unwrap();
    Some([appended? - before?, read? - appended?])
}

/// Requests without content, with the file `1` of 9 bytes in the directory.
fn use_names(requests: &mut dyn Requests, directory: usize) {
    assert_eq!((requests.stat(directory, "1").unwrap(), requests.list(directory).unwrap()), (9, 1));
    requests.rename(directory, "1", "3").unwrap();
    assert!(requests.stat(directory, "1").is_err());
    requests.rename(directory, "3", "1").unwrap();
    assert_eq!(requests.stat(directory, "1").unwrap(), 9);
}

#[test]
fn every_file_system_serves_all_requests() {
    let folder = tempfile::tempdir().unwrap();
    for name in select(&[], &TARGETS).unwrap() {
        for layout in [LayoutName::Items, LayoutName::Inline] {
            let costs = use_all(&target(name, layout, Face::Library, folder.path()));
            let Some([append, read]) = costs else {
                assert_eq!(name, EXT4);
                continue;
            };
            // Two gets each and a put, as in the paper. The inode's record is one more put.
            let (gets, puts) = if layout == LayoutName::Items { (2, 2) } else { (1, 1) };
            assert_eq!((append.gets, append.puts, read.gets, read.puts), (gets, puts, gets, 0), "{name} {layout:?}");
        }
    }
}

#[test]
fn mounts_serve_all_requests() {
    if let Err(error) = std::thread::spawn(private_mounts::begin).join().unwrap() {
        return println!("skipped: {error}");
    }
    if !Path::new("/dev/fuse").exists() {
        return println!("skipped: no FUSE");
    }
    for name in select(&[], &TARGETS).unwrap() {
        let run = std::thread::spawn(move || {
            let folder = tempfile::tempdir().unwrap();
            use_all(&target(name, LayoutName::Items, Face::Mount, folder.path()));
        });
        run.join().unwrap();
    }
}

#[test]
fn a_passthrough_serves_names() {
    if let Err(error) = std::thread::spawn(private_mounts::begin).join().unwrap() {
        return println!("skipped: {error}");
    }
    let run = std::thread::spawn(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut system = open(&target(PASSTHROUGH, LayoutName::Items, Face::Mount, folder.path())).unwrap();
        let requests = &mut *system.requests;
        let directory = requests.make_directory("s0").unwrap();
        for name in 0..300 {
            requests.create(directory, &name.to_string(), &[]).unwrap();
        }
        assert_eq!((requests.list(directory).unwrap(), requests.stat(directory, "7").unwrap()), (300, 0));
        requests.rename(directory, "7", "r7").unwrap();
        assert!(requests.stat(directory, "7").is_err() && requests.stat(directory, "r7").is_ok());
        requests.unlink(directory, "r7").unwrap();
        assert_eq!(requests.list(directory).unwrap(), 299);
        (0..300).filter(|name| *name != 7).for_each(|name| requests.unlink(directory, &name.to_string()).unwrap());
        requests.remove_directory(directory).unwrap();
        system.close().unwrap();
    });
    run.join().unwrap();
}

#[test]
fn names_are_checked() {
    assert_eq!(select(&["trunk".into(), "ext4".into(), "trunk".into()], &TARGETS).unwrap(), ["trunk", "ext4"]);
    assert!(select(&["fat".into()], &TARGETS).unwrap_err().contains("known: skip"));
    assert_eq!(select(&[ROCKSDB.into()], &TARGETS).is_ok(), cfg!(feature = "rocksdb"));
}

/// What SkipFS relies on: batches in order, ranges, and scans of one moment.
#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_is_a_store() {
    use skipfs::store::{Batch, Store};
    use std::ops::ControlFlow;
    let folder = tempfile::tempdir().unwrap();
    let store = targets::open_rocksdb(&target(ROCKSDB, LayoutName::Items, Face::Library, folder.path())).unwrap();
    let mut batch = Batch::new();
    for key in [b"a", b"b", b"c", b"d"] {
        batch.put(*key, *key);
    }
    batch.delete(*b"d");
    batch.delete_range(*b"b", *b"c");
    batch.put(*b"bb", *b"later");
    store.commit(batch).unwrap();
    assert_eq!(store.get(b"bb").unwrap().unwrap(), b"later");
    assert_eq!(store.get(b"b").unwrap(), None);
    let mut found = Vec::new();
    store
        .scan(b"a", b"c", &mut |key, _| {
            found.push(key.to_vec());
            // A change during the scan is not seen.
            let mut batch = Batch::new();
            batch.put(*b"ab", *b"new");
            store.commit(batch).unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(found, [b"a".to_vec(), b"bb".to_vec()]);
    assert!(store.space().unwrap().free > 0);
    store.close().unwrap();
    assert_eq!(store.get(b"a").unwrap_err().errno(), libc::EIO);
}

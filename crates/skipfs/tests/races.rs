//! Requests of several threads, and requests between the steps of others.

use crate::model::dump;
use crate::support::{CALLER, LAYOUTS, Memory, Random, new_fs, small};
use skipfs::check::check;
use skipfs::store::{AlluviumStore, Batch, Space, Store, Visitor};
use skipfs::{FsResult, MkfsOptions, ROOT, RenameMode, SkipFs, Visit, WriteOptions};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Threads make, rename, link, write and remove the same few names. No request hangs, and the tree is sound.
#[test]
fn threads_leave_a_sound_tree() {
    for layout in LAYOUTS {
        let fs = new_fs(&small(layout));
        let directories: Vec<u64> =
            ["x", "y"].iter().map(|name| fs.mkdir(ROOT, name.as_bytes(), 0o755, CALLER).unwrap().ino).collect();
        let directories = [ROOT, directories[0], directories[1]];
        let failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (fs, failed) = (&fs, &failed);
                scope.spawn(move || {
                    let mut random = Random(thread);
                    for _ in 0..2000 {
                        if !change(fs, &directories, &mut random) {
                            failed.store(true, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert!(!failed.load(Ordering::Relaxed), "a request failed with EIO");
        let report = check(fs.store()).unwrap();
        assert!(report.is_sound(), "{layout:?}: {:#?}", report.findings);
        let before = dump(&fs);
        directories[1..].iter().for_each(|&ino| fs.forget(ino, 1));
        assert_eq!(fs.inodes_in_use(), 1, "{layout:?}");
        assert_eq!(dump(&fs), before, "{layout:?}: what was in memory is in the store");
    }
}

/// A random change; false if an error shows damage.
fn change<S: Store>(fs: &SkipFs<S>, directories: &[u64], random: &mut Random) -> bool {
    let names: [&[u8]; 5] = [b"a", b"b", b"c", b"x", b"y"];
    let (one, other) = (random.pick(directories), random.pick(directories));
    let (name, new_name) = (random.pick(&names), random.pick(&names));
    let made = |made: skipfs::FsResult<skipfs::Attributes>| made.map(|made| fs.forget(made.ino, 1));
    let result = match random.below(9) {
        0 => fs.create(one, name, 0o644, CALLER).and_then(|made| {
            fs.forget(made.ino, 1);
            fs.release(made.ino)
        }),
        1 => made(fs.mkdir(one, name, 0o755, CALLER)),
        2 => fs.unlink(one, name),
        // The directories of the threads stay.
        3 if one != ROOT => fs.rmdir(one, name),
        4 => {
            let mode = random.pick(&[RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange]);
            fs.rename(one, name, other, new_name, mode)
        }
        5 => fs.lookup(one, name).and_then(|found| {
            let linked = made(fs.link(found.ino, other, new_name));
            fs.forget(found.ino, 1);
            linked
        }),
        6 => fs.opendir(one).and_then(|mut handle| {
            let mut found = Vec::new();
            let read = fs.readdirplus(&mut handle, 0, &mut |entry, _| {
                found.extend((!entry.name.starts_with(b".")).then_some(entry.ino));
                Visit::Taken
            });
            found.iter().for_each(|&ino| fs.forget(ino, 1));
            read
        }),
        _ => fs.lookup(one, name).and_then(|found| {
            let at = random.below(300_000);
            let written = fs.open_file(found.ino, false).and_then(|()| {
                fs.write(found.ino, at, &[7; 5000], WriteOptions::default())?;
                fs.read(found.ino, 0, 300_000)?;
                fs.release(found.ino)
            });
            fs.forget(found.ino, 1);
            written
        }),
    };
    !result.is_err_and(|error| error.errno() == libc::EIO)
}

/// A file is replaced again and again while others look it up, open it, read it and forget it, as the kernel does. No open
/// fails, no content is mixed, and nothing is left over.
#[test]
fn files_that_are_replaced_can_be_opened() {
    for (layout, size) in LAYOUTS.into_iter().flat_map(|layout| [(layout, 500), (layout, 20_000)]) {
        let fs = new_fs(&small(layout));
        let make = |name: &[u8], byte: u8| {
            let ino = fs.create(ROOT, name, 0o644, CALLER).unwrap().ino;
            fs.write(ino, 0, &vec![byte; size], WriteOptions::default()).unwrap();
            fs.release(ino).unwrap();
            fs.forget(ino, 1);
        };
        make(b"file", 0);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_done.load(Ordering::Relaxed) {
                        let ino = fs.lookup(ROOT, b"file").unwrap().ino;
                        fs.open_file(ino, false).unwrap_or_else(|error| panic!("{layout:?}, {size}: {error}"));
                        let bytes = fs.read(ino, 0, 1 << 20).unwrap();
                        assert!(bytes.len() == size && bytes.iter().all(|byte| *byte == bytes[0]));
                        // In both orders.
                        if bytes[0].is_multiple_of(2) {
                            fs.forget(ino, 1);
                            fs.release(ino).unwrap();
                        } else {
                            fs.release(ino).unwrap();
                            fs.forget(ino, 1);
                        }
                    }
                });
            }
            for round in 0..1500 {
                make(b"new", round as u8);
                fs.rename(ROOT, b"new", ROOT, b"file", RenameMode::Replace).unwrap();
            }
            is_done.store(true, Ordering::Relaxed);
        });
        let report = check(fs.store()).unwrap();
        assert!(report.is_sound() && report.orphans.is_empty() && report.files == 1, "{layout:?}: {report:#?}");
        assert_eq!(fs.inodes_in_use(), 1);
    }
}

/// A directory whose number is smaller than its parent's is locked after it, while another thread locks the two in the
/// order of their numbers. Without rule 4 of `fs/mod.rs` they wait for each other.
#[test]
fn renames_of_parents_and_children_do_not_wait_for_each_other() {
    let fs = new_fs(&MkfsOptions::default());
    let child = fs.mkdir(ROOT, b"child", 0o755, CALLER).unwrap().ino;
    let parent = fs.mkdir(ROOT, b"parent", 0o755, CALLER).unwrap().ino;
    assert!(child < parent);
    fs.rename(ROOT, b"child", parent, b"child", RenameMode::Replace).unwrap();
    fs.release(fs.create(child, b"file", 0o644, CALLER).unwrap().ino).unwrap();
    std::thread::scope(|scope| {
        let rename = |from: (u64, &'static [u8]), to: (u64, &'static [u8])| {
            let fs = &fs;
            scope.spawn(move || {
                for _ in 0..3000 {
                    fs.rename(from.0, from.1, to.0, to.1, RenameMode::Replace).unwrap();
                    fs.rename(to.0, to.1, from.0, from.1, RenameMode::Replace).unwrap();
                }
            });
        };
        rename((parent, b"child"), (parent, b"other"));
        rename((child, b"file"), (parent, b"file"));
    });
    assert!(check(fs.store()).unwrap().is_sound());
}

type Hook = Mutex<Option<Box<dyn FnOnce() + Send>>>;

/// A store that does something after the next get, before its result is used.
#[derive(Clone)]
struct Hooked {
    store: AlluviumStore,
    after_get: Arc<Hook>,
}

impl Store for Hooked {
    fn get(&self, key: &[u8]) -> FsResult<Option<Vec<u8>>> {
        let found = self.store.get(key);
        let hook = self.after_get.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        found
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visitor<'_>) -> FsResult<()> {
        self.store.scan(start, end, visit)
    }

    fn commit(&self, batch: Batch) -> FsResult<()> {
        self.store.commit(batch)
    }

    fn sync(&self) -> FsResult<()> {
        self.store.sync()
    }

    fn space(&self) -> FsResult<Space> {
        self.store.space()
    }

    fn close(&self) -> FsResult<()> {
        self.store.close()
    }
}

/// A lookup reads an entry. Before it goes on, another request uses the inode, changes it and forgets it. The lookup
/// must not take what it has read for the inode's record.
#[test]
fn a_record_that_was_read_before_a_change_is_not_used() {
    for layout in LAYOUTS {
        let after_get: Arc<Hook> = Arc::default();
        let store = Hooked { store: Memory::new().open(), after_get: Arc::clone(&after_get) };
        SkipFs::mkfs(&store, &small(layout)).unwrap();
        let fs = Arc::new(SkipFs::open(store).unwrap());
        let ino = fs.create(ROOT, b"file", 0o644, CALLER).unwrap().ino;
        fs.release(ino).unwrap();
        fs.forget(ino, 1);
        let other = Arc::clone(&fs);
        *after_get.lock().unwrap() = Some(Box::new(move || {
            let ino = other.lookup(ROOT, b"file").unwrap().ino;
            other.write(ino, 0, b"silt", WriteOptions::default()).unwrap();
            other.forget(ino, 1);
        }));
        assert_eq!(fs.lookup(ROOT, b"file").unwrap().size, 4, "{layout:?}");
        fs.write(ino, 4, b"y", WriteOptions::default()).unwrap();
        assert_eq!(fs.read(ino, 0, 9).unwrap(), b"silty", "{layout:?}");
    }
}

/// As above, but the other request gives the file a second name, which moves its record out of the entry that was read.
/// Once the lookup took the entry, now a link, for a damaged record.
#[test]
fn a_record_that_moved_after_its_entry_was_read_is_found() {
    for layout in LAYOUTS {
        let after_get: Arc<Hook> = Arc::default();
        let store = Hooked { store: Memory::new().open(), after_get: Arc::clone(&after_get) };
        SkipFs::mkfs(&store, &small(layout)).unwrap();
        let fs = Arc::new(SkipFs::open(store).unwrap());
        let directory = fs.mkdir(ROOT, b"x", 0o755, CALLER).unwrap().ino;
        let ino = fs.create(ROOT, b"file", 0o644, CALLER).unwrap().ino;
        fs.release(ino).unwrap();
        fs.forget(ino, 1);
        let other = Arc::clone(&fs);
        *after_get.lock().unwrap() = Some(Box::new(move || {
            let ino = other.lookup(ROOT, b"file").unwrap().ino;
            other.link(ino, directory, b"more").unwrap();
            other.forget(ino, 2);
        }));
        assert_eq!(fs.lookup(ROOT, b"file").unwrap().nlink, 2, "{layout:?}");
        fs.unlink(ROOT, b"file").unwrap();
        assert_eq!(fs.getattr(ino).unwrap().nlink, 1, "{layout:?}");
        assert!(check(fs.store()).unwrap().is_sound(), "{layout:?}");
    }
}

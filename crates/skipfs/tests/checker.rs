//! The checker finds what is wrong: each test damages one thing in a sound file system.

use crate::support::{CALLER, new_fs, small};
use skipfs::check::check;
use skipfs::format::{Entry, Record, Usage, key};
use skipfs::store::{AlluviumStore, Batch, Store};
use skipfs::{FileKind, Layout, ROOT, SkipFs, WriteOptions};

/// A file system with a directory (2), in it a file with content outside its record (3), one with two names (4).
fn sound() -> SkipFs<AlluviumStore> {
    let fs = new_fs(&small(Layout::Items));
    let directory = fs.mkdir(ROOT, b"directory", 0o755, CALLER).unwrap().ino;
    let file = fs.create(directory, b"file", 0o644, CALLER).unwrap().ino;
    fs.write(file, 0, &[1; 20_000], WriteOptions::default()).unwrap();
    let linked = fs.create(directory, b"linked", 0o644, CALLER).unwrap().ino;
    fs.link(linked, ROOT, b"other").unwrap();
    fs.setxattr(linked, b"user.x", b"y", Default::default()).unwrap();
    assert_eq!((directory, file, linked), (2, 3, 4));
    let report = check(fs.store()).unwrap();
    assert!(report.is_sound(), "{:#?}", report.findings);
    assert_eq!((report.files, report.directories, report.others, report.bytes), (2, 2, 0, 20_000));
    fs
}

/// Damages a sound file system, and requires that a finding has the words.
fn expect(words: &str, damage: impl FnOnce(&AlluviumStore, &mut Batch)) {
    let fs = sound();
    let mut batch = Batch::new();
    damage(fs.store(), &mut batch);
    fs.store().commit(batch).unwrap();
    let report = check(fs.store()).unwrap();
    assert!(report.findings.iter().any(|line| line.contains(words)), "no {words:?} in {:#?}", report.findings);
}

/// Changes the record at a key.
fn change(store: &AlluviumStore, batch: &mut Batch, key: &[u8], change: impl FnOnce(&mut Record)) {
    let mut record = Record::decode(&store.get(key).unwrap().unwrap()).unwrap();
    change(&mut record);
    batch.put(key, record.encode());
}

#[test]
fn damaged_keys_and_records_are_found() {
    expect("a key of the format", |_, batch| batch.put(b"zz", []));
    expect("superblock: expected a valid one", |_, batch| batch.put(key::superblock(), []));
    expect("superblock: expected a valid one, found none", |_, batch| batch.delete(key::superblock()));
    expect("inode record: expected a valid one", |_, batch| batch.put(key::inode(4), [1, 2, 3]));
    expect("entry: expected a valid one", |_, batch| batch.put(key::entry(2, b"file"), [9]));
    expect("inode number: expected 4, found 5", |store, batch| {
        change(store, batch, &key::inode(4), |record| record.attributes.ino = 5);
    });
    expect("bytes of content: expected at most 4096", |_, batch| batch.put(key::content(3, 0, 1), [1; 5000]));
}

#[test]
fn contradictions_are_found() {
    expect("link: expected an inode record, found none", |_, batch| batch.delete(key::inode(4)));
    expect("content: expected an inode record", |_, batch| batch.delete(key::entry(2, b"file")));
    expect("extended attributes: expected an inode record", |_, batch| batch.put(key::attribute(9, b"x"), []));
    expect("orphan: expected an inode record", |_, batch| batch.put(key::orphan(9), []));
    expect("number of links: expected 1, found 2", |_, batch| batch.delete(key::entry(ROOT, b"other")));
    expect("number of links: expected 2, found 3", |_, batch| batch.delete(key::entry(ROOT, b"directory")));
    expect("directory of an entry: expected a directory 2", |_, batch| batch.delete(key::entry(ROOT, b"directory")));
    expect("way from the root: expected one", |_, batch| batch.delete(key::entry(ROOT, b"directory")));
    expect("names of an orphan: expected 0, found 2", |_, batch| batch.put(key::orphan(4), []));
    expect("names: expected one, or the mark", |store, batch| {
        change(store, batch, &key::inode(4), |record| record.attributes.nlink = 0);
        batch.delete(key::entry(ROOT, b"other"));
        batch.delete(key::entry(2, b"linked"));
    });
    expect("records: expected one", |store, batch| {
        let value = store.get(&key::entry(2, b"file")).unwrap().unwrap();
        batch.put(key::entry(2, b"twin"), value);
    });
    expect("parent: expected 1, found 3", |store, batch| {
        change(store, batch, &key::entry(ROOT, b"directory"), |record| record.parent = 3);
    });
    expect("type: expected File, found Fifo", |_, batch| {
        batch.put(key::entry(ROOT, b"other"), Entry::encode_link(4, FileKind::Fifo));
    });
    expect("inode number: expected below", |store, batch| {
        let mut record = Record::decode(&store.get(&key::entry(2, b"file")).unwrap().unwrap()).unwrap();
        record.attributes.ino = 1 << 40;
        batch.put(key::entry(2, b"far"), record.encode());
    });
    expect("allocated bytes: expected 20480, found 7", |_, batch| {
        batch.put(key::usage(), Usage { bytes: 7, inodes: 4 }.encode());
    });
    expect("inodes: expected 4, found 8", |_, batch| {
        batch.put(key::usage(), Usage { bytes: 20_480, inodes: 8 }.encode());
    });
    expect("usage: expected a valid one", |_, batch| batch.put(key::usage(), [1]));
    expect("root directory: expected a record", |_, batch| batch.delete(key::inode(ROOT)));
}

#[test]
fn findings_have_paths() {
    expect("/directory/file, inode 3, end of content", |store, batch| {
        change(store, batch, &key::entry(2, b"file"), |record| record.attributes.size = 19_999);
    });
    expect("/other, link: expected an inode record", |_, batch| batch.delete(key::inode(4)));
    expect("/directory/linked, type: expected File", |_, batch| {
        batch.put(key::entry(2, b"linked"), Entry::encode_link(4, FileKind::Fifo));
    });
    // No way leads from the root to it, or a circle does not end.
    expect("\": inode 3, way from the root", |_, batch| batch.delete(key::entry(ROOT, b"directory")));
    expect("\": inode 2, way from the root", |store, batch| {
        let record = store.get(&key::entry(ROOT, b"directory")).unwrap().unwrap();
        batch.put(key::entry(2, b"itself"), record);
        batch.delete(key::entry(ROOT, b"directory"));
    });
    // No byte that a terminal would obey.
    expect("/directory/a\\u{1b}[2J, inode 3, end", |store, batch| {
        let mut record = Record::decode(&store.get(&key::entry(2, b"file")).unwrap().unwrap()).unwrap();
        record.attributes.size = 19_999;
        batch.put(key::entry(2, b"a\x1b[2J"), record.encode());
        batch.delete(key::entry(2, b"file"));
    });
}

#[test]
fn content_that_does_not_fit_the_record_is_found() {
    expect("end of content: expected at most 19999, found 20000", |store, batch| {
        change(store, batch, &key::entry(2, b"file"), |record| record.attributes.size = 19_999);
    });
    expect("last item at 262144", |_, batch| batch.put(key::content(3, 1, 0), []));
    expect("last item at 20480", |store, batch| {
        change(store, batch, &key::entry(2, b"file"), |record| record.attributes.size = 20_480);
        batch.put(key::content(3, 0, 6), []);
    });
    expect("blocks: expected none", |_, batch| batch.put(key::content(3, 0, 1), []));
    expect("allocated bytes: expected 24576, found 20480", |_, batch| batch.put(key::content(3, 0, 6), [1]));
    expect("content outside the record: expected none", |store, batch| {
        change(store, batch, &key::entry(2, b"file"), |record| record.is_inline = true);
    });
    expect("extended attributes: expected none", |store, batch| {
        change(store, batch, &key::inode(4), |record| record.has_attributes = false);
    });
}

/// Damage is an error of the requests that meet it, never a panic.
#[test]
fn requests_that_meet_damage_fail() {
    let fs = sound();
    fs.forget(2, 1);
    fs.forget(3, 1);
    fs.release(3).unwrap();
    let mut batch = Batch::new();
    batch.put(key::entry(ROOT, b"directory"), [1, 2]);
    batch.delete(key::inode(4));
    fs.store().commit(batch).unwrap();
    let errno = |result: skipfs::FsResult<skipfs::Attributes>| result.unwrap_err().errno();
    assert_eq!(errno(fs.lookup(ROOT, b"directory")), libc::EIO);
    fs.release(4).unwrap();
    fs.forget(4, 2);
    assert_eq!(errno(fs.lookup(ROOT, b"other")), libc::EIO);
    assert_eq!(fs.unlink(ROOT, b"directory").unwrap_err().errno(), libc::EIO);
    let mut handle = fs.opendir(ROOT).unwrap();
    assert_eq!(fs.readdir(&mut handle, 0, &mut |_| skipfs::Visit::Taken).unwrap_err().errno(), libc::EIO);
}

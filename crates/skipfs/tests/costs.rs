//! What each request costs in operations of the store, cold: the inodes of the path were looked up and forgotten
//! before. SkipStore §6.4 gives two gets for a create, a read and an append each; those of the layout `Items` are the
//! paper's.

use crate::support::{CALLER, Memory};
use skipfs::store::{AlluviumStore, Counted, Counts};
use skipfs::{FsResult, Layout, MkfsOptions, ROOT, RenameMode, SetAttributes, SkipFs, Visit, WriteOptions};

type Fs = SkipFs<Counted<AlluviumStore>>;

fn new(layout: Layout) -> Fs {
    let store = Counted::new(Memory::new().open());
    SkipFs::mkfs(&store, &MkfsOptions { layout, ..MkfsOptions::default() }).unwrap();
    let fs = SkipFs::open(store).unwrap();
    // The first inode reserves numbers for the next ones.
    make(&fs, b"first", 1);
    fs
}

fn make(fs: &Fs, name: &[u8], bytes: usize) {
    let ino = fs.create(ROOT, name, 0o644, CALLER).unwrap().ino;
    fs.write(ino, 0, &vec![b'x'; bytes], WriteOptions::default()).unwrap();
    fs.release(ino).unwrap();
    fs.forget(ino, 1);
}

/// What a request costs: gets, puts, deletes, range deletes, scans, commits.
fn cost(fs: &Fs, request: impl FnOnce()) -> [u64; 6] {
    let before = fs.store().counts();
    request();
    let Counts { gets, puts, deletes, range_deletes, scans, commits } = fs.store().counts() - before;
    [gets, puts, deletes, range_deletes, scans, commits]
}

/// Looks up a file, uses it, and forgets it.
fn with<T>(fs: &Fs, name: &[u8], request: impl FnOnce(u64) -> FsResult<T>) {
    let ino = fs.lookup(ROOT, name).unwrap().ino;
    request(ino).unwrap();
    fs.forget(ino, 1);
}

fn append(fs: &Fs, name: &[u8], bytes: usize) {
    with(fs, name, |ino| {
        let options = WriteOptions { append: true, ..WriteOptions::default() };
        fs.write(ino, 0, &vec![b'y'; bytes], options)
    });
}

fn read(fs: &Fs, name: &[u8], offset: u64, bytes: usize) {
    with(fs, name, |ino| fs.read(ino, offset, bytes).map(|found| assert_eq!(found.len(), bytes)));
}

/// The costs of all requests in a layout, in the order of `EXPECTED`.
fn measured(layout: Layout) -> Vec<(&'static str, [u64; 6])> {
    let fs = &new(layout);
    for (name, bytes) in
        [(&b"small"[..], 1000), (b"medium", 10_000), (b"large", 1 << 20), (b"moved", 1000), (b"dead", 1000)]
    {
        make(fs, name, bytes);
    }
    let unfinished = |name: &[u8]| {
        assert!(fs.lookup(ROOT, name).is_err());
        let ino = fs.create(ROOT, name, 0o644, CALLER).unwrap().ino;
        fs.release(ino).unwrap();
        fs.forget(ino, 1);
    };
    let mut costs = vec![("lookup and create", cost(fs, || unfinished(b"new")))];
    let mut add = |what, cost| costs.push((what, cost));
    add("write 1000 bytes to a new file", cost(fs, || append(fs, b"new", 1000)));
    add("lookup, getattr", cost(fs, || with(fs, b"small", |ino| fs.getattr(ino))));
    add("read 1000 bytes", cost(fs, || read(fs, b"small", 0, 1000)));
    add("append 1000 bytes", cost(fs, || append(fs, b"small", 1000)));
    add("read 10,000 bytes", cost(fs, || read(fs, b"medium", 0, 10_000)));
    add("append to 10,000 bytes", cost(fs, || append(fs, b"medium", 1000)));
    add("read 1 MiB", cost(fs, || read(fs, b"large", 0, 1 << 20)));
    add(
        "write 4 KiB of a block",
        cost(fs, || {
            with(fs, b"large", |ino| fs.write(ino, 8192, &[1; 4096], WriteOptions::default()));
        }),
    );
    add(
        "write 100 bytes of a block",
        cost(fs, || {
            with(fs, b"large", |ino| fs.write(ino, 16_384, &[1; 100], WriteOptions::default()));
        }),
    );
    add("read 4 KiB of a file with blocks", cost(fs, || read(fs, b"large", 8192, 4096)));
    add("read 1 MiB of a file with blocks", cost(fs, || read(fs, b"large", 0, 1 << 20)));
    add(
        "chmod",
        cost(fs, || {
            let set = SetAttributes { permissions: Some(0o600), ..SetAttributes::default() };
            with(fs, b"small", |ino| fs.setattr(ino, &set));
        }),
    );
    add("rename", cost(fs, || fs.rename(ROOT, b"moved", ROOT, b"name", RenameMode::Replace).unwrap()));
    add(
        "link",
        cost(fs, || {
            with(fs, b"name", |ino| fs.link(ino, ROOT, b"other"));
            let ino = fs.lookup(ROOT, b"other").unwrap().ino;
            fs.forget(ino, 2);
        }),
    );
    add("lookup of a linked file", cost(fs, || with(fs, b"name", |_| Ok(()))));
    add(
        "mkdir",
        cost(fs, || {
            let ino = fs.mkdir(ROOT, b"directory", 0o755, CALLER).unwrap().ino;
            fs.forget(ino, 1);
        }),
    );
    add("rmdir", cost(fs, || fs.rmdir(ROOT, b"directory").unwrap()));
    add("unlink 1000 bytes", cost(fs, || fs.unlink(ROOT, b"dead").unwrap()));
    add("unlink 1 MiB", cost(fs, || fs.unlink(ROOT, b"large").unwrap()));
    // As the kernel does it: lookup, unlink, forget.
    for name in [&b"seen"[..], b"seen, medium"] {
        let bytes = if name == b"seen" { 1000 } else { 10_000 };
        make(fs, name, bytes);
        let what = if bytes == 1000 {
            "unlink 1000 bytes that were looked up"
        } else {
            "unlink 10,000 bytes that were looked up"
        };
        add(what, cost(fs, || with(fs, name, |_| fs.unlink(ROOT, name))));
    }
    add(
        "readdirplus of 6 names, one linked twice",
        cost(fs, || {
            let mut handle = fs.opendir(ROOT).unwrap();
            let mut found = Vec::new();
            fs.readdirplus(&mut handle, 0, &mut |entry, _| {
                found.push(entry.ino);
                Visit::Taken
            })
            .unwrap();
            assert_eq!(found.len(), 8, "with the dots");
            found[2..].iter().for_each(|&ino| fs.forget(ino, 1));
        }),
    );
    costs
}

/// In the same order: what `Items` costs, and `Inline` where that is different.
const EXPECTED: &[([u64; 6], Option<[u64; 6]>)] = &[
    ([2, 2, 0, 0, 0, 1], None),
    ([1, 2, 0, 0, 0, 1], Some([1, 1, 0, 0, 0, 1])),
    ([1, 0, 0, 0, 0, 0], None),
    ([2, 0, 0, 0, 0, 0], Some([1, 0, 0, 0, 0, 0])),
    ([2, 2, 0, 0, 0, 1], Some([1, 1, 0, 0, 0, 1])),
    ([2, 0, 0, 0, 0, 0], None),
    ([2, 2, 0, 0, 0, 1], None),
    ([5, 0, 0, 0, 0, 0], None),
    ([1, 2, 0, 0, 0, 1], None),
    ([3, 2, 0, 0, 0, 1], None),
    ([2, 0, 0, 0, 0, 0], None),
    ([5, 0, 0, 0, 4, 0], None),
    ([1, 1, 0, 0, 0, 1], None),
    ([2, 2, 1, 0, 0, 1], None),
    ([3, 4, 0, 0, 0, 1], None),
    ([2, 0, 0, 0, 0, 0], None),
    ([1, 2, 0, 0, 0, 1], None),
    ([1, 1, 1, 0, 1, 1], None),
    ([1, 1, 2, 0, 0, 1], Some([1, 1, 1, 0, 0, 1])),
    ([1, 1, 1, 1, 0, 1], None),
    ([2, 3, 4, 0, 0, 2], Some([2, 1, 1, 0, 0, 1])),
    ([2, 3, 4, 0, 0, 2], None),
    ([1, 0, 0, 0, 1, 0], None),
];

#[test]
fn requests_cost_what_is_documented() {
    let (items, inline) = (measured(Layout::Items), measured(Layout::Inline { up_to: 4096 }));
    assert_eq!((items.len(), inline.len()), (EXPECTED.len(), EXPECTED.len()));
    for (at, (of_items, of_inline)) in EXPECTED.iter().enumerate() {
        let what = items[at].0;
        assert_eq!(items[at].1, *of_items, "Items: {what}");
        assert_eq!(inline[at].1, of_inline.unwrap_or(*of_items), "Inline: {what}");
    }
}

//! Keys and records: every one is decoded as it was encoded, and no bytes make decoding panic.

use proptest::prelude::*;
use skipfs::format::{Attributes, Entry, FileKind, Key, Layout, Limits, Record, Superblock, Timestamp, key};

const KINDS: [FileKind; 7] = [
    FileKind::File,
    FileKind::Directory,
    FileKind::Symlink,
    FileKind::Fifo,
    FileKind::Socket,
    FileKind::CharacterDevice,
    FileKind::BlockDevice,
];

fn times() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanoseconds)| Timestamp { seconds, nanoseconds })
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let numbers = (any::<u64>(), any::<[u64; 2]>(), any::<[u32; 4]>(), 0..0o10000u32, 0..KINDS.len());
    (numbers, times(), times(), times()).prop_map(
        |((ino, [size, allocated], small, permissions, kind), atime, mtime, ctime)| {
            let [uid, gid, nlink, rdev] = small;
            let kind = KINDS[kind];
            let allocated = if kind == FileKind::File { allocated } else { 0 };
            Attributes { ino, kind, permissions, uid, gid, nlink, rdev, size, allocated, atime, mtime, ctime }
        },
    )
}

fn records() -> impl Strategy<Value = Record> {
    (attributes(), any::<[bool; 3]>(), any::<u64>(), prop::collection::vec(any::<u8>(), 0..200)).prop_map(
        |(attributes, [is_inline, has_blocks, has_attributes], parent, body)| {
            let parent = if attributes.kind == FileKind::File { 0 } else { parent };
            let mut record = Record { attributes, has_blocks: false, is_inline: false, has_attributes, parent, body };
            match attributes.kind {
                FileKind::Symlink => record.attributes.size = record.body.len() as u64,
                FileKind::File if is_inline => {
                    record.is_inline = true;
                    record.attributes.size = attributes.size.max(record.body.len() as u64);
                }
                _ => {
                    record.has_blocks = has_blocks && attributes.kind == FileKind::File;
                    record.body.clear();
                }
            }
            record
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn records_come_back(record in records()) {
        prop_assert_eq!(Record::decode(&record.encode()).unwrap(), record.clone());
        let entry = Entry::Embedded(record);
        prop_assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
    }

    #[test]
    fn links_and_superblocks_come_back(
        ino: u64, kind in 0..KINDS.len(), small in 0..=262_144u32, up_to in 0..=65_536u32
    ) {
        let link = Entry::Link { ino, kind: KINDS[kind] };
        prop_assert_eq!(Entry::decode(&link.encode()).unwrap(), link);
        let limits = Limits { max_bytes: (ino % 3 > 0).then_some(ino), max_inodes: (small > 9).then_some(small.into()) };
        let layout = if up_to == 0 { Layout::Items } else { Layout::Inline { up_to } };
        let superblock = Superblock { layout, small_bytes: small, unused_from: ino, limits };
        prop_assert_eq!(Superblock::decode(&superblock.encode()).unwrap(), superblock);
    }

    #[test]
    fn keys_come_back_in_order(
        one: u64, other: u64, chunk: u32, block in 0..=64u8, name in prop::collection::vec(any::<u8>(), 1..=255)
    ) {
        assert_eq!(Key::decode(&key::content(one, chunk, block)), Some(Key::Content { ino: one, chunk, block }));
        assert_eq!(Key::decode(&key::entry(one, &name)), Some(Key::Entry { directory: one, name: &name }));
        assert_eq!(Key::decode(&key::attribute(one, &name)), Some(Key::Attribute { ino: one, name: &name }));
        assert_eq!(Key::decode(&key::inode(one)), Some(Key::Inode(one)));
        assert_eq!(Key::decode(&key::orphan(one)), Some(Key::Orphan(one)));
        prop_assert_eq!(key::inode(one).cmp(&key::inode(other)), one.cmp(&other));
        let (start, end) = key::entries(one);
        let entry = key::entry(one, &name);
        prop_assert!(start < entry && entry < end && entry < key::after_entry(one, &name));
        prop_assert!(key::content(one, chunk, block) < key::chunk_end(one, chunk));
        prop_assert!(key::chunk_end(one, chunk) <= key::content_end(one));
    }

    #[test]
    fn garbage_is_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..200), first in 0..4u8) {
        if let Some(tag) = bytes.first_mut() {
            *tag = first;
        }
        let _ = (Record::decode(&bytes), Entry::decode(&bytes), Superblock::decode(&bytes), Key::decode(&bytes));
    }

    #[test]
    fn damaged_records_are_errors_or_other_records(
        record in records(), at: prop::sample::Index, with: u8, length: prop::sample::Index
    ) {
        let mut bytes = record.encode();
        let place = at.index(bytes.len());
        bytes[place] = with;
        bytes.truncate(length.index(bytes.len()) + 1);
        if let Ok(found) = Record::decode(&bytes) {
            prop_assert_eq!(found.encode(), bytes);
        }
    }

    #[test]
    fn times_come_back(time in (-1_000_000_000_000i64..1_000_000_000_000, 0..1_000_000_000u32)) {
        let time = Timestamp { seconds: time.0, nanoseconds: time.1 };
        prop_assert_eq!(Timestamp::from(std::time::SystemTime::from(time)), time);
    }
}

#[test]
fn the_bytes_of_a_record_are_the_documented_ones() {
    let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    let record = Record {
        attributes: Attributes {
            ino: 0x0807_0605_0403_0201,
            kind: FileKind::File,
            permissions: 0o644,
            uid: 1,
            gid: 2,
            nlink: 3,
            rdev: 4,
            size: 5,
            allocated: 4096,
            atime: time(-1, 6),
            mtime: time(7, 8),
            ctime: time(9, 10),
        },
        has_blocks: false,
        is_inline: true,
        has_attributes: true,
        parent: 0,
        body: b"silt".to_vec(),
    };
    let mut expected = vec![1, 6, 0xa4, 0x81, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0];
    expected.extend_from_slice(&[6, 0, 0, 0, 8, 0, 0, 0, 10, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 5, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[0, 16, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(&[255; 8]);
    expected.extend_from_slice(&[7, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend_from_slice(b"silt");
    assert_eq!(record.encode(), expected);
    assert_eq!(key::content(258, 3, 4), [b'c', 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 4]);
    assert_eq!(key::entry(258, b"a"), [b'd', 0, 0, 0, 0, 0, 0, 1, 2, b'a']);
}

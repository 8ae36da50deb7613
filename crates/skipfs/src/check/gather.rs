//! Gathers what is in a store, by inode. Damaged keys and records are findings.

use crate::error::FsResult;
use crate::format::{BLOCK_BYTES, CHUNK_BYTES, Entry, FileKind, Key, Record, Superblock, key};
use crate::store::Store;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Everything of an inode.
#[derive(Default)]
pub(super) struct Inode {
    /// Its record without the content, and the key of it.
    pub(super) record: Option<(Record, Vec<u8>)>,
    /// Keys of further records.
    pub(super) duplicates: Vec<Vec<u8>>,
    pub(super) names: Vec<Name>,
    pub(super) content: Option<Content>,
    /// Extended attributes.
    pub(super) attributes: u64,
    pub(super) is_orphan: bool,
}

/// A name of an inode.
pub(super) struct Name {
    pub(super) directory: u64,
    pub(super) key: Vec<u8>,
    pub(super) kind: FileKind,
    pub(super) is_embedded: bool,
}

/// The content items of a file.
#[derive(Default)]
pub(super) struct Content {
    /// Where the last byte ends.
    pub(super) end: u64,
    /// Where the last item begins.
    pub(super) last: u64,
    pub(super) has_blocks: bool,
}

/// The contents of a store.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) superblock: Option<Superblock>,
    pub(super) inodes: BTreeMap<u64, Inode>,
    pub(super) findings: Vec<String>,
}

/// A line of a report.
pub(super) fn finding(key: &[u8], what: &str, expected: impl ToString, found: impl ToString) -> String {
    let (expected, found) = (expected.to_string(), found.to_string());
    format!("key \"{}\": {what}: expected {expected}, found {found}", key.escape_ascii())
}

pub(super) fn gather(store: &impl Store, progress: &mut dyn FnMut(u64)) -> FsResult<Gathered> {
    let (mut gathered, mut keys) = (Gathered::default(), 0);
    store.scan(&[], &[0xff], &mut |found, value| {
        match Key::decode(found) {
            Some(decoded) => gathered.add(decoded, found, value),
            None => gathered.findings.push(finding(found, "key", "a key of the format", "another one")),
        }
        keys += 1;
        progress(keys);
        ControlFlow::Continue(())
    })?;
    if gathered.superblock.is_none() {
        gathered.findings.push(finding(key::superblock(), "superblock", "a valid one", "none"));
    }
    Ok(gathered)
}

impl Gathered {
    fn inode(&mut self, ino: u64) -> &mut Inode {
        self.inodes.entry(ino).or_default()
    }

    fn add(&mut self, decoded: Key<'_>, key: &[u8], value: &[u8]) {
        match decoded {
            Key::Superblock => match Superblock::decode(value) {
                Ok(superblock) => self.superblock = Some(superblock),
                Err(error) => self.findings.push(finding(key, "superblock", "a valid one", error)),
            },
            Key::Content { ino, chunk, block } => self.add_content(ino, (chunk, block), key, value),
            Key::Attribute { ino, .. } => self.inode(ino).attributes += 1,
            Key::Orphan(ino) => self.inode(ino).is_orphan = true,
            Key::Inode(ino) => match Record::decode(value) {
                Ok(record) if record.attributes.ino == ino => self.add_record(record, key),
                Ok(record) => self.findings.push(finding(key, "inode number", ino, record.attributes.ino)),
                Err(error) => self.findings.push(finding(key, "inode record", "a valid one", error)),
            },
            Key::Entry { directory, .. } => match Entry::decode(value) {
                Ok(entry) => {
                    let is_embedded = matches!(entry, Entry::Embedded(_));
                    let name = Name { directory, key: key.to_vec(), kind: entry.kind(), is_embedded };
                    self.inode(entry.ino()).names.push(name);
                    if let Entry::Embedded(record) = entry {
                        self.add_record(record, key);
                    }
                }
                Err(error) => self.findings.push(finding(key, "entry", "a valid one", error)),
            },
        }
    }

    fn add_record(&mut self, mut record: Record, key: &[u8]) {
        record.body = Vec::new();
        let inode = self.inode(record.attributes.ino);
        match inode.record {
            None => inode.record = Some((record, key.to_vec())),
            Some(_) => inode.duplicates.push(key.to_vec()),
        }
    }

    fn add_content(&mut self, ino: u64, (chunk, block): (u32, u8), key: &[u8], value: &[u8]) {
        let (offset, bytes_max) = match block.checked_sub(1) {
            None => (0, CHUNK_BYTES),
            Some(block) => (u64::from(block) * BLOCK_BYTES, BLOCK_BYTES),
        };
        let (start, length) = (u64::from(chunk) * CHUNK_BYTES + offset, value.len() as u64);
        if length > bytes_max {
            self.findings.push(finding(key, "bytes of content", format!("at most {bytes_max}"), length));
        }
        let content = self.inode(ino).content.get_or_insert_default();
        content.end = content.end.max(start + length);
        content.last = content.last.max(start);
        content.has_blocks |= block > 0;
    }
}

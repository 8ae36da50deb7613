//! Gathers what is in a store, by inode. Damaged keys and records are findings.

use crate::error::FsResult;
use crate::format::{BLOCK_BYTES, CHUNK_BYTES, ChunkMap, Entry, FileKind, Key, Record, Superblock, Usage, key};
use crate::store::Store;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Everything of an inode.
#[derive(Default)]
pub(super) struct Inode {
    /// Its record without the content, and the key of it.
    pub(super) record: Option<(Record, Vec<u8>)>,
    /// Bytes of content in the record.
    pub(super) inline_bytes: u64,
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
    /// Where the last byte ends that no block hides.
    end: u64,
    /// Where the last item begins, apart from blocks that only hide bytes of a base.
    pub(super) last: u64,
    pub(super) has_blocks: bool,
    /// Bytes in whole blocks.
    allocated: u64,
    /// The chunk whose items are being read.
    chunk: Chunk,
}

/// The items of a chunk.
#[derive(Clone, Copy, Default)]
struct Chunk {
    start: u64,
    base_bytes: u64,
    /// What blocks lie over the base.
    over: ChunkMap,
    map: ChunkMap,
}

impl Chunk {
    /// Where the bytes of the base end that no block hides.
    fn end_of_base(&self) -> u64 {
        let shown = ChunkMap::of_base(self.base_bytes).without(self.over).last();
        shown.map_or(0, |block| self.start + self.base_bytes.min((block + 1) * BLOCK_BYTES))
    }
}

impl Content {
    fn add(&mut self, start: u64, block: Option<u8>, bytes: u64) {
        if start != self.chunk.start {
            self.end = self.end();
            self.allocated = self.allocated();
            self.chunk = Chunk { start, ..Chunk::default() };
        }
        let chunk = &mut self.chunk;
        let Some(block) = block else {
            (chunk.base_bytes, chunk.map) = (bytes, ChunkMap::of_base(bytes));
            self.last = self.last.max(start);
            return;
        };
        let offset = u64::from(block) * BLOCK_BYTES;
        chunk.map.put_block(block, bytes as usize);
        chunk.over.put_block(block, 1);
        self.has_blocks = true;
        if bytes > 0 {
            self.end = self.end.max(start + offset + bytes);
        }
        let hides = bytes == 0 && chunk.base_bytes > offset;
        self.last = self.last.max(if hides { start } else { start + offset });
    }

    /// Where the last byte ends.
    pub(super) fn end(&self) -> u64 {
        self.end.max(self.chunk.end_of_base())
    }

    /// Bytes in whole blocks.
    pub(super) fn allocated(&self) -> u64 {
        self.allocated.saturating_add(self.chunk.map.bytes())
    }
}

/// The contents of a store.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) superblock: Option<Superblock>,
    /// What is used, if the store says so.
    pub(super) usage: Option<Usage>,
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
            Key::Usage => match Usage::decode(value) {
                Ok(usage) => self.usage = Some(usage),
                Err(error) => self.findings.push(finding(key, "usage", "a valid one", error)),
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
        let body = std::mem::take(&mut record.body).len() as u64;
        let inode = self.inode(record.attributes.ino);
        match inode.record {
            None => {
                inode.record = Some((record, key.to_vec()));
                inode.inline_bytes = body;
            }
            Some(_) => inode.duplicates.push(key.to_vec()),
        }
    }

    fn add_content(&mut self, ino: u64, (chunk, block): (u32, u8), key: &[u8], value: &[u8]) {
        let bytes_max = if block == 0 { CHUNK_BYTES } else { BLOCK_BYTES };
        let length = value.len() as u64;
        if length > bytes_max {
            self.findings.push(finding(key, "bytes of content", format!("at most {bytes_max}"), length));
        }
        let content = self.inode(ino).content.get_or_insert_default();
        content.add(u64::from(chunk) * CHUNK_BYTES, block.checked_sub(1), length);
    }
}

//! What the file system and the model have in common: a tree by path.

use skipfs::FileKind;
use std::collections::BTreeMap;
use std::fmt;

/// An inode without times and numbers.
#[derive(Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: FileKind,
    pub permissions: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub content: Vec<u8>,
    pub attributes: BTreeMap<String, Vec<u8>>,
}

/// Without the content.
impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, permissions, uid, gid, nlink, content, attributes } = self;
        let sum = content.iter().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
        let names: Vec<_> = attributes.iter().map(|(name, value)| (name, value.len())).collect();
        write!(f, "{kind:?} {permissions:o} {uid}:{gid} x{nlink} {} bytes {sum:x} {names:?}", content.len())
    }
}

/// A tree: each inode by its path; the root's is empty.
pub type Dump = BTreeMap<String, Node>;

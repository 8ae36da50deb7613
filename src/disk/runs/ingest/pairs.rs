//! Sorted pairs one behind the other, on their way from one thread to another. One thread at a time.

use crate::util::Kind;

/// A pair, for a branch file.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The encoded key.
    pub key: &'a [u8],
    /// Anything but a range delete.
    pub kind: Kind,
    /// The value or the reference.
    pub value: &'a [u8],
    /// Bytes of the user's key and value.
    pub user_bytes: u64,
}

/// See the module. Once warm it allocates nothing.
#[derive(Debug, Default)]
pub struct PairBlock {
    /// Keys and values.
    bytes: Vec<u8>,
    heads: Vec<Head>,
}

#[derive(Debug)]
struct Head {
    key_len: u32,
    value_len: u32,
    kind: Kind,
    user_bytes: u64,
}

impl PairBlock {
    /// Adds a pair. Key and value together have less than 4 GiB.
    pub fn push(&mut self, pair: Pair<'_>) {
        let Pair { key, kind, value, user_bytes } = pair;
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.heads.push(Head { key_len: key.len() as u32, value_len: value.len() as u32, kind, user_bytes });
    }

    /// Bytes of keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Removes all pairs.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.heads.clear();
    }

    /// The pairs in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Pair<'_>> {
        let mut rest = &self.bytes[..];
        self.heads.iter().map(move |head| {
            let (key, behind) = rest.split_at(head.key_len as usize);
            let (value, behind) = behind.split_at(head.value_len as usize);
            rest = behind;
            Pair { key, kind: head.kind, value, user_bytes: head.user_bytes }
        })
    }
}

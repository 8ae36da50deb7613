//! `Patch`: bytes or zeros that replace a part of a file. Pure.

/// New content of a range.
#[derive(Clone, Copy)]
pub(super) enum Patch<'p> {
    Bytes(&'p [u8]),
    Zeros(u64),
}

impl<'p> Patch<'p> {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Zeros(count) => *count,
        }
    }

    /// The part from `from` to before `to`. Requires that it is inside.
    pub(super) fn part(&self, from: u64, to: u64) -> Patch<'p> {
        match self {
            Self::Bytes(bytes) => Patch::Bytes(&bytes[from as usize..to as usize]),
            Self::Zeros(_) => Patch::Zeros(to - from),
        }
    }

    /// Puts it into content at an offset. Zeros fill a gap before it.
    pub(super) fn apply(&self, content: &mut Vec<u8>, offset: u64) {
        let (from, to) = (offset as usize, (offset + self.len()) as usize);
        if content.len() < to {
            content.resize(to, 0);
        }
        match self {
            Self::Bytes(bytes) => content[from..to].copy_from_slice(bytes),
            Self::Zeros(_) => content[from..to].fill(0),
        }
    }

    /// The content that has only this. Zeros are left out.
    pub(super) fn to_content(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.to_vec(),
            Self::Zeros(_) => Vec::new(),
        }
    }
}

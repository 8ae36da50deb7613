//! `Packer`: compresses leaves. One thread.

use crate::branch::Compression;
use crate::branch::write::leaf_size::LeafSize;
use crate::format::sorted_page::SortedPageBuilder;
use crate::format::zstd;
use crate::util::{Error, Result};
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use std::fmt::Display;

/// See the module. Its buffers grow to the largest leaf.
#[derive(Default)]
pub struct Packer {
    raw: Vec<u8>,
    packed: Vec<u8>,
    table: CompressTable,
    zstd: zstd::Packer,
}

impl Packer {
    /// Compresses a leaf. Returns the compressed length, or `None` if compression does not save enough.
    pub fn pack(&mut self, compression: Compression, leaf: &SortedPageBuilder) -> Result<Option<usize>> {
        let refused =
            |error: &dyn Display| Error::InvalidArgument(format!("a leaf that cannot be compressed: {error}"));
        let raw_len = leaf.size();
        if compression == Compression::None {
            return Ok(None);
        }
        // The scratch buffers are zeroed once, not once for each leaf.
        if self.raw.len() < raw_len {
            self.raw.resize(raw_len, 0);
            self.packed.resize(get_maximum_output_size(raw_len), 0);
        }
        let raw = &mut self.raw[..raw_len];
        leaf.encode(raw);
        let packed_len = match compression {
            Compression::None => raw_len,
            Compression::Lz4 => {
                compress_into_with_table(raw, &mut self.packed, &mut self.table).map_err(|error| refused(&error))?
            }
            Compression::Zstd => self.zstd.pack(raw, &mut self.packed).map_err(|error| refused(&error))?,
        };
        Ok(LeafSize::is_worth(raw_len, packed_len).then_some(packed_len))
    }

    /// The leaf that was compressed last, before that, as far as it has `length` bytes.
    pub fn raw(&self, length: usize) -> &[u8] {
        &self.raw[..length]
    }

    /// What it was compressed to.
    pub fn packed(&self, length: usize) -> &[u8] {
        &self.packed[..length]
    }
}

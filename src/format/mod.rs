//! Layer 2: encoding and decoding of every on-disk structure. No I/O, no locks. Little-endian throughout. Every module
//! has a byte table, which is also in `docs/format/`.

use crate::util::Error;
use std::path::Path;

pub mod backup;
pub mod branch_footer;
pub mod branch_properties;
pub mod catalog;
pub mod change_file;
pub mod filter_page;
pub mod log_record;
pub mod log_segment;
pub mod manifest_edit;
pub mod manifest_header;
pub mod maplet_page;
pub mod page;
pub mod sorted_page;
pub mod stats_file;
pub mod value_file;
pub mod zstd;

/// The version of all formats. It is raised with any change once a release is tagged.
pub const FORMAT_VERSION: u32 = 1;

/// The error for a version above ours. `fits_own` says whether the rest of the bytes is valid with our version in its
/// place. Then only the version is damaged: no newer format has our checksum over our version.
fn newer_or_damaged(path: &Path, offset: u64, found: u32, fits_own: bool) -> Error {
    if fits_own {
        return Error::corruption(path, offset, "format version", FORMAT_VERSION, found);
    }
    Error::NewerFormat { path: path.to_path_buf(), found, supported: FORMAT_VERSION }
}

/// Requires eight bytes at `offset`.
fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

/// Requires four bytes at `offset`.
fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

//! Layer 2: bytes to structs and back for every on-disk thing. No I/O, no locks. Little-endian throughout; a byte
//! table stands in every module, its twin in `docs/format/`.

pub mod branch_footer;
pub mod branch_properties;
pub mod filter_page;
pub mod log_record;
pub mod log_segment;
pub mod manifest_edit;
pub mod manifest_header;
pub mod page;
pub mod sorted_page;
pub mod value_file;

/// The version of every format; one number for all. Raised with any change once a release is tagged.
pub const FORMAT_VERSION: u32 = 1;

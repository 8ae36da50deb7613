//! Zstandard, one frame for each payload; with the feature `zstd`. Without it nothing can be packed or unpacked.

/// Whether the feature is on.
pub const IS_BUILT_IN: bool = cfg!(feature = "zstd");

/// What is said where it is missing.
pub const MISSING: &str = "this build has no Zstandard; build with the feature `zstd`";

#[cfg(feature = "zstd")]
mod built_in {
    use std::cell::RefCell;
    use std::fmt;
    use std::io;
    use zstd::bulk::{Compressor, Decompressor};

    /// The library's own default: about half of the size of LZ4's blocks and a fifth of its speed.
    const LEVEL: i32 = 3;

    thread_local! {
        /// Kept, since making one allocates 160 KiB.
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }

    /// Packs payloads. One thread at a time.
    #[derive(Default)]
    pub struct Packer(Option<Compressor<'static>>);

    impl fmt::Debug for Packer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Packer")
        }
    }

    impl Packer {
        /// Packs into `packed`, which is made large enough. Returns the packed length.
        pub fn pack(&mut self, raw: &[u8], packed: &mut Vec<u8>) -> io::Result<usize> {
            let most = zstd::zstd_safe::compress_bound(raw.len());
            if packed.len() < most {
                packed.resize(most, 0);
            }
            let compressor = match &mut self.0 {
                Some(compressor) => compressor,
                none => none.insert(Compressor::new(LEVEL)?),
            };
            compressor.compress_to_buffer(raw, &mut packed[..])
        }
    }

    /// Unpacks a whole frame. Returns the raw length, which is at most that of `raw`.
    pub fn unpack(stored: &[u8], raw: &mut [u8]) -> io::Result<usize> {
        DECOMPRESSOR.with_borrow_mut(|kept| {
            let decompressor = match kept {
                Some(decompressor) => decompressor,
                none => none.insert(Decompressor::new()?),
            };
            decompressor.decompress_to_buffer(stored, raw)
        })
    }
}

#[cfg(not(feature = "zstd"))]
mod built_in {
    use super::MISSING;
    use std::io;

    /// Packs nothing.
    #[derive(Debug, Default)]
    pub struct Packer(());

    impl Packer {
        /// Always an error.
        pub fn pack(&mut self, _raw: &[u8], _packed: &mut Vec<u8>) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::Unsupported, MISSING))
        }
    }

    /// Always an error.
    pub fn unpack(_stored: &[u8], _raw: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(io::ErrorKind::Unsupported, MISSING))
    }
}

pub use built_in::{Packer, unpack};

//! Reads whole files, and copies them, with the hash of their content. Any thread.

use crate::io::{AlignedBuffer, OpenMode, Storage};
use crate::util::hash::ContentHasher;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::{Error, Result};

/// Bytes that are read at once.
const PIECE_BYTES: usize = 1 << 20;

/// What a whole file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) bytes: u64,
    pub(super) hash: u128,
}

/// Called before each piece; an error ends the work.
pub(super) type Check<'a> = &'a dyn Fn() -> Result<()>;

/// Reads a file.
pub(super) fn read(storage: &dyn Storage, name: &str, check: Check<'_>) -> Result<Content> {
    read_pieces(storage, name, |_| Ok(None), check)
}

/// Copies a file to a new file of another directory, and syncs that. Its name is not durable yet.
pub(super) fn copy(
    (source, from): (&dyn Storage, &str),
    (target, to): (&dyn Storage, &str),
    check: Check<'_>,
) -> Result<Content> {
    let create = |is_aligned| {
        let mode = if is_aligned { OpenMode::CreateDirect } else { OpenMode::Create };
        target.open(to, mode).map(Some)
    };
    read_pieces(source, from, create, check)
}

/// Reads a file piece by piece, with direct I/O where that is possible, and writes it to the file that `create` returns.
fn read_pieces(
    storage: &dyn Storage,
    name: &str,
    create: impl FnOnce(bool) -> Result<Option<crate::util::sync::Arc<dyn crate::io::StorageFile>>>,
    check: Check<'_>,
) -> Result<Content> {
    let bytes = storage.open(name, OpenMode::Read).map_err(Error::of_missing_file)?.length()?;
    let is_aligned = bytes.is_multiple_of(IO_ALIGNMENT as u64);
    let mode = if is_aligned { OpenMode::ReadDirect } else { OpenMode::Read };
    let source = storage.open(name, mode).map_err(Error::of_missing_file)?;
    let target = create(is_aligned)?;
    let (mut piece, mut hasher) = (AlignedBuffer::new(PIECE_BYTES), ContentHasher::default());
    for at in (0..bytes).step_by(PIECE_BYTES) {
        check()?;
        let piece = &mut piece[..(bytes - at).min(PIECE_BYTES as u64) as usize];
        source.read_exact_at(piece, at)?;
        hasher.add(piece);
        if let Some(target) = &target {
            target.write_all_at(piece, at)?;
        }
    }
    if let Some(target) = &target {
        target.sync()?;
    }
    Ok(Content { bytes, hash: hasher.finish() })
}

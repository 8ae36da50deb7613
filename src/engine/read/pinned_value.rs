//! Values that are read without a copy. Any thread.

use super::read_path::ReadPath;
use crate::branch::{BlockingPages, PinnedPages};
use crate::engine::latency::Call;
use crate::engine::types::user_key::UserKey;
use crate::merge::PinnedValue;
use crate::util::{Kind, Result, SequenceNumber};
use std::ops::Deref;

/// A value that is read without a copy where possible: it holds the cached page that contains it. It dereferences to
/// bytes, and is `Send` and `Sync`.
///
/// It may be kept as long as needed: the page stays in memory after the cache evicts it, after its file is removed, and
/// after the store is closed. From then on that memory is no longer part of `Options::memory_budget`. A value of less
/// than a sixteenth of its page is copied, so at most sixteen times the size of the values is held. Values that are not
/// in a cached page (recently written ones, large ones in value files, those of scans that read ahead, folded ones) are
/// held in a buffer, as by `get`.
///
/// Compared with `get` from cached pages, a get of 16 KiB takes a third of the time, one of 4 KiB five sixths, one of 1
/// KiB about the same, and smaller ones up to a seventh more, for which `get_into` is the better choice. A scan
/// (`Iter::pinned`) of 1 KiB values takes half the time, of 4 KiB a quarter, of 16 KiB a tenth; below about 300 bytes
/// it takes the same time. (`cargo bench --bench pinned`. A caller that reads all bytes of a value brings them into the
/// processor's cache at that time, and gains less.)
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// db.put("delta", vec![7; 4000])?;
/// db.flush()?;
/// let value = db.get_pinned("delta")?.expect("it was put");
/// db.delete("delta")?;
/// db.close()?;
/// assert_eq!(*value, [7; 4000]);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct Pinned(Bytes);

#[derive(Clone)]
enum Bytes {
    Held(PinnedValue),
    Own(Vec<u8>),
}

impl Pinned {
    pub(crate) fn new(held: Option<PinnedValue>, copied: Vec<u8>) -> Self {
        Self(held.map_or(Bytes::Own(copied), Bytes::Held))
    }

    /// Whether the value holds a page of the cache, not a buffer of its own.
    pub fn is_held(&self) -> bool {
        matches!(self.0, Bytes::Held(_))
    }

    /// The value in a buffer of its own; copied if it holds a page.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::Pinned;
    /// db.put("delta", "silt")?;
    /// assert_eq!(db.get_pinned("delta")?.map(Pinned::into_vec), Some(b"silt".to_vec()));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Bytes::Held(held) => held.to_vec(),
            Bytes::Own(bytes) => bytes,
        }
    }
}

impl Deref for Pinned {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Held(held) => held,
            Bytes::Own(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Pinned {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Pinned {}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Pinned").field(&&**self).finish()
    }
}

impl ReadPath {
    /// Like `get_at`, without a copy where possible.
    pub(crate) fn get_pinned_at(&self, key: UserKey<&[u8]>, at: SequenceNumber) -> Result<Option<Pinned>> {
        let _timed = self.latencies.time(Call::Get);
        let lookup = self.begin_lookup(key, at)?;
        let view = self.view.load();
        let (mut pages, mut out) = (PinnedPages::new(), Vec::new());
        Ok(match self.newest(&view, lookup, &mut pages, &mut out)? {
            Some((_, Kind::Put)) => Some(Pinned::new(pages.into_value(), out)),
            // Operands that are folded are read into buffers.
            other => {
                let is_live = self.complete(&view, lookup, other, &mut BlockingPages::new(), &mut out)?;
                is_live.then(|| Pinned::new(None, out))
            }
        })
    }
}

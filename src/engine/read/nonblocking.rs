//! Gets that do not read from the disk, for callers that must not wait (`aio`). Any thread.

use super::get::contains::is_value;
use super::read_path::ReadPath;
use crate::branch::{CacheOnlyPages, Stopped};
use crate::engine::types::user_key::UserKey;
use crate::util::{Kind, Result, SequenceNumber};

impl ReadPath {
    /// The result of a get if memory and cached pages suffice; otherwise `None`. Calls no merge operator.
    pub(crate) fn get_nonblocking(&self, key: UserKey<&[u8]>, at: SequenceNumber) -> Result<Option<Option<Vec<u8>>>> {
        let lookup = self.begin_lookup(key, at)?;
        let view = self.view.load();
        let mut out = Vec::new();
        match self.newest(&view, lookup, &mut CacheOnlyPages::new(), &mut out) {
            Ok(Some((_, Kind::Put))) => Ok(Some(Some(out))),
            Ok(None | Some((_, Kind::Delete | Kind::RangeDelete))) => Ok(Some(None)),
            Ok(Some(_)) | Err(Stopped::Missing) => Ok(None),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }

    /// Like `contains_at`, if memory and cached pages suffice; otherwise `None`. Calls no merge operator.
    pub(crate) fn contains_nonblocking(&self, key: UserKey<&[u8]>, at: SequenceNumber) -> Result<Option<bool>> {
        let lookup = self.begin_lookup(key, at)?;
        let view = self.view.load();
        match self.newest_kind(&view, lookup, CacheOnlyPages::new) {
            Ok(newest) => Ok(is_value(newest)),
            Err(Stopped::Missing) => Ok(None),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }
}

//! Atomic read-modify-write of one key: cLSM §3.3, Algorithm 3, with the check under the key's latch
//! (`docs/concurrency.md`, P1).
//!
//! The read and the caller's function run without any latch. The write succeeds only if no other write has changed the
//! key since the read; otherwise everything is retried. A round fails only because another write succeeded, so some
//! writer always makes progress. A failed round takes no number, so it leaves no hole. Any thread.

use super::mode::WriteMode;
use super::precondition::{Conflict, Precondition, ReadKey, WriteOutcome};
use super::sizes::check_sizes;
use super::write_path::WritePath;
use crate::engine::latency::Call;
use crate::engine::read::get::NewestVersion;
use crate::engine::types::change::{Change, Swap};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::user_key::UserKey;
use crate::util::Result;
use std::borrow::Cow;

/// Like `Change`, but the value may be borrowed.
enum Decision<'v> {
    Put(Cow<'v, [u8]>),
    Delete,
    Keep,
}

impl WritePath {
    /// Applies `change` to the value of a key. Returns the resulting value.
    pub(crate) fn update(
        &self,
        key: UserKey<&[u8]>,
        mode: WriteMode<'_>,
        mut change: impl FnMut(Option<&[u8]>) -> Change,
    ) -> Result<Option<Vec<u8>>> {
        let value = self.rewrite(key, mode, &mut |old| match change(old) {
            Change::Put(value) => Decision::Put(Cow::Owned(value)),
            Change::Delete => Decision::Delete,
            Change::Keep => Decision::Keep,
        })?;
        Ok(value.map(Cow::into_owned))
    }

    /// Replaces the value by `new` if it equals `expected`; `None` is an absent key.
    pub(crate) fn compare_and_swap(
        &self,
        key: UserKey<&[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        mode: WriteMode<'_>,
    ) -> Result<Swap> {
        check_sizes(key.bytes, new)?;
        let mut is_expected = false;
        let value = self.rewrite(key, mode, &mut |old| {
            is_expected = old == expected;
            match new {
                _ if !is_expected => Decision::Keep,
                Some(new) => Decision::Put(Cow::Borrowed(new)),
                None => Decision::Delete,
            }
        })?;
        Ok(if is_expected { Swap::Done } else { Swap::Differs(value.map(Cow::into_owned)) })
    }

    /// Puts the value if the key is absent. Returns whether it was.
    pub(crate) fn put_if_absent(&self, key: UserKey<&[u8]>, value: &[u8], mode: WriteMode<'_>) -> Result<bool> {
        check_sizes(key.bytes, Some(value))?;
        let mut was_absent = false;
        self.rewrite(key, mode, &mut |old| {
            was_absent = old.is_none();
            if was_absent { Decision::Put(Cow::Borrowed(value)) } else { Decision::Keep }
        })?;
        Ok(was_absent)
    }

    fn rewrite<'v>(
        &self,
        key: UserKey<&[u8]>,
        mode: WriteMode<'_>,
        decide: &mut dyn FnMut(Option<&[u8]>) -> Decision<'v>,
    ) -> Result<Option<Cow<'v, [u8]>>> {
        let _timed = self.read.latencies.time(Call::Update);
        check_sizes(key.bytes, None)?;
        let mut old = Vec::new();
        loop {
            let newest = self.read.get_newest(key, &mut old)?;
            let value = match decide(newest.is_live.then_some(&old[..])) {
                Decision::Put(value) => Some(value),
                Decision::Delete if newest.is_live => None,
                Decision::Delete | Decision::Keep => {
                    // The read is the whole operation.
                    mode.check_dropped()?;
                    return Ok(newest.is_live.then_some(Cow::Owned(old)));
                }
            };
            check_sizes(key.bytes, value.as_deref())?;
            if self.write_if_unchanged(key, value.as_deref(), &newest, mode)? {
                return Ok(value);
            }
            self.note_retry();
        }
    }

    /// Writes if no other write has changed the key since it was read. Returns whether it did.
    pub(super) fn write_if_unchanged(
        &self,
        key: UserKey<&[u8]>,
        value: Option<&[u8]>,
        newest: &NewestVersion,
        mode: WriteMode<'_>,
    ) -> Result<bool> {
        let reads = [ReadKey::new(key, newest.number)];
        let mut tree_checked = newest.tree_checked;
        // Terminates: a round is repeated only if a whole generation or an ingest has come to the tree during it.
        loop {
            let precondition =
                Precondition { reads: &reads, tree_checked, filtered: newest.filtered, registered: None };
            match self.write_key(key, KeyChange::to_value(value), Some(&precondition), mode)? {
                WriteOutcome::Written(_) => return Ok(true),
                WriteOutcome::Conflict(
                    Conflict::NewerVersion(_) | Conflict::Filtered | Conflict::RangeWritten | Conflict::NoRoom,
                ) => return Ok(false),
                // *Otherwise:* writers of other keys make a slow function run again and again. Without a pin, a newer
                // delete may already be gone from the tree, but only together with all older versions; a key that was
                // absent then and is absent now is unchanged.
                WriteOutcome::Conflict(Conflict::TreeChanged) => {
                    let view = self.read.view.load_full();
                    if reads[0].newest_in_tree(&view, &mut Vec::new())? != newest.number {
                        return Ok(false);
                    }
                    tree_checked = view.tree_mark();
                }
            }
        }
    }
}

//! How a write is done, besides what it writes.

use crate::engine::expiry::Moment;
use crate::engine::types::keyspace_info::{KeyspaceInfo, OpeningId};
use crate::engine::types::options::{Durability, WriteOptions};
use crate::util::Result;
use crate::util::sync::Arc;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteMode<'a> {
    pub(crate) durability: Durability,
    /// The keyspaces that it writes, without the default one. If one of them was dropped, nothing is written.
    pub(crate) keyspaces: &'a [Arc<KeyspaceInfo>],
    /// The keyspace that it drops: all its keys are among the deleted ranges.
    pub(crate) drops: Option<&'a KeyspaceInfo>,
    /// The write of a tick of the expiry, which the background does: it is not delayed and does not wait for memory. At its
    /// number the moment begins, if there is one.
    pub(crate) tick: Option<Option<&'a Moment>>,
    /// Whether the user says that it frees space. Cleared by the write path if a full disk does not take its puts.
    pub(crate) frees_space: bool,
    /// Whether its puts wait on a full disk (rule F12).
    pub(crate) waits_for_space: bool,
}

impl<'a> WriteMode<'a> {
    /// A write of these keyspaces.
    pub(crate) fn new(durability: Durability, keyspaces: &'a [Arc<KeyspaceInfo>]) -> Self {
        Self { durability, keyspaces, drops: None, tick: None, frees_space: false, waits_for_space: false }
    }

    /// A write with these options, whose durability they and the keyspaces decided.
    pub(crate) fn with(options: WriteOptions, durability: Durability, keyspaces: &'a [Arc<KeyspaceInfo>]) -> Self {
        let WriteOptions { durability: _, frees_space, waits_for_space } = options;
        Self { frees_space, waits_for_space, ..Self::new(durability, keyspaces) }
    }

    /// Whether it leads to free space, whatever it writes.
    pub(super) fn frees_space(&self) -> bool {
        self.drops.is_some() || self.tick.is_some() || self.frees_space
    }

    /// Whether a keyspace whose pairs expire is among those that it writes.
    pub(super) fn expires(&self) -> bool {
        self.keyspaces.iter().any(|keyspace| keyspace.expires())
    }

    /// An error if it names a keyspace of another store.
    pub(super) fn check_opening(&self, opening: OpeningId) -> Result<()> {
        self.keyspaces.iter().try_for_each(|keyspace| keyspace.check_opening(opening))
    }

    /// An error if one of its keyspaces was dropped.
    pub(super) fn check_dropped(&self) -> Result<()> {
        self.dropped().map_or(Ok(()), |dropped| Err(dropped.dropped()))
    }

    /// The first keyspace that was dropped.
    pub(super) fn dropped(&self) -> Option<&'a KeyspaceInfo> {
        self.keyspaces.iter().map(|keyspace| &**keyspace).find(|keyspace| keyspace.is_dropped())
    }
}

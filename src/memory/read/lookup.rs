//! Reading one key of a Memtable: the newest version, or a snapshot's, while writers go on (`docs/concurrency.md`, M5 to M8).
//!
//! Any thread, without latch, lock or wait.

use crate::memory::entry::hash_index::Lookup;
use crate::memory::entry::node::{Node, Target};
use crate::memory::entry::version::{Look, Version};
use crate::memory::table::memtable::Memtable;
use crate::util::planted::{self, Bug};
use crate::util::sync::Backoff;
use crate::util::{KeyspaceId, Kind, SequenceNumber};

/// What a walk along a chain came to.
enum ChainSearch<T> {
    Found(T),
    Absent,
    /// Somebody changed what it stood on.
    Changed,
}

impl Memtable {
    /// Finds the newest committed version with a number `<= at` and appends its value to `out`. About three cache
    /// misses; one where the key is absent, none of its own where it lies outside all keys.
    pub fn get(
        &self,
        keyspace: KeyspaceId,
        user_key: &[u8],
        hash: u64,
        at: SequenceNumber,
        out: &mut Vec<u8>,
    ) -> Option<(SequenceNumber, Kind)> {
        if !self.key_range.may_contain(user_key) {
            return None;
        }
        let node = self.find(keyspace, user_key, hash)?;
        self.read(node, at, |version, look| version.copy_value(look, out).then(|| (look.number(), look.kind())))
    }

    /// The number of the key's newest committed version.
    pub fn newest_number(&self, keyspace: KeyspaceId, user_key: &[u8], hash: u64) -> Option<SequenceNumber> {
        if !self.key_range.may_contain(user_key) {
            return None;
        }
        let node = self.find(keyspace, user_key, hash)?;
        self.read(node, SequenceNumber::MAX, |_, look| Some(look.number()))
    }

    /// The newest committed version `<= at` of a node, as `read` has it while it stays what it is; `read` says `None` where
    /// it was disturbed.
    pub(crate) fn read<T>(
        &self,
        node: Node<'_>,
        at: SequenceNumber,
        mut read: impl FnMut(Version<'_>, &Look) -> Option<T>,
    ) -> Option<T> {
        let mut backoff = Backoff::new();
        // Ends: a walk is disturbed only by a version of this key that was placed meanwhile, or a chain that was cut.
        loop {
            match self.search_chain(node, at, &mut read) {
                ChainSearch::Found(found) => return Some(found),
                ChainSearch::Absent => return None,
                ChainSearch::Changed => backoff.wait(),
            }
        }
    }

    fn search_chain<T>(
        &self,
        node: Node<'_>,
        at: SequenceNumber,
        read: &mut impl FnMut(Version<'_>, &Look) -> Option<T>,
    ) -> ChainSearch<T> {
        let newest = node.newest_place();
        let mut version = self.version(newest);
        let mut look = version.look();
        // The block may have gone another way between the two loads; if it is still the newest, the look was of it
        // as this key's, or will not hold.
        let moved = node.newest_place() != newest && !planted::is(Bug::NewestNotReadAgain);
        if moved || look.number() == SequenceNumber::ZERO {
            return ChainSearch::Changed;
        }
        loop {
            let committed = if look.number() <= at { version.is_committed(&look, self.arena()) } else { Some(false) };
            match committed {
                _ if !version.holds(&look) => return ChainSearch::Changed,
                Some(true) => return read(version, &look).map_or(ChainSearch::Changed, ChainSearch::Found),
                Some(false) => {}
                None => return ChainSearch::Changed,
            }
            if look.previous().is_null() {
                return ChainSearch::Absent;
            }
            let above = look.number();
            version = self.version(look.previous());
            look = version.look();
            // Used anew, it has a greater number than any that was taken when it was free (`version.rs`, invariant 1).
            if look.number() >= above || look.number() == SequenceNumber::ZERO {
                return ChainSearch::Changed;
            }
        }
    }

    fn find(&self, keyspace: KeyspaceId, user_key: &[u8], hash: u64) -> Option<Node<'_>> {
        let target = Target::new(keyspace, user_key);
        match self.index.find(self.arena(), hash, |place| self.has_key(place, &target)) {
            Lookup::Found(node) => Some(self.node(node)),
            Lookup::Absent => None,
            Lookup::Unknown => self.list.find(self.arena(), &target, &mut self.list.start()),
        }
    }

    /// All committed versions of a node, newest first. Only where no version leaves a chain: nobody writes any more, or this is the
    /// single-level kind.
    pub(crate) fn versions<'a>(&'a self, node: Node<'a>) -> impl Iterator<Item = Version<'a>> {
        std::iter::successors(Some(node.newest(self.arena())), |version| self.older(*version))
            .filter(|version| self.is_shown(*version))
    }

    /// Whether a version is committed; as for `versions`.
    pub(crate) fn is_shown(&self, version: Version<'_>) -> bool {
        version.is_committed(&version.look(), self.arena()).unwrap_or_default()
    }

    /// The version behind another one, as for `versions`, committed or not.
    pub(crate) fn older<'a>(&'a self, version: Version<'a>) -> Option<Version<'a>> {
        let place = version.previous();
        (!place.is_null()).then(|| self.version(place))
    }
}

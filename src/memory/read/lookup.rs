//! Reads one key of a Memtable, at the newest version or at a snapshot, while writers continue (`docs/concurrency.md`,
//! M5 to M8).
//!
//! Any thread, without a latch or a lock, and without waiting for a writer.

use crate::memory::entry::hash_index::Lookup;
use crate::memory::entry::node::{Node, Target};
use crate::memory::entry::version::{Look, Version};
use crate::memory::table::memtable::Memtable;
use crate::util::planted::planted;
use crate::util::sync::Backoff;
use crate::util::{KeyspaceId, Kind, SequenceNumber};

/// The result of a search along a chain.
enum ChainSearch<T> {
    Found(T),
    Absent,
    /// A version that the search was at has changed.
    Changed,
}

/// What a walk meets.
pub(crate) enum Seen<'a> {
    Start,
    Version(Version<'a>, &'a Look),
}

/// What a search does after a version.
pub(crate) enum Visit<T> {
    Found(T),
    /// Goes on with the next older version.
    Below,
    /// The version has changed.
    Changed,
}

impl<T> Visit<T> {
    pub(crate) fn of(found: Option<T>) -> Self {
        found.map_or(Self::Changed, Self::Found)
    }
}

/// What a Memtable has of a key whose newest version may be an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// Nothing but operands, if anything: what they are folded onto is older. The number of the oldest one, if there is
    /// one.
    Open(Option<SequenceNumber>),
    /// Operands, if any, and below them a version of this kind, whose value was read, too. `Delete` also stands for
    /// hidden versions.
    Complete(Kind),
}

impl Memtable {
    /// Finds the newest committed version with a number `<= at` and appends its value to `out`. About three cache
    /// misses; one if the key is absent, none if it is outside the Memtable's key range.
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

    /// Reads the operands of a key at or below `at`, newest first, down to the first version that is none; appends the
    /// value of that one to `out`. Versions with numbers below `floor` are hidden. All that it reads was in the chain at
    /// one moment: a later fold may replace any part of it (`docs/concurrency.md`, O3).
    pub fn get_operands(
        &self,
        key: (KeyspaceId, &[u8], u64),
        (at, floor): (SequenceNumber, SequenceNumber),
        operands: &mut Vec<Vec<u8>>,
        out: &mut Vec<u8>,
    ) -> Operands {
        let before = operands.len();
        let mut oldest = None;
        let base = self.walk_operands(key, at, |seen| match seen {
            Seen::Start => {
                operands.truncate(before);
                oldest = None;
                Visit::Below
            }
            Seen::Version(_, look) if look.number() < floor => Visit::Found(Kind::Delete),
            Seen::Version(version, look) if look.kind() != Kind::Merge => {
                Visit::of(version.copy_value(look, out).then(|| look.kind()))
            }
            Seen::Version(version, look) => {
                let mut operand = Vec::new();
                if !version.copy_value(look, &mut operand) {
                    return Visit::Changed;
                }
                operands.push(operand);
                oldest = Some(look.number());
                Visit::Below
            }
        });
        base.map_or(Operands::Open(oldest), Operands::Complete)
    }

    /// Calls `visit` for the committed versions `<= at` of a key, newest first, as long as it asks for the one below; before
    /// that, and each time that the walk begins again because a version has changed, with `Start`.
    pub(crate) fn walk_operands<T>(
        &self,
        (keyspace, user_key, hash): (KeyspaceId, &[u8], u64),
        at: SequenceNumber,
        mut visit: impl FnMut(Seen<'_>) -> Visit<T>,
    ) -> Option<T> {
        if !self.key_range.may_contain(user_key) {
            return None;
        }
        let node = self.find(keyspace, user_key, hash)?;
        let mut backoff = Backoff::new();
        loop {
            visit(Seen::Start);
            let search = self.search_chain(node, at, &mut |version, look| match visit(Seen::Version(version, look)) {
                // Whatever was read of the version, it is still there.
                Visit::Found(found) if version.holds(look) => Visit::Found(found),
                Visit::Found(_) => Visit::Changed,
                other => other,
            });
            match search {
                ChainSearch::Found(found) => return Some(found),
                ChainSearch::Absent => return None,
                ChainSearch::Changed => backoff.wait(),
            }
        }
    }

    /// The number of the key's newest committed version.
    pub fn newest_number(&self, keyspace: KeyspaceId, user_key: &[u8], hash: u64) -> Option<SequenceNumber> {
        if !self.key_range.may_contain(user_key) {
            return None;
        }
        let node = self.find(keyspace, user_key, hash)?;
        self.read(node, SequenceNumber::MAX, |_, look| Some(look.number()))
    }

    /// Like `get`, without the value.
    pub fn newest_kind(
        &self,
        keyspace: KeyspaceId,
        user_key: &[u8],
        hash: u64,
        at: SequenceNumber,
    ) -> Option<(SequenceNumber, Kind)> {
        if !self.key_range.may_contain(user_key) {
            return None;
        }
        let node = self.find(keyspace, user_key, hash)?;
        self.read(node, at, |_, look| Some((look.number(), look.kind())))
    }

    /// Calls `read` for the newest committed version `<= at` of a node, and returns its result. `read` returns `None`
    /// if its version has changed meanwhile; then the search restarts.
    pub(crate) fn read<T>(
        &self,
        node: Node<'_>,
        at: SequenceNumber,
        mut read: impl FnMut(Version<'_>, &Look) -> Option<T>,
    ) -> Option<T> {
        let mut backoff = Backoff::new();
        // Ends: a search restarts only if a version of this key was placed meanwhile, or its chain was cleaned.
        loop {
            match self.search_chain(node, at, &mut |version, look| Visit::of(read(version, look))) {
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
        visit: &mut impl FnMut(Version<'_>, &Look) -> Visit<T>,
    ) -> ChainSearch<T> {
        let newest = node.newest_place();
        let mut version = self.version(newest);
        let mut look = version.look();
        // The block may have been reused between the two loads. If it is still the newest, then the look was at a
        // version of this key, or it no longer holds.
        let moved = planted!(node.newest_place() != newest, Bug::NewestNotReadAgain => false);
        if moved || look.number() == SequenceNumber::ZERO {
            return ChainSearch::Changed;
        }
        loop {
            let committed = if look.number() <= at { version.is_committed(&look, self.arena()) } else { Some(false) };
            match committed {
                _ if !version.holds(&look) => return ChainSearch::Changed,
                Some(true) => match visit(version, &look) {
                    Visit::Found(found) => return ChainSearch::Found(found),
                    Visit::Below => {}
                    Visit::Changed => return ChainSearch::Changed,
                },
                Some(false) => {}
                None => return ChainSearch::Changed,
            }
            if look.previous().is_null() {
                return ChainSearch::Absent;
            }
            let above = look.number();
            version = self.version(look.previous());
            look = version.look();
            // A reused block has a greater number than all that were taken before it was freed (`version.rs`, invariant
            // 1).
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

    /// All committed versions of a node, newest first. Requires that no version leaves a chain: there are no writers
    /// any more, or the Memtable is of the single-level kind.
    pub(crate) fn versions<'a>(&'a self, node: Node<'a>) -> impl Iterator<Item = Version<'a>> {
        std::iter::successors(Some(node.newest(self.arena())), |version| self.older(*version))
            .filter(|version| self.is_shown(*version))
    }

    /// Whether a version is committed. Same requirement as `versions`.
    pub(crate) fn is_shown(&self, version: Version<'_>) -> bool {
        version.is_committed(&version.look(), self.arena()).unwrap_or_default()
    }

    /// The next older version, committed or not. Same requirement as `versions`.
    pub(crate) fn older<'a>(&'a self, version: Version<'a>) -> Option<Version<'a>> {
        let place = version.previous();
        (!place.is_null()).then(|| self.version(place))
    }
}

//! The get path: the memory generations, newest first, then the item cache, then the tree. If the newest version is a
//! merge operand, the search begins again and gathers all versions down to the first one that is no operand. Any thread.

use super::read_path::ReadPath;
use crate::branch::{BlockingPages, Pages};
use crate::cache::Item;
use crate::engine::latency::Call;
use crate::engine::state::latches::Latches;
use crate::engine::state::view::{TreeMark, View};
use crate::engine::types::key_change::refused;
use crate::engine::types::user_key::UserKey;
use crate::format::value_file::ValueReference;
use crate::memory::Operands;
use crate::util::planted::planted;
use crate::util::{Error, KeyspaceId, Kind, Result, SequenceNumber};

/// The key and the snapshot of a get.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'k> {
    key: UserKey<&'k [u8]>,
    hash: u64,
    /// Versions with greater numbers are not visible.
    at: SequenceNumber,
    /// Versions up to this number have expired; from before the view was loaded. *Otherwise:* the get finds a version, another
    /// thread puts a newer one, a moment begins, and the get says that the key is absent, which it never was.
    expired: SequenceNumber,
    /// The item cache's stamp from before the view was loaded.
    stamp: u64,
}

impl<'k> Lookup<'k> {
    /// Requires that the view is loaded afterwards.
    pub(crate) fn new(read: &ReadPath, key: UserKey<&'k [u8]>, at: SequenceNumber) -> Self {
        let expired = read.expiry.through(key.keyspace, at);
        Self { key, hash: key.hash(), at, expired, stamp: read.cache.items().stamp() }
    }
}

/// The result of `get_newest` besides the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewestVersion {
    /// Whether the key has a value.
    pub(crate) is_live: bool,
    /// The number of the newest version, put or delete; `ZERO` if there is none.
    pub(crate) number: SequenceNumber,
    /// The search covered all versions in the tree up to this mark.
    pub(crate) tree_checked: TreeMark,
    /// `View::filtered` of the view that was searched.
    pub(crate) filtered: u64,
}

impl ReadPath {
    /// Replaces the contents of `out` by the newest value at or below `at`. Returns false if there is none.
    pub(crate) fn get_at(&self, key: UserKey<&[u8]>, at: SequenceNumber, out: &mut Vec<u8>) -> Result<bool> {
        let _timed = self.latencies.time(Call::Get);
        out.clear();
        let lookup = self.begin_lookup(key, at)?;
        let view = self.view.load();
        self.find(&view, lookup, &mut BlockingPages::new(), out)
    }

    /// Replaces the contents of `out` by the newest value, for a conditional write that follows.
    pub(crate) fn get_newest(&self, key: UserKey<&[u8]>, out: &mut Vec<u8>) -> Result<NewestVersion> {
        out.clear();
        let lookup = self.begin_lookup(key, SequenceNumber::MAX)?;
        let view = self.view.load();
        let mut pages = BlockingPages::new();
        let tree_checked = view.tree_mark();
        let newest = self.newest(&view, lookup, &mut pages, out)?;
        let is_live = self.complete(&view, lookup, newest, &mut pages, out)?;
        let number = newest.map_or(SequenceNumber::ZERO, |(number, _)| number);
        Ok(NewestVersion { is_live, number, tree_checked, filtered: view.filtered })
    }

    /// Begins a get; requires that the view is loaded afterwards.
    #[inline]
    pub(crate) fn begin_lookup<'k>(&self, key: UserKey<&'k [u8]>, at: SequenceNumber) -> Result<Lookup<'k>> {
        self.check_open()?;
        let lookup = Lookup::new(self, key, at);
        if at == SequenceNumber::MAX && planted!(self.snapshots.being_taken(), Bug::GetDoesNotWait => false) {
            // Rule S3.
            self.latches.wait_for_holder(Latches::index_of(lookup.hash));
            self.range_deletes.wait_for(key);
        }
        Ok(lookup)
    }

    /// Like `get_at`, in the caller's view and with its page source. Appends to `out`.
    #[inline]
    pub(crate) fn find<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<bool, P::Stop> {
        let newest = self.newest(view, lookup, pages, out)?;
        self.complete(view, lookup, newest, pages, out)
    }

    /// Turns the result of `newest` in `out` into the user's value. Returns false if there is none.
    pub(crate) fn complete<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        newest: Option<(SequenceNumber, Kind)>,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<bool, P::Stop> {
        match newest {
            None => Ok(false),
            Some((number, Kind::Merge)) => self.find_folded(view, lookup, number, pages, out),
            Some((_, kind)) => Ok(self.resolve(kind, out)?),
        }
    }

    /// The number and kind of the newest version at or below `at`, or of the range tombstone that hides it; `Delete` if it has
    /// expired. Appends the version's value to `out`.
    #[inline]
    pub(crate) fn newest<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let start = out.len();
        let found = self.newest_of_any_age(view, lookup, pages, out)?;
        if let Some((number, _)) = found
            && number <= lookup.expired
        {
            out.truncate(start);
            return Ok(Some((number, Kind::Delete)));
        }
        Ok(found)
    }

    /// Like `newest`, whether or not it has expired.
    fn newest_of_any_age<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let Lookup { key, hash, at, .. } = lookup;
        let generations = &view.generations;
        for generation in generations {
            let memtable = planted!(
                &generation.memtable,
                Bug::OldestGenerationFirst => &crate::util::planted::mirrored(generations, generation).memtable
            );
            // Before the entry (rule D3).
            let covering = if memtable.has_range_tombstones() {
                key.with_encoded(|encoded| memtable.covering(encoded, at))
            } else {
                SequenceNumber::ZERO
            };
            let start = out.len();
            let hit = memtable.get(key.keyspace, key.bytes, hash, at, out);
            if hit.map_or(SequenceNumber::ZERO, |(number, _)| number) < covering {
                out.truncate(start);
                return Ok(Some((covering, Kind::RangeDelete)));
            }
            if hit.is_some() {
                return Ok(hit);
            }
        }
        self.newest_in_tree(view, lookup, pages, out)
    }

    /// Like `newest`, below memory. Always a part of it: the other callers are rare.
    #[inline(always)]
    fn newest_in_tree<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let Lookup { key, hash, at, stamp, .. } = lookup;
        key.with_encoded(|key| {
            let (items, before) = (self.cache.items(), pages.leaves_read().count);
            if let Some(number) = items.get(key, hash, at, out) {
                return Ok(Some((number, Kind::Put)));
            }
            let start = out.len();
            let found = view.disk.get(key, hash, at, pages, out)?;
            let leaves = pages.leaves_read();
            if let Some((number, Kind::Put)) = found
                && leaves.count > before
                && at >= view.tree_through()
            {
                let leaf_bytes = leaves.last_bytes;
                items.add(stamp, Item { key, hash, number, value: &out[start..], leaf_bytes });
            }
            Ok(found)
        })
    }

    /// Folds the operands of a key, of which the newest one has this number and is in `out`, into the value below them.
    #[cold]
    fn find_folded<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        mut lookup: Lookup<'_>,
        number: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<bool, P::Stop> {
        let mut operands = Vec::new();
        let base = if number <= view.incorporated_through() {
            // It is in the tree, and memory has nothing newer that this get must see.
            operands.push(std::mem::take(out));
            lookup.at = SequenceNumber(number.0 - 1);
            self.gather_in_tree(view, lookup, pages, &mut operands, out)?
        } else {
            self.gather(view, lookup, pages, &mut operands, out)?
        };
        Ok(self.fold_onto(lookup.key, base, operands, out)?)
    }

    /// Folds operands, newest first, into the stored value below them, which has this kind and is in `out`.
    fn fold_onto(
        &self,
        key: UserKey<&[u8]>,
        base: Kind,
        mut operands: Vec<Vec<u8>>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let has_base = self.resolve(base, out)?;
        if operands.is_empty() {
            return Ok(has_base);
        }
        operands.reverse();
        self.fold(key, has_base, &operands, out)?;
        Ok(true)
    }

    /// Gathers the operands of a key, newest first, and replaces the contents of `out` by the stored value below them. Returns
    /// its kind. The operands of a Memtable are read together, because a writer may fold them meanwhile
    /// (`docs/concurrency.md`, O3); those in the tree, where nothing changes in a view, with one search each.
    fn gather<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        mut lookup: Lookup<'_>,
        pages: &mut P,
        operands: &mut Vec<Vec<u8>>,
        out: &mut Vec<u8>,
    ) -> Result<Kind, P::Stop> {
        let key = (lookup.key.keyspace, lookup.key.bytes, lookup.hash);
        for memtable in view.generations.iter().map(|generation| &generation.memtable) {
            let covering = || match memtable.has_range_tombstones() {
                true => lookup.key.with_encoded(|encoded| memtable.covering(encoded, lookup.at)),
                false => SequenceNumber::ZERO,
            };
            let (before, mut floor) = (operands.len(), covering());
            // Ends: it is repeated only if a range delete of the key was placed meanwhile.
            let found = loop {
                out.clear();
                operands.truncate(before);
                let found = memtable.get_operands(key, (lookup.at, floor), operands, out);
                let floor_after = covering();
                if floor_after == floor {
                    break found;
                }
                floor = floor_after;
            };
            match found {
                Operands::Complete(kind) => return Ok(kind),
                Operands::Open(_) if floor > SequenceNumber::ZERO => return Ok(Kind::Delete),
                // An entry's number is at least 1.
                Operands::Open(Some(oldest)) => lookup.at = SequenceNumber(oldest.0 - 1),
                Operands::Open(None) => {}
            }
        }
        self.gather_in_tree(view, lookup, pages, operands, out)
    }

    /// Like `gather`, below memory.
    fn gather_in_tree<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        mut lookup: Lookup<'_>,
        pages: &mut P,
        operands: &mut Vec<Vec<u8>>,
        out: &mut Vec<u8>,
    ) -> Result<Kind, P::Stop> {
        loop {
            out.clear();
            match self.newest_in_tree(view, lookup, pages, out)? {
                Some((number, Kind::Merge)) => {
                    operands.push(std::mem::take(out));
                    lookup.at = SequenceNumber(number.0 - 1);
                }
                Some((_, kind)) => return Ok(kind),
                None => return Ok(Kind::Delete),
            }
        }
    }

    /// Like `get_newest`, for a writer that puts the value in the place of a chain of operands. `None` if there is no chain
    /// any more, or one that stands over a value file, which is better not read and written again for a few operands.
    pub(crate) fn get_chain(&self, key: UserKey<&[u8]>, out: &mut Vec<u8>) -> Result<Option<NewestVersion>> {
        out.clear();
        let lookup = self.begin_lookup(key, SequenceNumber::MAX)?;
        let view = self.view.load();
        let mut pages = BlockingPages::new();
        let tree_checked = view.tree_mark();
        let Some((number, Kind::Merge)) = self.newest(&view, lookup, &mut pages, out)? else { return Ok(None) };
        let mut operands = Vec::new();
        let base = self.gather(&view, lookup, &mut pages, &mut operands, out)?;
        if operands.len() < 2 || base == Kind::ValueReference {
            return Ok(None);
        }
        let is_live = self.fold_onto(key, base, operands, out)?;
        Ok(Some(NewestVersion { is_live, number, tree_checked, filtered: view.filtered }))
    }

    /// Folds operands, oldest first, into the value below them, which is in `value` if `has_base`.
    pub(crate) fn fold(
        &self,
        key: UserKey<&[u8]>,
        has_base: bool,
        operands: &[Vec<u8>],
        value: &mut Vec<u8>,
    ) -> Result<()> {
        let UserKey { keyspace, bytes: key } = key;
        self.merge_operators.with(keyspace, |operator| {
            let Some(operator) = operator else {
                let (what, options) = if keyspace == KeyspaceId::DEFAULT {
                    ("store", "Options")
                } else {
                    ("keyspace", "KeyspaceOptions")
                };
                let reason = format!(
                    "the {what} was opened without it; pass the operator that they were written for with \
                     `{options}::merge_operator`"
                );
                let operator = self.merge_operators.missing(keyspace).unwrap_or_default();
                return Err(Error::MergeOperands { operator, key: key.to_vec(), reason });
            };
            let operands: Vec<&[u8]> = operands.iter().map(|operand| &operand[..]).collect();
            let base = std::mem::take(value);
            operator
                .full_merge(key, has_base.then_some(&base[..]), &operands, value)
                .map_err(|said| refused(key, operator, &said))
        })
    }

    /// Turns the stored value of an entry into the user's value. The caller's view keeps value files from being
    /// removed. Returns false for a delete.
    pub(crate) fn resolve(&self, kind: Kind, out: &mut Vec<u8>) -> Result<bool> {
        match kind {
            Kind::Put => Ok(true),
            Kind::Delete | Kind::RangeDelete => Ok(false),
            Kind::ValueReference => {
                let Some(reference) = ValueReference::decode(out) else {
                    return Err(self.bad_reference(out));
                };
                out.clear();
                self.values.read(&reference, out)?;
                Ok(true)
            }
            Kind::Merge | Kind::Void | Kind::Batch => Err(Error::corruption(
                self.storage.path(),
                0,
                "kind of an entry",
                "put, delete, range delete or value reference",
                format!("{kind:?}"),
            )),
        }
    }

    pub(crate) fn bad_reference(&self, found: &[u8]) -> Error {
        let (expected, found) = (format!("{} bytes", ValueReference::BYTES), format!("{} bytes", found.len()));
        Error::corruption(self.storage.path(), 0, "value reference", expected, found)
    }
}

pub(in crate::engine::read) mod contains;

#[cfg(test)]
mod tests;

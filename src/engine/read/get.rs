//! The get path: the memory generations, newest first, then the item cache, then the tree. If the newest version is a
//! merge operand, the search is repeated for older versions, down to the first one that is no operand. Any thread.

use super::read_path::ReadPath;
use crate::branch::{BlockingPages, Pages};
use crate::cache::Item;
use crate::engine::state::latches::Latches;
use crate::engine::state::view::View;
use crate::format::value_file::ValueReference;
use crate::util::key::with_encoded;
use crate::util::planted::planted;
use crate::util::{Error, KeyspaceId, Kind, Result, SequenceNumber, hash};

/// The key and the snapshot of a get.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'k> {
    user_key: &'k [u8],
    hash: u64,
    /// Versions with greater numbers are not visible.
    at: SequenceNumber,
    /// The item cache's stamp from before the view was loaded.
    stamp: u64,
}

impl<'k> Lookup<'k> {
    /// Requires that the view is loaded afterwards.
    pub(crate) fn new(read: &ReadPath, user_key: &'k [u8], at: SequenceNumber) -> Self {
        Self { user_key, hash: hash::key_hash(KeyspaceId::DEFAULT, user_key), at, stamp: read.cache.items().stamp() }
    }
}

/// The result of `get_newest` besides the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewestVersion {
    /// Whether the key has a value.
    pub(crate) is_live: bool,
    /// The number of the newest version, put or delete; `ZERO` if there is none.
    pub(crate) number: SequenceNumber,
    /// The search covered all versions in the tree, unless a generation with numbers above this one has moved there
    /// since.
    pub(crate) tree_checked_through: SequenceNumber,
}

impl ReadPath {
    /// Replaces the contents of `out` by the newest value at or below `at`. Returns false if there is none.
    pub(crate) fn get_at(&self, user_key: &[u8], at: SequenceNumber, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        let lookup = self.begin_lookup(user_key, at)?;
        let view = self.view.load();
        self.find(&view, lookup, &mut BlockingPages::new(), out)
    }

    /// Replaces the contents of `out` by the newest value, for a conditional write that follows.
    pub(crate) fn get_newest(&self, user_key: &[u8], out: &mut Vec<u8>) -> Result<NewestVersion> {
        out.clear();
        let lookup = self.begin_lookup(user_key, SequenceNumber::MAX)?;
        let view = self.view.load();
        let mut pages = BlockingPages::new();
        let tree_checked_through = view.incorporated_through();
        let newest = self.newest(&view, lookup, &mut pages, out)?;
        let is_live = self.complete(&view, lookup, newest, &mut pages, out)?;
        let number = newest.map_or(SequenceNumber::ZERO, |(number, _)| number);
        Ok(NewestVersion { is_live, number, tree_checked_through })
    }

    /// Begins a get; requires that the view is loaded afterwards.
    #[inline]
    pub(crate) fn begin_lookup<'k>(&self, user_key: &'k [u8], at: SequenceNumber) -> Result<Lookup<'k>> {
        self.check_open()?;
        let lookup = Lookup::new(self, user_key, at);
        if at == SequenceNumber::MAX && planted!(self.snapshots.being_taken(), Bug::GetDoesNotWait => false) {
            // Rule S3.
            self.latches.wait_for_holder(Latches::index_of(lookup.hash));
            self.range_deletes.wait_for(KeyspaceId::DEFAULT, user_key);
        }
        Ok(lookup)
    }

    /// Like `get_at`, in the caller's view and with its page source. Appends to `out`.
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
            Some((number, Kind::Merge)) => self.find_merged(view, lookup, number, pages, out),
            Some((_, kind)) => Ok(self.resolve(kind, out)?),
        }
    }

    /// The number and kind of the newest version at or below `at`, or of the range tombstone that hides it. Appends the
    /// version's value to `out`.
    pub(crate) fn newest<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let Lookup { user_key, hash, at, stamp } = lookup;
        let keyspace = KeyspaceId::DEFAULT;
        let generations = &view.generations;
        for generation in generations {
            let memtable = planted!(
                &generation.memtable,
                Bug::OldestGenerationFirst => &crate::util::planted::mirrored(generations, generation).memtable
            );
            // Before the entry (rule D3).
            let covering = if memtable.has_range_tombstones() {
                with_encoded(keyspace, user_key, |encoded| memtable.covering(encoded, at))
            } else {
                SequenceNumber::ZERO
            };
            let start = out.len();
            let hit = memtable.get(keyspace, user_key, hash, at, out);
            if hit.map_or(SequenceNumber::ZERO, |(number, _)| number) < covering {
                out.truncate(start);
                return Ok(Some((covering, Kind::RangeDelete)));
            }
            if hit.is_some() {
                return Ok(hit);
            }
        }
        with_encoded(keyspace, user_key, |key| {
            let (items, before) = (self.cache.items(), pages.leaves_read().count);
            if let Some(number) = items.get(key, hash, at, out) {
                return Ok(Some((number, Kind::Put)));
            }
            let start = out.len();
            let found = view.disk.get(key, hash, at, pages, out)?;
            let leaves = pages.leaves_read();
            if let Some((number, Kind::Put)) = found
                && leaves.count > before
                && at >= view.newest_start()
            {
                let leaf_bytes = leaves.last_bytes;
                items.add(stamp, Item { key, hash, number, value: &out[start..], leaf_bytes });
            }
            Ok(found)
        })
    }

    /// Folds the merge operand with this number, which is in `out`, and the operands below it into the value below
    /// them. One search for each operand.
    #[cold]
    fn find_merged<'v, P: Pages<'v>>(
        &self,
        view: &'v View,
        lookup: Lookup<'_>,
        mut number: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<bool, P::Stop> {
        let mut operands = vec![std::mem::take(out)];
        let has_base = loop {
            out.clear();
            // An entry's number is at least 1.
            match self.newest(view, Lookup { at: SequenceNumber(number.0 - 1), ..lookup }, pages, out)? {
                Some((older, Kind::Merge)) => {
                    operands.push(std::mem::take(out));
                    number = older;
                }
                Some((_, kind)) => break self.resolve(kind, out)?,
                None => break false,
            }
        };
        operands.reverse();
        self.fold(lookup.user_key, has_base, &operands, out)?;
        Ok(true)
    }

    /// Folds operands, oldest first, into the value below them, which is in `value` if `has_base`.
    pub(crate) fn fold(&self, key: &[u8], has_base: bool, operands: &[Vec<u8>], value: &mut Vec<u8>) -> Result<()> {
        let failed = |reason| Error::MergeOperands { key: key.to_vec(), reason };
        let Some(operator) = &self.merge_operator else {
            let missing =
                "the store was opened without a merge operator; open it with the operator that they were written for";
            return Err(failed(missing.to_owned()));
        };
        let operands: Vec<&[u8]> = operands.iter().map(|operand| &operand[..]).collect();
        let base = std::mem::take(value);
        operator
            .full_merge(key, has_base.then_some(&base[..]), &operands, value)
            .map_err(|said| failed(format!("the merge operator {:?} refused them: {said}", operator.name())))
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

mod contains;

#[cfg(test)]
mod tests;

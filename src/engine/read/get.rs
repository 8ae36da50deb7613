//! The path of a get: memory generations, newest first, then the tree, before which its item cache is asked. Where the newest version is
//! a merge operand, the same again for what is older, down to the first version that is none.

use super::read_path::ReadPath;
use crate::branch::{BlockingPages, Pages};
use crate::cache::Item;
use crate::engine::state::latches::Latches;
use crate::engine::state::view::View;
use crate::format::value_file::ValueReference;
use crate::util::key::with_encoded;
use crate::util::planted::planted;
use crate::util::{Error, KeyspaceId, Kind, Result, SequenceNumber, hash};

/// What a get asks for.
#[derive(Clone, Copy)]
pub(crate) struct Lookup<'k> {
    user_key: &'k [u8],
    hash: u64,
    /// Newer versions are not seen.
    at: SequenceNumber,
    /// Of the item cache, from before the view was taken.
    stamp: u64,
}

impl<'k> Lookup<'k> {
    /// To be made before the view is taken.
    pub(crate) fn new(side: &ReadPath, user_key: &'k [u8], at: SequenceNumber) -> Self {
        Self { user_key, hash: hash::key_hash(KeyspaceId::DEFAULT, user_key), at, stamp: side.cache.items().stamp() }
    }
}

/// What `get_newest` knows of the key besides its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewestVersion {
    /// Whether it has a value.
    pub(crate) is_live: bool,
    /// The number of its newest version, put or delete; `ZERO` where it never had one.
    pub(crate) through: SequenceNumber,
    /// Whatever of the key was in the tree was seen, if no generation with numbers above this one has gone there since.
    pub(crate) tree_known_through: SequenceNumber,
}

impl ReadPath {
    /// Reads the newest version at or below `at` into `out`, replacing what it holds; false where there is none.
    pub(crate) fn get_at(&self, user_key: &[u8], at: SequenceNumber, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        let lookup = self.begin_lookup(user_key, at)?;
        let view = self.view.load();
        self.find(&view, lookup, &mut BlockingPages::new(), out)
    }

    /// Reads the newest version into `out`, replacing what it holds, for a caller that wants to write what comes of it.
    pub(crate) fn get_newest(&self, user_key: &[u8], out: &mut Vec<u8>) -> Result<NewestVersion> {
        out.clear();
        let lookup = self.begin_lookup(user_key, SequenceNumber::MAX)?;
        let view = self.view.load();
        let mut pages = BlockingPages::new();
        let tree_known_through = view.retired_through();
        let newest = self.newest(&view, lookup, &mut pages, out)?;
        let is_live = self.complete(&view, lookup, newest, &mut pages, out)?;
        let through = newest.map_or(SequenceNumber::ZERO, |(number, _)| number);
        Ok(NewestVersion { is_live, through, tree_known_through })
    }

    /// What a get begins with, before it takes its view.
    #[inline]
    pub(crate) fn begin_lookup<'k>(&self, user_key: &'k [u8], at: SequenceNumber) -> Result<Lookup<'k>> {
        self.check_open()?;
        let lookup = Lookup::new(self, user_key, at);
        if at == SequenceNumber::MAX && planted!(self.snapshots.being_taken(), Bug::GetDoesNotWait => false) {
            // Rule S3.
            self.latches.wait_for_holder(Latches::index_of(lookup.hash));
        }
        Ok(lookup)
    }

    /// As `get_at`, in a view that the caller holds, over a source of pages. Appends to `out`.
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

    /// Makes the user's value in `out` of what `newest` gave; false where there is none.
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

    /// The newest version at or below `at`, or the range tombstone that hides it: number and kind; what it holds is appended to
    /// `out`.
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
            let mut hit = memtable.get(keyspace, user_key, hash, at, out);
            if memtable.has_range_tombstones() {
                let covering = with_encoded(keyspace, user_key, |encoded| memtable.covering(encoded, at));
                if hit.map_or(SequenceNumber::ZERO, |(number, _)| number) < covering {
                    hit = Some((covering, Kind::RangeDelete));
                }
            }
            if hit.is_some() {
                return Ok(hit);
            }
        }
        with_encoded(keyspace, user_key, |key| {
            let (items, before) = (self.cache.items(), pages.small_leaves_read());
            if let Some(number) = items.get(key, hash, at, out) {
                return Ok(Some((number, Kind::Put)));
            }
            let start = out.len();
            let found = view.disk.get(key, hash, at, pages, out)?;
            if let Some((number, Kind::Put)) = found
                && pages.small_leaves_read() > before
                && at >= view.switched_through()
            {
                items.add(stamp, Item { key, hash, number, value: &out[start..] });
            }
            Ok(found)
        })
    }

    /// Goes on from an operand with this number, which `out` holds, to what it is folded into. One search for each operand.
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

    /// Makes the user's value of operands, oldest first, and of the value below them, which `value` holds where `has_base`.
    pub(crate) fn fold(&self, key: &[u8], has_base: bool, operands: &[Vec<u8>], value: &mut Vec<u8>) -> Result<()> {
        let failed = |reason| Error::MergeOperands { key: key.to_vec(), reason };
        let Some(operator) = &self.merge_operator else {
            let missing =
                "the store was opened without a merge operator; open it with the one that they were written for";
            return Err(failed(missing.to_owned()));
        };
        let operands: Vec<&[u8]> = operands.iter().map(|operand| &operand[..]).collect();
        let base = std::mem::take(value);
        operator
            .full_merge(key, has_base.then_some(&base[..]), &operands, value)
            .map_err(|said| failed(format!("the merge operator {:?} refused them: {said}", operator.name())))
    }

    /// Turns what an entry holds into the user's value. The caller's view keeps value files from being removed.
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

#[cfg(test)]
mod tests;

//! Makes the buffered branches of a manifest again from their parents (SkipStore §5.3, recovery). Any thread.
//!
//! Each parent is read once, from its start to its last entry that is needed. O(bytes of the parents).

use crate::branch::{Branch, BranchBuilder, BranchContext, Buffered, Origin, Origins, Purpose};
use crate::format::manifest_edit::{BranchMeta, BufferedMeta};
use crate::manifest::{MANIFEST_NAME, ManifestState};
use crate::merge::{Cursor, EntryRef};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Kind, Result, SequenceNumber};
use std::collections::BTreeMap;

/// The branches of a state that are in memory only, and their parents.
#[derive(Debug, Default)]
pub struct Rebuilt {
    pub buffered: BTreeMap<FileNumber, Arc<Branch>>,
    pub parents: BTreeMap<FileNumber, Arc<Branch>>,
}

/// An entry, and where it was found.
struct Item {
    key: Vec<u8>,
    number: SequenceNumber,
    kind: Kind,
    value: Vec<u8>,
    origin: Origin,
}

/// Makes the buffered branches of a consistent state, whose parents exist. `filter_bits`: of their filters.
pub fn rebuild(context: &Arc<BranchContext>, state: &ManifestState, filter_bits: u32) -> Result<Rebuilt> {
    let mut rebuilt = Rebuilt::default();
    // By parent: which of its entries belong to which branch.
    let mut wanted: BTreeMap<FileNumber, Vec<(u64, FileNumber)>> = BTreeMap::new();
    for (file, buffered) in &state.buffered {
        for items in &buffered.parents {
            wanted.entry(items.parent).or_default().extend(items.places().map(|at| (at, *file)));
        }
    }
    let mut found: BTreeMap<FileNumber, Vec<Item>> = BTreeMap::new();
    for (number, mut places) in wanted {
        let Some(meta) = state.branches.get(&number) else { return Err(inconsistent(context, number)) };
        let parent = Branch::new(context, meta.clone());
        places.sort_unstable();
        read(&parent, &places, &mut found)?;
        rebuilt.parents.insert(number, parent);
    }
    for (file, buffered) in &state.buffered {
        let items = found.remove(file).unwrap_or_default();
        rebuilt.buffered.insert(*file, build(context, buffered, items, filter_bits)?);
    }
    Ok(rebuilt)
}

fn inconsistent(context: &BranchContext, parent: FileNumber) -> Error {
    let path = context.storage.path_of(MANIFEST_NAME);
    Error::corruption(&path, 0, "parent of a buffered branch", "a branch file", format!("no branch {parent}"))
}

/// Adds the entries of a parent at these places, which ascend, to those found for each branch.
fn read(parent: &Arc<Branch>, places: &[(u64, FileNumber)], found: &mut BTreeMap<FileNumber, Vec<Item>>) -> Result<()> {
    let mut cursor = parent.cursor(Purpose::Compaction);
    cursor.seek_first()?;
    let mut at = 0;
    for (place, file) in places {
        while at < *place && cursor.valid() {
            cursor.next()?;
            at += 1;
        }
        if !cursor.valid() {
            return Err(parent.lacks_entries(*place + 1, at));
        }
        let EntryRef { key, number, kind, value } = cursor.entry();
        let origin = Origin { parent: parent.meta().file, at };
        let item = Item { key: key.to_vec(), number, kind, value: value.to_vec(), origin };
        found.entry(*file).or_default().push(item);
    }
    Ok(())
}

/// The branch of these items, whose sizes may differ from what the manifest says: options may have changed.
fn build(
    context: &Arc<BranchContext>,
    buffered: &BufferedMeta,
    mut items: Vec<Item>,
    filter_bits: u32,
) -> Result<Arc<Branch>> {
    items.sort_unstable_by(|one, other| one.key.cmp(&other.key).then(other.number.cmp(&one.number)));
    let number = buffered.meta.file;
    let mut builder = BranchBuilder::buffered(context, number).with_filter_bits(filter_bits);
    let mut origins = Origins::default();
    for Item { key, number, kind, value, origin } in &items {
        builder.add(EntryRef { key, number: *number, kind: *kind, value })?;
        origins.push(*origin);
    }
    let (meta, file) = builder.finish_buffered()?;
    let expected = BranchMeta { bytes: meta.bytes, ..buffered.meta.clone() };
    if meta != expected {
        let path = context.storage.path_of(MANIFEST_NAME);
        let what = "entries of a buffered branch";
        return Err(Error::corruption(&path, 0, what, format!("{expected:?}"), format!("{meta:?}")));
    }
    Ok(Branch::buffered(context, meta, Buffered::new(file, origins)))
}

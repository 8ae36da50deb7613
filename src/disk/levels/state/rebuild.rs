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

impl Item {
    /// An entry of a parent.
    fn of(parent: &Branch, at: u64, entry: EntryRef<'_>) -> Self {
        let EntryRef { key, number, kind, value } = entry;
        let origin = Origin { parent: parent.meta().file, at };
        Self { key: key.to_vec(), number, kind, value: value.to_vec(), origin }
    }
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

/// For repair: of a buffered branch, some of whose parents are damaged, what can still be read, in entry order, is passed to
/// `keep`. An entry counts only if its place in its parent is certain, which is so from the start of the parent to the
/// damage, and from the end back to it. Returns the damage of each parent with how many entries it has cost.
pub fn salvage(
    context: &Arc<BranchContext>,
    state: &ManifestState,
    buffered: &BufferedMeta,
    keep: &mut dyn FnMut(EntryRef<'_>) -> Result<()>,
) -> Result<Vec<(FileNumber, u64, Error)>> {
    let (mut items, mut damage) = (Vec::new(), Vec::new());
    for of_parent in &buffered.parents {
        let number = of_parent.parent;
        let Some(meta) = state.branches.get(&number) else { return Err(inconsistent(context, number)) };
        let parent = Branch::new(context, meta.clone());
        let places: Vec<u64> = of_parent.places().collect();
        let before = items.len();
        let Err(error) = read_forward(&parent, &places, &mut items) else { continue };
        if !error.is_damage() {
            return Err(error);
        }
        let rest = &places[items.len() - before..];
        if let Err(error) = read_backward(&parent, rest, &mut items)
            && !error.is_damage()
        {
            return Err(error);
        }
        damage.push((number, (places.len() - (items.len() - before)) as u64, error));
    }
    sort(&mut items);
    for Item { key, number, kind, value, .. } in &items {
        keep(EntryRef { key, number: *number, kind: *kind, value })?;
    }
    Ok(damage)
}

fn sort(items: &mut [Item]) {
    items.sort_unstable_by(|one, other| one.key.cmp(&other.key).then(other.number.cmp(&one.number)));
}

fn inconsistent(context: &BranchContext, parent: FileNumber) -> Error {
    let path = context.storage.path_of(MANIFEST_NAME);
    Error::corruption(&path, 0, "parent of a buffered branch", "a branch file", format!("no branch {parent}"))
}

/// Adds the entries of a parent at these places, which ascend, to those found for each branch.
fn read(parent: &Arc<Branch>, places: &[(u64, FileNumber)], found: &mut BTreeMap<FileNumber, Vec<Item>>) -> Result<()> {
    let mut items = Vec::with_capacity(places.len());
    read_forward(parent, &places.iter().map(|(place, _)| *place).collect::<Vec<_>>(), &mut items)?;
    for ((_, file), item) in places.iter().zip(items) {
        found.entry(*file).or_default().push(item);
    }
    Ok(())
}

/// Adds the entries of a parent at these places, which ascend. After an error, those before it.
fn read_forward(parent: &Arc<Branch>, places: &[u64], items: &mut Vec<Item>) -> Result<()> {
    let mut cursor = parent.cursor(Purpose::Compaction);
    cursor.seek_first()?;
    let mut at = 0;
    for place in places {
        while at < *place && cursor.valid() {
            cursor.next()?;
            at += 1;
        }
        if !cursor.valid() {
            return Err(parent.lacks_entries(*place + 1, at));
        }
        items.push(Item::of(parent, at, cursor.entry()));
    }
    Ok(())
}

/// The same from the last place and from the end of the parent on, back to the first.
fn read_backward(parent: &Arc<Branch>, places: &[u64], items: &mut Vec<Item>) -> Result<()> {
    let mut cursor = parent.cursor(Purpose::Compaction);
    cursor.seek_last()?;
    let mut at = parent.meta().entries;
    for place in places.iter().rev() {
        while at > *place + 1 && cursor.valid() {
            cursor.prev()?;
            at -= 1;
        }
        if !cursor.valid() {
            return Err(parent.lacks_entries(parent.meta().entries, parent.meta().entries - at));
        }
        items.push(Item::of(parent, *place, cursor.entry()));
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
    sort(&mut items);
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

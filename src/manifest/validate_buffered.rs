//! Checks of the buffered branches of an edit and of a state. Pure. The cost is that of the edit, plus one pass over all
//! buffered branches if a file is dropped or joins a run, and over all runs if a buffered branch is added.

use super::ManifestState;
use super::validate::{Checked, check_branch, require};
use crate::format::manifest_edit::{BranchMeta, BufferedMeta, ManifestEdit};
use crate::util::FileNumber;
use crate::util::planted::planted;
use std::collections::{BTreeMap, BTreeSet};

impl ManifestState {
    /// Checks the buffered branches that the edit adds and drops: the entries of the new ones are in files that stay, and
    /// no file is dropped on which one depends.
    pub(super) fn buffered_fit(&self, edit: &ManifestEdit) -> Checked {
        let dropped: BTreeSet<FileNumber> = edit.branches_dropped.iter().copied().collect();
        let new: BTreeMap<FileNumber, &BranchMeta> =
            edit.branches_added.iter().map(|branch| (branch.file, branch)).collect();
        let file = |number: &FileNumber| {
            let known = self.branches.get(number).filter(|_| !dropped.contains(number));
            new.get(number).copied().or(known)
        };
        let mut added = BTreeSet::new();
        for buffered in &edit.buffered_added {
            let number = buffered.meta.file;
            let is_new = self.branch_of_run(&number).is_none() && !new.contains_key(&number) && added.insert(number);
            require!(is_new, "branch {number} already exists");
            check_items(buffered, file)?;
        }
        self.no_run_has_parents(edit)?;
        let mut gone = BTreeSet::new();
        for number in &edit.buffered_dropped {
            let known = self.buffered.contains_key(number) && gone.insert(*number);
            require!(known, "dropped buffered branch {number} does not exist");
        }
        if planted!(!dropped.is_empty(), Bug::LostParent => false) {
            for (number, buffered) in self.buffered.iter().filter(|(number, _)| !gone.contains(number)) {
                let lost = buffered.parents.iter().find(|items| dropped.contains(&items.parent));
                if let Some(lost) = lost {
                    return Err(format!(
                        "branch {} is dropped, but the buffered branch {number} needs it",
                        lost.parent
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that the files on which buffered branches depend are in no run. *Otherwise:* reads find their entries twice,
    /// dead ones included. Only new branches and what runs gain can break it.
    fn no_run_has_parents(&self, edit: &ManifestEdit) -> Checked {
        let parents = |buffered: &BufferedMeta| buffered.parents.iter().map(|items| items.parent).collect::<Vec<_>>();
        let new: BTreeSet<FileNumber> = edit.buffered_added.iter().flat_map(parents).collect();
        let gained: BTreeSet<FileNumber> = edit.runs.iter().flat_map(|change| change.added.iter().copied()).collect();
        let lost: BTreeSet<FileNumber> = edit.runs.iter().flat_map(|change| change.dropped.iter().copied()).collect();
        let mut found = gained.intersection(&new).next().copied();
        if !new.is_empty() {
            let kept = self.runs.values().flat_map(|run| &run.branches).filter(|file| !lost.contains(file));
            found = found.or(kept.copied().find(|file| new.contains(file)));
        }
        if !gained.is_empty() {
            let kept = self.buffered.iter().filter(|(number, _)| !edit.buffered_dropped.contains(number));
            found = found.or(kept.flat_map(|(_, buffered)| parents(buffered)).find(|file| gained.contains(file)));
        }
        found.map_or(Ok(()), |file| Err(format!("branch {file} is in a run, and a buffered branch has entries of it")))
    }

    /// Checks the buffered branches of the whole state. Each is in a run (of `branches`, what nodes and runs refer to), and
    /// the files on which they depend are in none. Adds these to `branches`.
    pub(super) fn check_buffered(&self, branches: &mut BTreeSet<FileNumber>) -> Checked {
        for (number, buffered) in &self.buffered {
            require!(*number == buffered.meta.file, "the buffered branch {number} is listed under another number");
            require!(!self.branches.contains_key(number), "branch {number} is both a file and in memory");
            require!(branches.contains(number), "the buffered branch {number} is in no run");
            require!(*number < self.next_file, "branch {number} is not below the next file number {}", self.next_file);
            check_items(buffered, |file| self.branches.get(file))?;
        }
        for parent in self.parents() {
            require!(branches.insert(parent), "branch {parent} is in a run, and a buffered branch has entries of it");
        }
        Ok(())
    }
}

/// Checks a buffered branch: its entries are entries of files, each parent is named once, and none is newer than it.
fn check_items<'a>(buffered: &BufferedMeta, file: impl Fn(&FileNumber) -> Option<&'a BranchMeta>) -> Checked {
    let number = buffered.meta.file;
    check_branch(&buffered.meta)?;
    require!(buffered.meta.range_tombstones == 0, "the buffered branch {number} has range tombstones");
    let mut count = 0u64;
    let mut last = None;
    for items in &buffered.parents {
        let parent = items.parent;
        require!(last.is_none_or(|last| last < parent), "the parents of the buffered branch {number} are out of order");
        last = Some(parent);
        let Some(meta) = file(&parent) else {
            return Err(format!("the buffered branch {number} has entries of branch {parent}, which is no file"));
        };
        let runs = items.runs.iter().enumerate();
        let is_shortest = runs.clone().all(|(at, run)| run.count > 0 && (at == 0 || run.skipped > 0));
        require!(is_shortest && !items.runs.is_empty(), "entries of branch {parent} in an invalid form");
        let (end, entries) = (items.end(), meta.entries);
        require!(end <= entries, "the buffered branch {number} has entry {end} of {entries} of branch {parent}");
        count = count.saturating_add(items.count());
    }
    let entries = buffered.meta.entries;
    require!(entries > 0, "the buffered branch {number} has no entries");
    require!(count == entries, "the buffered branch {number} has {count} of its {entries} entries");
    Ok(())
}

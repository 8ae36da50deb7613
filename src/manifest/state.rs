//! The result of all edits of a manifest. Plain data; its owner may use it from any thread.
//!
//! Invariants:
//! 1. A failed `apply` leaves the state as it was.
//! 2. The snapshot edit, applied to an empty state, gives the same state (except `edits`, which the record contains).
//! 3. `recovered` keeps its last entry for ever: the next log epoch and the next number follow from it, even when its
//!    log is no longer recorded (`docs/recovery.md`, R6).

use crate::format::manifest_edit::{BranchMeta, BufferedMeta, BundleId, Identity, KeyspaceRecord, LogRecovered};
use crate::format::manifest_edit::{LevelsShape, ManifestEdit, MapletMeta, NodeId, NodeImage, RunChange, RunId};
use crate::util::planted::planted;
use crate::util::{FileNumber, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};

/// The store's state according to the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestState {
    /// From the header.
    pub identity: Identity,
    /// Live branch files: of nodes and runs, and the parents of buffered branches.
    pub branches: BTreeMap<FileNumber, BranchMeta>,
    /// Branches of runs that are in memory only.
    pub buffered: BTreeMap<FileNumber, BufferedMeta>,
    /// Live maplet files.
    pub maplets: BTreeMap<FileNumber, MapletMeta>,
    /// Live trunk nodes.
    pub nodes: BTreeMap<NodeId, NodeImage>,
    /// The trunk's root; `None` before the first edit.
    pub root: Option<NodeId>,
    /// Every number up to this one is in branch files.
    pub incorporated: SequenceNumber,
    /// Recoveries of log epochs that are still recorded, oldest first, and always the newest one.
    pub recovered: Vec<LogRecovered>,
    /// Log epochs below this one are no longer recorded.
    pub log_epochs_from: u64,
    /// Log segments that may contain records.
    pub log_segments: BTreeSet<FileNumber>,
    /// Every number up to this one was durable when the last edit with this field was written. The log's marks contain
    /// it, too, but they are in the log, and an older copy of a segment has older marks.
    pub log_synced: SequenceNumber,
    /// The number of the last ingest; 0 if there was none.
    pub ingested: SequenceNumber,
    /// Keyspaces by id.
    pub keyspaces: Vec<KeyspaceRecord>,
    /// File numbers from this one on were never used by a live file.
    pub next_file: FileNumber,
    /// Node numbers from this one on are unused.
    pub next_node: NodeId,
    /// Bundle numbers from this one on are unused.
    pub next_bundle: BundleId,
    /// Log segments with lower file numbers contain nothing that is needed.
    pub log_files_from: FileNumber,
    /// The size from which all sizes of the tree follow, bytes; `None` if no edit has recorded it.
    pub branch_bytes: Option<u64>,
    /// The shape of the levels; `None` if the store has a trunk.
    pub levels: Option<LevelsShape>,
    /// The runs of the levels.
    pub runs: BTreeMap<RunId, RunState>,
    /// Run numbers from this one on are unused.
    pub next_run: RunId,
    /// Bytes that users have written, as far as they were incorporated.
    pub user_bytes: u64,
    /// Bytes that were rewritten in quiet times.
    pub quiet_bytes: u64,
    /// The number of the last edit; 0 before the first.
    pub edits: u64,
}

/// A run of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunState {
    /// Its level.
    pub level: u32,
    /// Its branch files in key order, at least one.
    pub branches: Vec<FileNumber>,
}

impl ManifestState {
    /// Applies `edit` completely, or returns its inconsistency and changes nothing. Checks what the edit touches;
    /// `check` looks at the whole tree. Does not count the edit: numbers belong to the file's records.
    pub fn apply(&mut self, edit: &ManifestEdit) -> Result<(), String> {
        self.validate(edit)?;
        self.install(edit);
        Ok(())
    }

    /// Applies an edit that `validate` has accepted.
    pub(super) fn install(&mut self, edit: &ManifestEdit) {
        self.install_runs(edit);
        for branch in &edit.branches_added {
            self.next_file.0 = self.next_file.0.max(branch.file.0 + 1);
            self.branches.insert(branch.file, branch.clone());
        }
        for file in &edit.branches_dropped {
            self.branches.remove(file);
        }
        for buffered in &edit.buffered_added {
            let file = buffered.meta.file;
            self.next_file.0 = self.next_file.0.max(file.0 + 1);
            self.buffered.insert(file, buffered.clone());
        }
        planted!(Bug::ReplayByRange => { self.remove_buffered_ranges(&edit.buffered_dropped); });
        for file in &edit.buffered_dropped {
            self.buffered.remove(file);
        }
        for maplet in &edit.maplets_added {
            self.next_file.0 = self.next_file.0.max(maplet.file.0 + 1);
            self.maplets.insert(maplet.file, maplet.clone());
        }
        for file in &edit.maplets_dropped {
            self.maplets.remove(file);
        }
        for node in &edit.nodes {
            self.next_node.0 = self.next_node.0.max(node.id.0 + 1);
            for bundle in &node.bundles {
                self.next_bundle.0 = self.next_bundle.0.max(bundle.id.0 + 1);
            }
            self.nodes.insert(node.id, node.clone());
        }
        for node in &edit.nodes_dropped {
            self.nodes.remove(node);
        }
        self.root = edit.root.or(self.root);
        self.incorporated = edit.incorporated.unwrap_or(self.incorporated);
        self.recovered.extend(edit.log_recovered_earlier.iter().cloned());
        self.recovered.extend(edit.log_recovered.iter().cloned());
        self.log_epochs_from = edit.log_epochs_from.unwrap_or(self.log_epochs_from);
        self.drop_old_recoveries();
        for keyspace in &edit.keyspaces {
            match self.keyspaces.binary_search_by_key(&keyspace.id, |known| known.id) {
                Ok(at) => self.keyspaces[at] = keyspace.clone(),
                Err(at) => self.keyspaces.insert(at, keyspace.clone()),
            }
        }
        for segment in &edit.log_segments_added {
            self.next_file.0 = self.next_file.0.max(segment.0 + 1);
            self.log_segments.insert(*segment);
        }
        for segment in &edit.log_segments_dropped {
            self.log_segments.remove(segment);
        }
        self.log_synced = self.log_synced.max(edit.log_synced.unwrap_or_default());
        self.ingested = self.ingested.max(edit.ingested.unwrap_or_default());
        self.next_file = self.next_file.max(edit.next_file.unwrap_or_default());
        self.next_node = self.next_node.max(edit.next_node.unwrap_or_default());
        self.next_bundle = self.next_bundle.max(edit.next_bundle.unwrap_or_default());
        self.log_files_from = self.log_files_from.max(edit.log_files_from.unwrap_or_default());
        self.branch_bytes = self.branch_bytes.or(edit.branch_bytes);
        self.levels = self.levels.or(edit.levels);
        self.next_run = self.next_run.max(edit.next_run.unwrap_or_default());
        self.user_bytes = edit.user_bytes.unwrap_or(self.user_bytes);
        self.quiet_bytes = edit.quiet_bytes.unwrap_or(self.quiet_bytes);
    }

    /// Before the branches that the edit drops are removed.
    fn install_runs(&mut self, edit: &ManifestEdit) {
        for change in &edit.runs {
            self.next_run.0 = self.next_run.0.max(change.id.0 + 1);
            let branches = self.changed_run(edit, change).iter().map(|meta| meta.file).collect::<Vec<_>>();
            if branches.is_empty() {
                self.runs.remove(&change.id);
            } else {
                self.runs.insert(change.id, RunState { level: change.level, branches });
            }
        }
    }

    /// The branches of a run after a change of it, in key order. Files that do not exist are left out.
    pub(super) fn changed_run<'a>(&'a self, edit: &'a ManifestEdit, change: &RunChange) -> Vec<&'a BranchMeta> {
        let before = self.runs.get(&change.id).map_or(&[][..], |run| &run.branches);
        let dropped: BTreeSet<&FileNumber> = change.dropped.iter().collect();
        let kept = before.iter().filter(|file| !dropped.contains(file));
        let added = edit.branches_added.iter().chain(edit.buffered_added.iter().map(|buffered| &buffered.meta));
        let new: BTreeMap<FileNumber, &BranchMeta> = added.map(|branch| (branch.file, branch)).collect();
        let meta = |file: &FileNumber| new.get(file).copied().or_else(|| self.branch_of_run(file));
        let mut branches: Vec<&BranchMeta> = kept.chain(&change.added).filter_map(meta).collect();
        branches.sort_by(|one, other| one.key_min.cmp(&other.key_min));
        branches
    }

    /// Removes every buffered branch that meets the key range of one of these.
    #[cfg(feature = "planted-bugs")]
    fn remove_buffered_ranges(&mut self, dropped: &[FileNumber]) {
        let gone: Vec<BranchMeta> =
            dropped.iter().filter_map(|file| self.buffered.get(file)).map(|buffered| buffered.meta.clone()).collect();
        let meets = |one: &BranchMeta, other: &BranchMeta| one.key_min <= other.key_max && other.key_min <= one.key_max;
        self.buffered.retain(|_, buffered| !gone.iter().any(|gone| meets(gone, &buffered.meta)));
    }

    /// A branch that may be in a run, whether it is on the disk or in memory only.
    pub fn branch_of_run(&self, file: &FileNumber) -> Option<&BranchMeta> {
        self.branches.get(file).or_else(|| Some(&self.buffered.get(file)?.meta))
    }

    /// The branch files on which buffered branches depend.
    pub fn parents(&self) -> BTreeSet<FileNumber> {
        let parents = self.buffered.values().flat_map(|buffered| &buffered.parents);
        parents.map(|items| items.parent).collect()
    }

    fn drop_old_recoveries(&mut self) {
        let last = self.recovered.len().saturating_sub(1);
        let forgotten = self.recovered[..last].partition_point(|known| known.epoch < self.log_epochs_from);
        self.recovered.drain(..forgotten);
    }

    /// The one edit that turns an empty state into this one.
    pub fn snapshot_edit(&self) -> ManifestEdit {
        let (last, earlier) = match self.recovered.split_last() {
            Some((last, earlier)) => (Some(last.clone()), earlier.to_vec()),
            None => (None, Vec::new()),
        };
        ManifestEdit {
            branches_added: self.branches.values().cloned().collect(),
            nodes: self.nodes.values().cloned().collect(),
            root: self.root,
            incorporated: Some(self.incorporated),
            log_recovered_earlier: earlier,
            log_recovered: last,
            log_epochs_from: Some(self.log_epochs_from),
            keyspaces: self.keyspaces.clone(),
            next_file: Some(self.next_file),
            next_node: Some(self.next_node),
            next_bundle: Some(self.next_bundle),
            log_files_from: (self.log_files_from.0 > 0).then_some(self.log_files_from),
            log_segments_added: self.log_segments.iter().copied().collect(),
            log_synced: (self.log_synced.0 > 0).then_some(self.log_synced),
            ingested: (self.ingested.0 > 0).then_some(self.ingested),
            maplets_added: self.maplets.values().cloned().collect(),
            branch_bytes: self.branch_bytes,
            levels: self.levels,
            runs: self.runs.iter().map(|(id, run)| run.added(*id)).collect(),
            next_run: (self.next_run.0 > 0).then_some(self.next_run),
            user_bytes: (self.user_bytes > 0).then_some(self.user_bytes),
            quiet_bytes: (self.quiet_bytes > 0).then_some(self.quiet_bytes),
            buffered_added: self.buffered.values().cloned().collect(),
            ..ManifestEdit::default()
        }
    }
}

impl RunState {
    /// The change that makes this run.
    fn added(&self, id: RunId) -> RunChange {
        RunChange { id, level: self.level, dropped: Vec::new(), added: self.branches.clone() }
    }
}

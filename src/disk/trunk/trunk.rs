//! The trunk: what makes new trees out of old ones. Any thread; `apply` under the caller's edit mutex.
//!
//! Readers use `Tree` alone. See `job.rs` for the life of a job.

use super::apply::{self, Applied};
use super::claims::{Claims, Ticket};
use super::compact::{FromMemory, Pass};
use super::cover::can_cover;
use super::draft::Draft;
use super::garbage::Garbage;
use super::hollow::{Cuts, Hollow};
use super::job::{self, Change, Job, NewMaplet, Outcome, Place};
use super::join::Joined;
use super::judge::{self, Verdict};
use super::kept::Sizes;
use super::node::{Key, Node};
use super::open;
use super::options::TrunkOptions;
use super::policy::{self, Choice};
use super::redundancy::Redundancy;
use super::reshape::{self, RequestedRange};
use super::run::Run;
use super::split_keys;
use super::squeeze::{self, RewriteLive};
use super::starved::Starved;
use super::statistics::{Counters, Written};
use super::tree::Tree;
use super::verify;
use super::watch::Progress;
use crate::branch::{Branch, BranchContext, Maplet, MapletPlan};
use crate::filter::maplet::COLUMNS_MAX;
use crate::format::manifest_edit::{BundleId, ManifestEdit, NodeId};
use crate::manifest::ManifestState;
use crate::merge::Retention;
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::util::{FileNumber, Result, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// The id of a store's first node.
const FIRST_NODE: NodeId = NodeId(1);

/// What found no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unfit {
    /// The node as it is; its parts may.
    Whole,
    /// It has no parts.
    Parts,
}

/// When a leaf was looked at. There is nothing new to see until a newer bundle comes, or the snapshot goes.
#[derive(Clone, Copy, Debug)]
struct Judged {
    newest: BundleId,
    /// The oldest snapshot of the time, where it was left as it is for snapshots' sake.
    held_for: Option<SequenceNumber>,
}

/// See the module.
#[derive(Debug)]
pub struct Trunk {
    context: Arc<BranchContext>,
    options: Arc<TrunkOptions>,
    next_node: AtomicU64,
    next_bundle: AtomicU64,
    claims: Arc<Claims>,
    /// Leaves that were looked at and left as they are.
    judged: Mutex<HashMap<NodeId, Judged>>,
    /// Nodes whose merging found no room on a full disk.
    unfit: Mutex<HashMap<NodeId, Unfit>>,
    /// Files whose squeezing did; or gained nothing, with what was live of them.
    unfit_files: Mutex<HashMap<FileNumber, Option<usize>>>,
    starved: Starved,
    garbage: Garbage,
    /// Maplets that the manifest names and no slot has use for: the next edit drops them.
    unused_maplets: Mutex<Vec<Arc<Maplet>>>,
    counters: Counters,
}

impl Trunk {
    /// The edit that gives a new store its first tree: one empty leaf.
    pub fn create_edit() -> ManifestEdit {
        let leaf = Draft::leaf(FIRST_NODE, Arc::from([]), None).finish(&TrunkOptions::new(0));
        ManifestEdit {
            nodes: vec![leaf.image()],
            root: Some(leaf.id),
            next_node: Some(NodeId(FIRST_NODE.0 + 1)),
            next_bundle: Some(BundleId(1)),
            ..ManifestEdit::default()
        }
    }

    /// The trunk and its tree as the manifest has them; those of `create_edit` where it has none yet.
    pub fn open(
        context: Arc<BranchContext>,
        options: TrunkOptions,
        state: &ManifestState,
    ) -> Result<(Trunk, Arc<Tree>)> {
        let options = Arc::new(options);
        let maplets = state.maplets.values().map(|meta| Maplet::new(&context, meta.clone()));
        let mut maplets: Vec<Arc<Maplet>> = maplets.collect();
        let root = match state.root {
            Some(root) => open::node(&context, &options, state, root, &maplets)?,
            None => Draft::leaf(FIRST_NODE, Arc::from([]), None).finish(&options),
        };
        let tree = Tree::new(root, Arc::clone(&options), Arc::default());
        let used: HashSet<FileNumber> = verify::maplets(&tree).iter().map(|maplet| maplet.meta().file).collect();
        maplets.retain(|maplet| !used.contains(&maplet.meta().file));
        let trunk = Self {
            context,
            options,
            next_node: AtomicU64::new(state.next_node.0.max(FIRST_NODE.0 + 1)),
            next_bundle: AtomicU64::new(state.next_bundle.0.max(1)),
            claims: Arc::default(),
            judged: Mutex::default(),
            unfit: Mutex::default(),
            unfit_files: Mutex::default(),
            starved: Starved::default(),
            garbage: Garbage::default(),
            unused_maplets: Mutex::new(maplets),
            counters: Counters::default(),
        };
        Ok((trunk, tree))
    }

    /// Writes what comes from memory, and is newer than all the tree, as part files cut at the root's pivots. Heavy I/O, no lock.
    /// Applied in the order of `through`. `None` where the watch ended it: then nothing was done.
    pub fn incorporate(
        &self,
        tree: &Tree,
        source: FromMemory<'_>,
        retention: &Retention,
        watch: &dyn Progress,
    ) -> Result<Option<Outcome>> {
        let through = source.through;
        let Some(parts) = self.pass(retention, watch).incorporate(tree.root(), source)? else { return Ok(None) };
        self.counters.incorporated(parts.load());
        Ok(Some(Outcome { change: Change::Incorporate { parts, through }, ticket: None }))
    }

    /// The most urgent work that no running job is about; `None` where there is nothing to do. A pure function of the tree,
    /// the running jobs, and which leaves were judged and which files written under which snapshots; `retention` are those of now.
    pub fn pick(&self, tree: &Tree, retention: &Retention) -> Option<Job> {
        let mut ticket = None;
        let is_released = |leaf: &Node| {
            let oldest = leaf.bundles.first().filter(|bundle| bundle.is_compacted());
            let is_in = |branch: &Arc<Branch>| self.garbage.is_in(branch, retention, SequenceNumber::MAX);
            oldest.is_some_and(|oldest| oldest.branches.iter().any(is_in))
        };
        let accepts = |choice: &Choice| self.is_open(choice, retention) && self.claim(choice, &mut ticket);
        let choice = policy::choose(tree, &is_released, accepts)?;
        ticket.map(|ticket| Job { choice, ticket, for_scans: false })
    }

    /// Work after which a key range is as it is wanted; a version that `retention` has no use for is garbage.
    pub fn pick_requested(&self, tree: &Tree, wanted: &RequestedRange, retention: &Retention) -> Option<Job> {
        let mut ticket = None;
        let has_garbage = |branch: &Branch| self.garbage.is_in(branch, retention, wanted.through);
        let accepts = |choice: &Choice| self.is_open(choice, retention) && self.claim(choice, &mut ticket);
        let choice = reshape::choose(tree, wanted, &has_garbage, accepts)?;
        ticket.map(|ticket| Job { choice, ticket, for_scans: false })
    }

    /// For when `pick` finds nothing: work after which scans no longer pay for runs, where they have paid as much as it costs.
    pub fn pick_for_scans(&self, tree: &Tree) -> Option<Job> {
        let mut ticket = None;
        let accepts = |choice: &Choice| !self.is_starved(choice) && self.claim(choice, &mut ticket);
        let choice = policy::choose_for_scans(tree, accepts)?;
        ticket.map(|ticket| Job { choice, ticket, for_scans: true })
    }

    /// About how many bytes are still to be read until a key range is as it is wanted; `None` where it is, whatever jobs run.
    pub fn remaining(&self, tree: &Tree, wanted: &RequestedRange, retention: &Retention) -> Option<u64> {
        let has_garbage = |branch: &Branch| self.garbage.is_in(branch, retention, wanted.through);
        let is_work = |choice: &Choice| !self.is_judged(choice, retention);
        reshape::choose(tree, wanted, &has_garbage, is_work)?;
        Some(reshape::remaining(tree, wanted, &has_garbage))
    }

    /// Forgets what it knows of files and nodes that the tree does not have.
    pub fn forget_unreferenced(&self, tree: &Tree) {
        let (mut files, mut nodes) = (BTreeSet::new(), HashSet::new());
        tree.visit(&mut |node| {
            files.extend(node.branches().map(|branch| branch.meta().file));
            nodes.insert(node.id);
        });
        self.judged.lock().retain(|node, _| nodes.contains(node));
        self.unfit_files.lock().retain(|file, _| files.contains(file));
        self.garbage.forget_all_but(&files);
    }

    /// For a full disk: work that frees space, densest in tombstones first. Each node is rewritten once; what `note_failed_on_full_disk` was
    /// told of is left out.
    pub fn pick_to_free_space(&self, tree: &Tree) -> Option<Job> {
        let mut ticket = None;
        let choice = policy::choose_reclaim(tree, |choice| !self.is_unfit(choice) && self.claim(choice, &mut ticket))?;
        ticket.map(|ticket| Job { choice, ticket, for_scans: false })
    }

    /// The job found no room for its result, or the manifest none for its edit.
    pub fn note_failed_on_full_disk(&self, job: &Job) {
        let (node, what) = match &job.choice {
            Choice::Part(leaf) => (leaf, Unfit::Parts),
            Choice::RewriteLive(file) => {
                self.unfit_files.lock().insert(file.branch.meta().file, None);
                return;
            }
            Choice::Map(..) | Choice::Join(..) => return,
            Choice::Merge(node, _) | Choice::Flush(node, _) | Choice::SampleLeaf(node) => (node, Unfit::Whole),
        };
        self.unfit.lock().insert(node.id, what);
    }

    /// The job found no room, and the disk was not known to be full: it is not picked again before there is enough (`starved.rs`).
    pub fn note_found_no_space(&self, job: &Job) {
        let scope = job.scope();
        self.starved.note(scope.node, scope.load.bytes);
    }

    /// Whether jobs wait for `release_backoff`.
    pub fn is_backed_off(&self) -> bool {
        self.starved.is_any()
    }

    /// So many bytes are free: jobs that want no more may be picked again.
    pub fn release_backoff(&self, available: u64) {
        self.starved.feed(available);
    }

    fn is_starved(&self, choice: &Choice) -> bool {
        match choice {
            Choice::Merge(node, _) | Choice::SampleLeaf(node) | Choice::Map(node, _) => self.starved.waits(node.id),
            Choice::Join(parent, range) => self.starved.waits(parent.pivots[range.start].child.id),
            // They need next to nothing.
            Choice::Flush(..) | Choice::Part(_) | Choice::RewriteLive(_) => false,
        }
    }

    /// There is more room than before.
    pub fn clear_failures(&self) {
        self.unfit.lock().clear();
        self.unfit_files.lock().retain(|_, live| live.is_some());
    }

    fn is_unfit(&self, choice: &Choice) -> bool {
        match choice {
            Choice::Merge(node, _) | Choice::Flush(node, _) | Choice::SampleLeaf(node) => {
                self.unfit.lock().contains_key(&node.id)
            }
            Choice::Map(..) | Choice::Join(..) => false,
            Choice::RewriteLive(file) => {
                let known = self.unfit_files.lock().get(&file.branch.meta().file).copied();
                known.is_some_and(|live| live.is_none_or(|live| live == file.live_in()))
            }
            Choice::Part(leaf) => self.unfit.lock().get(&leaf.id) != Some(&Unfit::Whole),
        }
    }

    /// Splits a leaf by reference, if it can be split.
    fn part(&self, leaf: &Node) -> Result<Change> {
        let keys = split_keys::choose(leaf, self.options.fanout)?;
        if keys.is_empty() {
            self.unfit.lock().insert(leaf.id, Unfit::Parts);
            return Ok(Change::Nothing);
        }
        // One of the parts has the leaf's id.
        self.unfit.lock().remove(&leaf.id);
        split(leaf, keys)
    }

    /// Claims what the choice is about, unless a running job has claimed it.
    fn claim(&self, choice: &Choice, ticket: &mut Option<Arc<Ticket>>) -> bool {
        *ticket = self.claims.take(job::claim(choice));
        ticket.is_some()
    }

    /// Whether the choice may be made: it finds room, and does not come to nothing again.
    fn is_open(&self, choice: &Choice, retention: &Retention) -> bool {
        !self.is_starved(choice) && !self.is_judged(choice, retention)
    }

    /// Whether the choice is to look at a leaf where there is nothing new to see.
    fn is_judged(&self, choice: &Choice, retention: &Retention) -> bool {
        let Choice::SampleLeaf(leaf) = choice else { return false };
        let Some(judged) = self.judged.lock().get(&leaf.id).copied() else { return false };
        leaf.bundles.last().is_some_and(|newest| newest.id == judged.newest)
            && judged.held_for.is_none_or(|snapshot| retention.has(snapshot))
    }

    fn note_judged(&self, leaf: &Node, held_for: Option<SequenceNumber>) {
        if let Some(newest) = leaf.bundles.last() {
            self.judged.lock().insert(leaf.id, Judged { newest: newest.id, held_for });
        }
    }

    /// Does a job's I/O. Heavy, no lock; trivially cheap for a flush. Where the watch ends it, its
    /// outcome changes nothing.
    pub fn run(&self, job: &Job, tree: &Arc<Tree>, retention: &Retention, watch: &dyn Progress) -> Result<Outcome> {
        let pass = self.pass(retention, watch);
        let change = match &job.choice {
            Choice::Flush(node, at) => flush(node, *at)?,
            Choice::Merge(node, range) => self.merge(&pass, node, range.clone(), &self.options.reused_bytes())?,
            Choice::Part(leaf) => self.part(leaf)?,
            Choice::RewriteLive(file) => self.squeeze(&pass, file)?,
            Choice::Map(node, at) => self.map(node, *at, watch)?,
            Choice::Join(parent, range) => self.join(&pass, parent, range.clone())?,
            Choice::SampleLeaf(leaf) => match judge::judge(&pass, leaf, self.options.leaf_target(tree.bytes()))? {
                Verdict::Split(keys) => {
                    self.counters.split();
                    split(leaf, keys)?
                }
                // Large files may be why it cannot be split.
                Verdict::Rewrite => {
                    let sizes = *self.options.reused_bytes().start()..=self.options.part_bytes;
                    self.merge(&pass, leaf, 0..leaf.bundles.len(), &sizes)?
                }
                Verdict::Leave => {
                    self.note_judged(leaf, None);
                    Change::Nothing
                }
                Verdict::Hold => {
                    self.note_judged(leaf, retention.oldest());
                    Change::Nothing
                }
            },
        };
        if job.for_scans
            && let Change::Merge { merged, .. } = &change
        {
            self.counters.compacted_for_scans(merged.parts.load());
        }
        self.counters.job_done();
        Ok(Outcome { change, ticket: Some(Arc::clone(&job.ticket)) })
    }

    /// Writes a file anew without what is dead in it.
    fn squeeze(&self, pass: &Pass<'_>, file: &RewriteLive) -> Result<Change> {
        let Some(parts) = pass.squeeze(file)? else { return Ok(Change::Nothing) };
        self.counters.compacted(parts.load());
        let meta = file.branch.meta();
        if parts.load().bytes + squeeze::gain_min(meta.bytes) > meta.bytes {
            self.unfit_files.lock().insert(meta.file, Some(file.live_in()));
            return Ok(Change::Nothing);
        }
        self.counters.squeezed();
        Ok(Change::RewriteLive { branch: Arc::clone(&file.branch), parts })
    }

    /// Builds the maplet of a slot.
    fn map(&self, node: &Node, at: usize, watch: &dyn Progress) -> Result<Change> {
        let (slot, upper) = (&node.slots[at], node.slot_upper(at).cloned());
        let covered = |run: &Arc<Run>| run.parts().iter().filter(|part| can_cover(part)).cloned().collect();
        let known: Vec<_> = slot.cover.maplets().cloned().collect();
        let plan = MapletPlan {
            lower: node.slot_lower(at),
            upper: upper.as_deref(),
            columns: slot.runs.iter().take(COLUMNS_MAX).map(covered).collect(),
            older: &known,
        };
        let Some(maplet) = plan.build(&self.context, &|entries, written| watch.advance(entries, written))? else {
            return Ok(Change::Nothing);
        };
        self.counters.mapped(maplet.bytes());
        let lower = Arc::clone(node.slot_lower(at));
        let place = Place { height: node.height, lower, upper };
        Ok(Change::Map { place, maplet: NewMaplet::new(maplet) })
    }

    /// See `unused_maplets`.
    pub(super) fn take_unused_maplets(&self) -> BTreeMap<FileNumber, Arc<Maplet>> {
        let unused = std::mem::take(&mut *self.unused_maplets.lock());
        unused.into_iter().map(|maplet| (maplet.meta().file, maplet)).collect()
    }

    fn merge(&self, pass: &Pass<'_>, node: &Node, range: Range<usize>, sizes: &Sizes) -> Result<Change> {
        let bundles = job::bundle_ids(node, range.clone());
        let is_bottom = node.is_leaf() && range.start == 0;
        let is_whole = is_bottom && range.end == node.bundles.len();
        let Some(merged) = pass.merge(node, range, sizes)? else { return Ok(Change::Nothing) };
        self.counters.compacted(merged.parts.load());
        self.counters.kept(merged.reused_bytes());
        if is_bottom {
            merged.parts.iter().for_each(|branch| self.garbage.note_written(branch, pass.retention));
        }
        let garbage = node.active.entries.saturating_sub(merged.entries());
        let measured = if is_whole { Redundancy::measured(policy::newer(node).entries, garbage) } else { None };
        // What it frees may do for others.
        self.clear_failures();
        self.starved.forget(node.id);
        Ok(Change::Merge { place: Place::of(node), bundles, merged, measured })
    }

    /// Makes what one node in the place of several children is to hold.
    fn join(&self, pass: &Pass<'_>, parent: &Node, range: Range<usize>) -> Result<Change> {
        let place = Place {
            height: parent.height,
            lower: Arc::clone(parent.slot_lower(range.start)),
            upper: parent.slot_upper(range.end - 1).cloned(),
        };
        let children: Vec<Arc<Node>> = parent.pivots[range].iter().map(|pivot| Arc::clone(&pivot.child)).collect();
        let run = if parent.height == 1 {
            let Some(run) = pass.join(&children)? else { return Ok(Change::Nothing) };
            self.counters.compacted(run.parts.load());
            self.counters.kept(run.reused_bytes());
            run.parts.iter().for_each(|branch| self.garbage.note_written(branch, pass.retention));
            self.starved.forget(children[0].id);
            Some(run)
        } else {
            None
        };
        self.counters.joined();
        Ok(Change::Join { place, joined: Joined { children, run } })
    }

    /// Turns an outcome into an edit and a new tree. Fast; the caller holds the edit mutex and `tree` is the newest tree.
    /// The caller logs the edit, publishes the tree, calls `Applied::finish`, and only then lets the next outcome be applied.
    pub fn apply(&self, outcome: Outcome, tree: &Arc<Tree>) -> Applied {
        apply::apply(self, outcome, tree)
    }

    /// What was written since opening.
    pub fn written(&self) -> Written {
        self.counters.written()
    }

    /// How many jobs are picked and not yet finished.
    #[cfg(test)]
    pub fn running(&self) -> usize {
        self.claims.count()
    }

    fn pass<'a>(&'a self, retention: &'a Retention, watch: &'a dyn Progress) -> Pass<'a> {
        Pass { context: &self.context, options: &self.options, retention, watch }
    }

    pub(super) fn options(&self) -> &TrunkOptions {
        &self.options
    }

    // Relaxed: the counters give out distinct numbers and order nothing.
    pub(super) fn new_node(&self) -> NodeId {
        NodeId(self.next_node.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn new_bundle(&self) -> BundleId {
        BundleId(self.next_bundle.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn next_ids(&self) -> (NodeId, BundleId) {
        (NodeId(self.next_node.load(Ordering::Relaxed)), BundleId(self.next_bundle.load(Ordering::Relaxed)))
    }

    pub(super) fn next_file(&self) -> FileNumber {
        self.context.numbers.next()
    }
}

fn flush(node: &Node, at: usize) -> Result<Change> {
    let upper = node.slot_upper(at).map(|upper| &**upper);
    let active = node.bundles[node.first_active(at)..].iter().flat_map(|bundle| &bundle.branches);
    let hollow = Hollow::find(active, node.slot_lower(at), upper)?;
    Ok(Change::Flush { place: Place::of(node), child: node.pivots[at].child.id, hollow })
}

fn split(leaf: &Node, keys: Vec<Key>) -> Result<Change> {
    let mut hollow = Vec::with_capacity(keys.len() + 1);
    for at in 0..=keys.len() {
        let lower = if at == 0 { &leaf.lower } else { &keys[at - 1] };
        let upper = keys.get(at).or(leaf.upper.as_ref()).map(|upper| &**upper);
        hollow.push((Arc::clone(lower), Hollow::find(leaf.branches(), lower, upper)?));
    }
    Ok(Change::Split { place: Place::of(leaf), cuts: Cuts { keys, hollow } })
}

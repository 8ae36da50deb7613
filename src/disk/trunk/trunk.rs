//! The trunk: makes new trees out of old ones. Any thread; `apply` under the caller's edit mutex.
//!
//! Readers use `Tree` alone. See `jobs/job.rs` for the life of a job.

use super::apply::applied::Applied;
use super::apply::changes;
use super::apply::editor::EditContext;
use super::apply::ids::Ids;
use super::jobs::change::{Change, Outcome};
use super::jobs::claim::Claim;
use super::jobs::execute::Executor;
use super::jobs::history::History;
use super::jobs::job::{Job, Purpose};
use super::jobs::pass::Pass;
use super::options::TrunkOptions;
use super::plan::choice::Choice;
use super::plan::quiet::{self, QuietCost};
use super::plan::{for_scans, free_space, policy, requested, run_bound};
use super::tree::node::Node;
use super::tree::open;
use super::tree::tree::Tree;
use crate::branch::{Branch, BranchContext, Maplet};
use crate::disk::runs::figures::{Counters, Written};
use crate::disk::runs::from_memory::FromMemory;
use crate::disk::runs::ingest::{IngestForm, IngestWriter};
use crate::disk::runs::jobs::claims::{ClaimGuard, Claims};
use crate::disk::runs::jobs::progress::Progress;
use crate::disk::runs::output::NewParts;
use crate::disk::runs::requested_range::RequestedRange;
use crate::filter::quotient;
use crate::format::manifest_edit::{BranchMeta, BundleId, BundleImage, ManifestEdit, NodeId};
use crate::manifest::ManifestState;
use crate::merge::{Expired, Retention};
use crate::util::sync::{Arc, AtomicBool, Mutex};
use crate::util::{KeyspaceId, Result};

/// See the module.
#[derive(Debug)]
pub struct Trunk {
    context: Arc<BranchContext>,
    options: Arc<TrunkOptions>,
    ids: Ids,
    claims: Arc<Claims<Claim>>,
    history: History,
    counters: Counters,
    /// Maplets that the manifest names and that serve no slot. The next edit drops them.
    unused_maplets: Mutex<Vec<Arc<Maplet>>>,
}

impl Trunk {
    /// The edit that gives a new store its first tree: one empty leaf.
    pub fn create_edit() -> ManifestEdit {
        let leaf = open::empty_leaf().finish(&TrunkOptions::new(0));
        ManifestEdit {
            nodes: vec![leaf.image()],
            root: Some(leaf.id),
            next_node: Some(NodeId(open::FIRST_NODE.0 + 1)),
            next_bundle: Some(BundleId(1)),
            ..ManifestEdit::default()
        }
    }

    /// The edit that gives a store without data a trunk, with one run of these part files, in key order. The tree is one
    /// leaf, which background work splits by reference.
    pub fn edit_of_run(parts: &[BranchMeta]) -> ManifestEdit {
        let mut edit = Self::create_edit();
        if !parts.is_empty() {
            let branches: Vec<_> = parts.iter().map(|part| part.file).collect();
            let bundle = BundleImage { id: BundleId(1), compacted: true, branches };
            edit.nodes.iter_mut().for_each(|leaf| leaf.bundles = vec![bundle.clone()]);
            edit.next_bundle = Some(BundleId(2));
            edit.branches_added = parts.to_vec();
        }
        edit
    }

    /// The trunk and its tree as the manifest has them, or as `create_edit` makes them if the manifest has none yet.
    pub fn open(
        context: Arc<BranchContext>,
        options: TrunkOptions,
        state: &ManifestState,
    ) -> Result<(Trunk, Arc<Tree>)> {
        let options = Arc::new(options);
        let (tree, unused_maplets) = open::tree(&context, &options, state)?;
        let trunk = Self {
            context,
            options,
            ids: Ids::new(state.next_node.0.max(open::FIRST_NODE.0 + 1), state.next_bundle.0.max(1)),
            claims: Arc::default(),
            history: History::default(),
            counters: Counters::default(),
            unused_maplets: Mutex::new(unused_maplets),
        };
        Ok((trunk, tree))
    }

    /// See `TrunkOptions`.
    pub fn branch_bytes(&self) -> u64 {
        self.options.branch_bytes
    }

    /// Writes the data from memory, which is newer than everything in the tree, as part files cut at the root's pivots.
    /// Heavy I/O, no lock. Outcomes are applied in the order of `through`. `None` if `progress` ended it: then nothing
    /// was done.
    pub fn incorporate(
        &self,
        tree: &Tree,
        source: FromMemory<'_>,
        retention: &Retention,
        progress: &dyn Progress,
    ) -> Result<Option<Outcome>> {
        let through = source.through;
        let Some((parts, user_bytes)) = self.pass(retention, progress).incorporate(tree.root(), source)? else {
            return Ok(None);
        };
        self.counters.incorporated(parts.load());
        Ok(Some(Outcome::of(Change::Incorporate { parts, through: Some(through), user_bytes }, None)))
    }

    /// See `Component::ingest_writer`. Files end where those of an incorporation do.
    pub fn ingest_writer(&self, tree: &Tree) -> IngestWriter {
        let (root, options) = (tree.root(), &self.options);
        let (retention, progress) = (Retention::default(), AtomicBool::new(false));
        let cuts = self.pass(&retention, &progress).cuts(root, options.branch_bytes).into();
        let bytes_max = if root.is_leaf() { options.part_bytes } else { options.branch_bytes };
        let (bytes_min, filter_bits) = (options.part_bytes_min, quotient::REMAINDER_BITS);
        IngestWriter::new(&self.context, IngestForm { cuts, bytes_min, bytes_max, filter_bits })
    }

    /// See `Component::ingested`.
    pub fn ingested(&self, parts: NewParts, user_bytes: u64) -> Outcome {
        self.counters.ingested(parts.load());
        Outcome::of(Change::Incorporate { parts, through: None, user_bytes }, None)
    }

    /// The most urgent work that no running job has claimed; `None` if there is nothing to do. A pure function of the
    /// tree, the running jobs, `retention`, and the trunk's history.
    pub fn pick(&self, tree: &Tree, retention: &Retention) -> Option<Job> {
        let is_released = |leaf: &Node| self.history.is_released(leaf, retention);
        self.pick_bounded(Purpose::Needed, |claim| {
            policy::choose(tree, &is_released, |choice| self.history.allows(choice, retention) && claim(choice))
        })
    }

    /// The next work of a requested compaction. A version that `retention` does not need is garbage.
    pub fn pick_requested(&self, tree: &Tree, range: &RequestedRange, retention: &Retention) -> Option<Job> {
        self.pick_requested_if(tree, range, retention, |choice| self.history.allows(choice, retention))
    }

    /// The same on a full disk: what failed there is left out, instead of what waits for space.
    pub fn pick_requested_on_full_disk(
        &self,
        tree: &Tree,
        range: &RequestedRange,
        retention: &Retention,
    ) -> Option<Job> {
        self.pick_requested_if(tree, range, retention, |choice| {
            !self.history.has_failed(choice) && !self.history.is_settled(choice, retention)
        })
    }

    fn pick_requested_if(
        &self,
        tree: &Tree,
        range: &RequestedRange,
        retention: &Retention,
        is_allowed: impl Fn(&Choice) -> bool,
    ) -> Option<Job> {
        let has_garbage = |branch: &Branch| {
            range.is_unfiltered(branch) || self.history.garbage.may_be_in(branch, retention, range.through)
        };
        self.pick_bounded(Purpose::Needed, |claim| {
            requested::choose(tree, range, &has_garbage, |choice| is_allowed(choice) && claim(choice))
        })
    }

    /// Work that makes room for an incorporation, and if there is none, whether a running job does it.
    pub fn pick_room(&self, tree: &Tree, retention: &Retention) -> (Option<Job>, bool) {
        let mut is_claimed = false;
        let job = self.pick_bounded(Purpose::Needed, |claim| {
            policy::room_in_root(tree).filter(|choice| self.history.allows(choice, retention)).find(|choice| {
                let is_free = claim(choice);
                is_claimed |= !is_free;
                is_free
            })
        });
        (job, is_claimed)
    }

    /// Work that makes scans cheaper, where scans have already paid for it. For when `pick` finds nothing.
    pub fn pick_for_scans(&self, tree: &Tree) -> Option<Job> {
        self.pick_bounded(Purpose::Scans, |claim| {
            for_scans::choose(tree, |choice| !self.history.is_backed_off(choice) && claim(choice))
        })
    }

    /// Work that makes reads cheaper, for when nobody has written for a while, and nothing else is left to do. By its
    /// estimate it costs no more than the credit that the tree has. At most one such job runs at a time, and what
    /// `Job::charge` returns is applied before it.
    pub fn pick_when_quiet(&self, tree: &Tree) -> Option<Job> {
        let mut cost = QuietCost::default();
        let job = self.pick_bounded(Purpose::Needed, |claim| {
            let accepts = |choice: &Choice| !self.history.is_backed_off(choice) && claim(choice);
            let work = quiet::choose(tree, tree.credit_left(), accepts)?;
            cost = work.cost;
            Some(work.choice)
        })?;
        Some(Job { purpose: Purpose::Quiet(cost), ..job })
    }

    /// For a full disk: work that frees space, the densest tombstones first. Each node is rewritten once. What failed
    /// on the full disk is left out.
    pub fn pick_to_free_space(&self, tree: &Tree) -> Option<Job> {
        self.pick_with(Purpose::Needed, |claim| {
            free_space::choose(tree, |choice| !self.history.has_failed(choice) && claim(choice))
        })
    }

    /// As `pick_with`, but refuses flushes that exceed the bound on the runs of a node.
    fn pick_bounded(
        &self,
        purpose: Purpose,
        choose: impl FnOnce(&mut dyn FnMut(&Choice) -> bool) -> Option<Choice>,
    ) -> Option<Job> {
        self.pick_with(purpose, |claim| {
            choose(&mut |choice| run_bound::room_for(choice, &self.options).is_none() && claim(choice))
        })
    }

    /// The job of the choice that `choose` makes. `choose` accepts a choice last by claiming it, with the function that
    /// it gets.
    fn pick_with(
        &self,
        purpose: Purpose,
        choose: impl FnOnce(&mut dyn FnMut(&Choice) -> bool) -> Option<Choice>,
    ) -> Option<Job> {
        let mut held: Option<Arc<ClaimGuard<Claim>>> = None;
        let choice = choose(&mut |choice| {
            held = self.claims.take(Claim::of(choice));
            held.is_some()
        })?;
        held.map(|claim| Job { choice, claim, purpose })
    }

    /// See `Component::half_expired`.
    pub fn half_expired(&self, branch: &Branch, expired: &Expired) -> Vec<KeyspaceId> {
        self.history.garbage.half_expired(branch, expired)
    }

    /// About how many bytes a requested compaction still has to read; `None` if nothing is left to do, whatever jobs
    /// run.
    pub fn remaining(&self, tree: &Tree, range: &RequestedRange, retention: &Retention) -> Option<u64> {
        let has_garbage = |branch: &Branch| {
            range.is_unfiltered(branch) || self.history.garbage.may_be_in(branch, retention, range.through)
        };
        let is_work = |choice: &Choice| !self.history.is_settled(choice, retention);
        requested::choose(tree, range, &has_garbage, is_work)?;
        Some(requested::remaining(tree, range, &has_garbage))
    }

    /// Does a job's I/O. Heavy, no lock; almost free for a flush. If `progress` ends it, its outcome changes nothing.
    pub fn run(&self, job: &Job, tree: &Tree, retention: &Retention, progress: &dyn Progress) -> Result<Outcome> {
        let pass = self.pass(retention, progress);
        Executor { pass, history: &self.history, counters: &self.counters }.run(job, tree)
    }

    /// Turns an outcome into an edit and a new tree. Fast. The caller holds the edit mutex, and `tree` is the newest
    /// tree. The caller logs the edit, publishes the tree, calls `Applied::finish`, and only then applies the next
    /// outcome.
    pub fn apply(&self, outcome: Outcome, tree: &Arc<Tree>) -> Applied {
        let context = EditContext {
            options: &self.options,
            ids: &self.ids,
            files: &self.context.numbers,
            unused_maplets: &self.unused_maplets,
        };
        changes::apply(context, outcome, tree)
    }

    /// Removes from the history the files and nodes to which the tree does not refer.
    pub fn forget_unreferenced(&self, tree: &Tree) {
        self.history.forget_unreferenced(tree);
    }

    /// The job found no space for its result, or the manifest none for its edit, on a disk known to be full.
    pub fn note_failed_on_full_disk(&self, job: &Job) {
        self.history.note_failed_on_full_disk(&job.choice);
    }

    /// The job found no space, and the disk was not known to be full. It is not picked again before there is enough.
    pub fn note_found_no_space(&self, job: &Job) {
        self.history.note_found_no_space(&job.scope());
    }

    /// There is more free space than before: what failed on the full disk may be picked again.
    pub fn clear_failures(&self) {
        self.history.failures.clear();
    }

    /// Whether jobs wait for `release_backoff`.
    pub fn is_backed_off(&self) -> bool {
        self.history.backoff.is_any()
    }

    /// `available` bytes are free: waiting jobs that need no more may be picked again.
    pub fn release_backoff(&self, available: u64) {
        self.history.backoff.release(available);
    }

    /// What was written since opening.
    pub fn written(&self) -> Written {
        self.counters.written()
    }

    /// The number of jobs that are picked and not yet finished.
    #[cfg(test)]
    pub fn running(&self) -> usize {
        self.claims.count()
    }

    fn pass<'a>(&'a self, retention: &'a Retention, progress: &'a dyn Progress) -> Pass<'a> {
        Pass { context: &self.context, options: &self.options, retention, progress }
    }
}

//! The levels: makes new versions out of old ones. Any thread; `apply` under the caller's edit mutex.
//!
//! Readers use `LevelsVersion` alone. The life of a job is that of `disk/job.rs`.

use super::apply::applied::Applied;
use super::apply::editor::{self, EditContext};
use super::jobs::claim::Claim;
use super::jobs::history::History;
use super::jobs::job::Job;
use super::jobs::outcome::{Change, Outcome};
use super::jobs::pass::{self, Compacted, Pass};
use super::plan::compaction::Compaction;
use super::plan::{free_space, policy, requested};
use super::state::open;
use super::state::version::LevelsVersion;
use super::tuning::LevelsTuning;
use crate::branch::{Branch, BranchContext};
use crate::cache::ReservedBuffers;
use crate::disk::runs::figures::{Counters, Written};
use crate::disk::runs::from_memory::FromMemory;
use crate::disk::runs::garbage;
use crate::disk::runs::ingest::IngestWriter;
use crate::disk::runs::jobs::claims::{ClaimGuard, Claims};
use crate::disk::runs::jobs::progress::Progress;
use crate::disk::runs::output::NewParts;
use crate::disk::runs::pass::PassRules;
use crate::disk::runs::requested_range::RequestedRange;
use crate::format::manifest_edit::{BranchMeta, LevelsShape, ManifestEdit, RunChange, RunId};
use crate::manifest::ManifestState;
use crate::merge::{Expired, Retention};
use crate::util::sync::{Arc, AtomicU64};
use crate::util::{KeyspaceId, Result, SequenceNumber};

/// The first run id of a store.
const FIRST_RUN: u64 = 1;

/// See the module.
#[derive(Debug)]
pub struct Levels {
    context: Arc<BranchContext>,
    tuning: Arc<LevelsTuning>,
    next_run: AtomicU64,
    claims: Arc<Claims<Claim>>,
    history: History,
    counters: Counters,
    _reserved: ReservedBuffers,
}

impl Levels {
    /// The edit that gives a new store its first version: no data.
    pub fn create_edit(shape: LevelsShape) -> ManifestEdit {
        ManifestEdit { levels: Some(shape), next_run: Some(RunId(FIRST_RUN)), ..ManifestEdit::default() }
    }

    /// The edit that gives a store without data these levels, with one run of these part files, in key order.
    pub fn edit_of_run(tuning: &LevelsTuning, parts: &[BranchMeta]) -> ManifestEdit {
        let mut edit = Self::create_edit(tuning.shape);
        if !parts.is_empty() {
            let level = tuning.level_for(parts.iter().map(|part| part.bytes).sum());
            let added = parts.iter().map(|part| part.file).collect();
            edit.runs = vec![RunChange { id: RunId(FIRST_RUN), level, dropped: Vec::new(), added }];
            edit.next_run = Some(RunId(FIRST_RUN + 1));
            edit.branches_added = parts.to_vec();
        }
        edit
    }

    /// The levels and their version as the manifest has them.
    pub fn open(
        context: Arc<BranchContext>,
        tuning: LevelsTuning,
        state: &ManifestState,
    ) -> Result<(Self, Arc<LevelsVersion>)> {
        let _reserved = context.cache.memory().reserve_buffers(tuning.buffer_bytes as usize);
        let tuning = Arc::new(tuning);
        let version = open::version(&context, Arc::clone(&tuning), state)?;
        let levels = Self {
            context,
            tuning,
            next_run: AtomicU64::new(state.next_run.0.max(FIRST_RUN)),
            claims: Arc::default(),
            history: History::default(),
            counters: Counters::default(),
            _reserved,
        };
        Ok((levels, version))
    }

    /// The size of a Memtable when the store was created.
    pub fn memtable_bytes(&self) -> u64 {
        self.tuning.memtable_bytes
    }

    /// Writes the data from memory, which is newer than everything in the version, as a run of level 0. Heavy I/O, no
    /// lock. Outcomes are applied in the order of `through`. `None` if `progress` ended it: then nothing was done.
    pub fn incorporate(
        &self,
        version: &LevelsVersion,
        source: FromMemory<'_>,
        retention: &Retention,
        progress: &dyn Progress,
    ) -> Result<Option<Outcome>> {
        let through = source.through;
        let Some(parts) = self.pass(retention, progress).incorporate(version, source)? else { return Ok(None) };
        self.counters.incorporated(parts.load());
        Ok(Some(Outcome { change: Change::Incorporate { parts, through: Some(through) }, claim: None }))
    }

    /// See `Component::ingest_writer`. Files end where those of an incorporation do.
    pub fn ingest_writer(&self, version: &LevelsVersion) -> IngestWriter {
        IngestWriter::new(&self.context, pass::ingest_form(&self.tuning, version))
    }

    /// See `Component::ingested`.
    pub fn ingested(&self, parts: NewParts) -> Outcome {
        self.counters.ingested(parts.load());
        Outcome { change: Change::Incorporate { parts, through: None }, claim: None }
    }

    /// The most urgent work that no running job has claimed; `None` if there is nothing to do. A pure function of the
    /// version, the running jobs, `retention`, and the history.
    pub fn pick(&self, version: &LevelsVersion, retention: &Retention) -> Option<Job> {
        let may_drop = |branch: &Branch| self.history.garbage.may_be_in(branch, retention, SequenceNumber::MAX);
        self.pick_with(version, |claim| {
            policy::choose(version, &may_drop, |choice| self.history.allows(choice) && claim(choice))
        })
    }

    /// The next work of a requested compaction. A version that `retention` does not need is garbage.
    pub fn pick_requested(
        &self,
        version: &LevelsVersion,
        range: &RequestedRange,
        retention: &Retention,
    ) -> Option<Job> {
        self.pick_requested_if(version, range, retention, |choice| self.history.allows(choice))
    }

    /// The same on a full disk: what failed there is left out, instead of what waits for space.
    pub fn pick_requested_on_full_disk(
        &self,
        version: &LevelsVersion,
        range: &RequestedRange,
        retention: &Retention,
    ) -> Option<Job> {
        self.pick_requested_if(version, range, retention, |choice| !self.history.has_failed(choice))
    }

    fn pick_requested_if(
        &self,
        version: &LevelsVersion,
        range: &RequestedRange,
        retention: &Retention,
        is_allowed: impl Fn(&Compaction) -> bool,
    ) -> Option<Job> {
        let has_garbage = |branch: &Branch| {
            range.is_unfiltered(branch) || self.history.garbage.may_be_in(branch, retention, range.through)
        };
        self.pick_with(version, |claim| {
            requested::choose(version, range, &has_garbage, |choice| is_allowed(choice) && claim(choice))
                .map(Compaction::into_files)
        })
    }

    /// For a full disk: work that frees space. What failed on the full disk is left out, and each file is rewritten
    /// once.
    pub fn pick_to_free_space(&self, version: &LevelsVersion) -> Option<Job> {
        let may_drop = |branch: &Branch| garbage::may_have_garbage(branch) && !self.history.garbage.is_noted(branch);
        self.pick_with(version, |claim| {
            free_space::choose(version, &may_drop, |choice| !self.history.has_failed(choice) && claim(choice))
        })
    }

    /// The job of the choice that `choose` makes. `choose` accepts a choice last by claiming it, with the function that
    /// it gets.
    fn pick_with(
        &self,
        version: &LevelsVersion,
        choose: impl FnOnce(&mut dyn FnMut(&Compaction) -> bool) -> Option<Compaction>,
    ) -> Option<Job> {
        let mut held: Option<Arc<ClaimGuard<Claim>>> = None;
        let compaction = choose(&mut |choice| {
            held = self.claims.take(Claim::of(choice));
            held.is_some()
        })?;
        let height = version.height(compaction.output.level());
        held.map(|claim| Job { compaction, claim, height })
    }

    /// See `Component::half_expired`.
    pub fn half_expired(&self, branch: &Branch, expired: &Expired) -> Vec<KeyspaceId> {
        self.history.garbage.half_expired(branch, expired)
    }

    /// About how many bytes a requested compaction still has to read; `None` if nothing is left to do, whatever jobs
    /// run.
    pub fn remaining(&self, version: &LevelsVersion, range: &RequestedRange, retention: &Retention) -> Option<u64> {
        let has_garbage = |branch: &Branch| {
            range.is_unfiltered(branch) || self.history.garbage.may_be_in(branch, retention, range.through)
        };
        requested::choose(version, range, &has_garbage, |_| true)?;
        Some(requested::remaining(version, range, &has_garbage))
    }

    /// Does a job's I/O. Heavy, no lock; free for a move. If `progress` ends it, its outcome changes nothing.
    pub fn run(
        &self,
        job: &Job,
        version: &LevelsVersion,
        retention: &Retention,
        progress: &dyn Progress,
    ) -> Result<Outcome> {
        let compaction = &job.compaction;
        let merged = self.pass(retention, progress).compact(version, compaction)?;
        self.counters.job_done();
        let change = merged.map_or(Change::Nothing, |merged| {
            let Compacted { run: merged, skipped, skips } = merged;
            let mut written = merged.parts.written();
            skipped.iter().for_each(|skipped| written += skipped.parts.written());
            self.counters.compacted(written);
            if !compaction.buffers && compaction.parts().all(|part| part.in_buffer().is_some()) {
                self.counters.checkpointed(written);
            }
            self.counters.reused(merged.reused_bytes());
            self.counters.skipped(&skips);
            if compaction.bottom {
                let parts = merged.parts.iter().chain(skipped.iter().flat_map(|skipped| skipped.parts.iter()));
                parts.for_each(|branch| self.history.garbage.note_written(branch, retention));
            }
            let is_move = compaction.is_move();
            if !is_move {
                self.history.backoff.forget(compaction.level());
            }
            Change::Compact { inputs: compaction.inputs.clone(), output: compaction.output, merged, skipped, is_move }
        });
        Ok(Outcome { change, claim: Some(Arc::clone(&job.claim)) })
    }

    /// Turns an outcome into an edit and a new version. Fast. The caller holds the edit mutex, and `version` is the
    /// newest. The caller logs the edit, publishes the version, calls `Applied::finish`, and only then applies the next
    /// outcome.
    pub fn apply(&self, outcome: Outcome, version: &Arc<LevelsVersion>) -> Applied {
        let context = EditContext { next_run: &self.next_run, files: &self.context.numbers };
        let applied = editor::apply(context, outcome, version);
        for buffered in &applied.edit.buffered_added {
            self.counters.buffered(buffered.meta.bytes, buffered.parents_bytes());
        }
        applied
    }

    /// Removes from the history the files to which the version does not refer.
    pub fn forget_unreferenced(&self, version: &LevelsVersion) {
        self.history.forget_unreferenced(version);
    }

    /// The job found no space for its result, or the manifest none for its edit, on a disk known to be full.
    pub fn note_failed_on_full_disk(&self, job: &Job) {
        self.history.note_failed_on_full_disk(&job.compaction);
    }

    /// The job found no space, and the disk was not known to be full. It is not picked again before there is enough.
    pub fn note_found_no_space(&self, job: &Job) {
        self.history.note_found_no_space(&job.compaction);
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

    /// The entries that scans have taken from branches in memory since opening.
    pub fn buffered_rows(&self) -> u64 {
        self.context.buffered_rows()
    }

    /// What was written since opening.
    pub fn written(&self) -> Written {
        self.counters.written()
    }

    /// A job for this compaction, which no running job excludes.
    #[cfg(test)]
    pub fn job_of(&self, version: &LevelsVersion, compaction: Compaction) -> Job {
        let claim = self.claims.take(Claim::of(&compaction)).unwrap();
        Job { height: version.height(compaction.output.level()), compaction, claim }
    }

    /// The number of jobs that are picked and not yet finished.
    #[cfg(test)]
    pub fn running(&self) -> usize {
        self.claims.count()
    }

    /// See `LevelsTuning::is_leveled`.
    pub fn is_leveled(&self) -> bool {
        self.tuning.is_leveled()
    }

    fn pass<'a>(&'a self, retention: &'a Retention, progress: &'a dyn Progress) -> Pass<'a> {
        let operators = Some(&*self.tuning.merge_operators);
        Pass { context: &self.context, tuning: &self.tuning, rules: PassRules { retention, operators, progress } }
    }
}

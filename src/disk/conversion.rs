//! A conversion of all data of a closed store to another kind of component, or to levels of another shape. One thread.
//!
//! All branches are merged into one run of new files, so the newest version of each key is left, with its number, and
//! tombstones go with what they hide. Merge operands are retained as they are, and so are references to value files.
//! Nothing of the old version is changed.

use super::kind::DiskComponent;
use super::levels::{Levels, LevelsTuning};
use super::runs::jobs::progress::Progress;
use super::runs::output::OutputWriter;
use super::runs::pass::{PassOutput, PassRules};
use super::trunk::{Trunk, TrunkOptions};
use super::version::Version;
use crate::branch::{BranchContext, file_name};
use crate::format::manifest_edit::{BranchMeta, BundleId, ManifestEdit, NodeId, RunId};
use crate::format::page::PAGE_BYTES;
use crate::manifest::ManifestState;
use crate::merge::Retention;
use crate::util::Result;
use crate::util::sync::{Arc, AtomicU64, Ordering};
use std::collections::BTreeMap;

/// A branch file has about this many pages besides its data.
const PAGES_PER_FILE: u64 = 6;
/// Other files may need this much: the manifest, and the mark.
const OTHER_BYTES: u64 = 64 << 10;
/// Pages are filled differently than before, so the data may take this part of it more.
const GROWTH_PART: u64 = 16;

/// What a store is converted to.
#[derive(Debug)]
pub struct Conversion {
    branch_bytes: u64,
    to: Target,
}

#[derive(Debug)]
enum Target {
    Trunk(TrunkOptions),
    Levels(LevelsTuning),
}

impl Conversion {
    /// A conversion to this component, in a store whose sizes follow from `branch_bytes`.
    ///
    /// # Errors
    /// `InvalidArgument` for options outside their bounds.
    pub fn new(to: &DiskComponent, branch_bytes: u64) -> Result<Self> {
        let to = match to {
            DiskComponent::Trunk => Target::Trunk(TrunkOptions::new(branch_bytes)),
            DiskComponent::Levels(levels) => {
                Target::Levels(LevelsTuning::new(levels.shape(branch_bytes)?, branch_bytes, 0, Arc::default()))
            }
        };
        Ok(Self { branch_bytes, to })
    }

    /// About how much space the new files of so many live bytes may need.
    pub fn bytes_needed(&self, live: u64) -> u64 {
        let files = live / self.file_bytes().max(1) + 1;
        let pages = live.saturating_add(live / GROWTH_PART).div_ceil(PAGE_BYTES as u64);
        let pages = pages.saturating_add(files.saturating_mul(PAGES_PER_FILE));
        pages.saturating_mul(PAGE_BYTES as u64).saturating_add(OTHER_BYTES)
    }

    /// Writes all data of a version as the part files of one run. Heavy I/O. `progress` is called with the name of a
    /// file that is read next, and the entries that were read before. After an error, files that are finished remain.
    pub fn write(
        &self,
        context: &Arc<BranchContext>,
        version: &Version,
        progress: &mut dyn FnMut(&str, u64),
    ) -> Result<Vec<BranchMeta>> {
        let (retention, read) = (Retention::default(), EntriesRead::default());
        let rules = PassRules { retention: &retention, operators: None, progress: &read };
        let mut output = PassOutput::new(rules, self.writer(context));
        for piece in version.sections().into_iter().flat_map(|section| section.pieces(self.branch_bytes)) {
            let Some(first) = piece.branches.last() else { continue };
            progress(&file_name(first.meta().file), read.0.load(Ordering::Relaxed));
            let range = (&piece.lower, piece.upper.as_ref());
            // Nothing older lies below, and `EntriesRead` ends nothing.
            output.copy_branches(piece.branches.iter().collect(), range, true)?;
        }
        let parts = output.finish()?.take();
        Ok(parts.iter().map(|part| part.meta().clone()).collect())
    }

    /// The manifest's state after the conversion: with these part files, and with everything else as before.
    ///
    /// # Errors
    /// The text says what does not fit; only a bug could cause it.
    pub fn state(&self, old: &ManifestState, parts: &[BranchMeta]) -> Result<ManifestState, String> {
        let mut state = ManifestState {
            branches: BTreeMap::new(),
            maplets: BTreeMap::new(),
            nodes: BTreeMap::new(),
            root: None,
            next_node: NodeId::default(),
            next_bundle: BundleId::default(),
            levels: None,
            runs: BTreeMap::new(),
            buffered: BTreeMap::new(),
            next_run: RunId::default(),
            ..old.clone()
        };
        let edit = match &self.to {
            Target::Trunk(_) => Trunk::edit_of_run(parts),
            Target::Levels(tuning) => Levels::edit_of_run(tuning, parts),
        };
        state.apply(&ManifestEdit { branch_bytes: Some(self.branch_bytes), ..edit })?;
        Ok(state)
    }

    fn file_bytes(&self) -> u64 {
        match &self.to {
            Target::Trunk(options) => options.part_bytes,
            Target::Levels(tuning) => tuning.shape.file_bytes,
        }
    }

    /// Part files of the sizes that merges of the component make.
    fn writer<'a>(&self, context: &'a Arc<BranchContext>) -> OutputWriter<'a> {
        let writer = match &self.to {
            Target::Trunk(options) => OutputWriter::new(context, &[], options.part_bytes_min, self.file_bytes())
                .split_at_gaps_from(*options.reused_bytes().start()),
            Target::Levels(tuning) => OutputWriter::new(context, &[], tuning.small_file_bytes(), self.file_bytes())
                .split_at_gaps_from(tuning.small_file_bytes())
                .with_filter_bits(tuning.filter_bits(0)),
        };
        writer.deepest(true)
    }
}

/// Counts entries. Relaxed: it publishes no other data.
#[derive(Debug, Default)]
struct EntriesRead(AtomicU64);

impl Progress for EntriesRead {
    fn advance(&self, entries: u64, _: u64) -> bool {
        self.0.fetch_add(entries, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests;

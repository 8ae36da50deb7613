//! Outcomes: what jobs and incorporations make of a version. Plain data, moved from the thread that runs a job to the
//! one that applies it (`apply/`).

use super::claim::Claim;
use super::skip_writer::Skipped;
use crate::disk::levels::plan::compaction::{Input, Output};
use crate::disk::runs::jobs::claims::ClaimGuard;
use crate::disk::runs::merged_run::MergedRun;
use crate::disk::runs::output::NewParts;
use crate::util::SequenceNumber;
use crate::util::sync::Arc;

/// The result of a job or an incorporation. If it is dropped without being applied, its claim is released and its files
/// become obsolete.
#[derive(Debug)]
pub struct Outcome {
    pub change: Change,
    pub claim: Option<Arc<ClaimGuard<Claim>>>,
}

impl Outcome {
    /// Whether it is a merge.
    pub fn is_merge(&self) -> bool {
        matches!(&self.change, Change::Compact { is_move: false, .. })
    }
}

/// The change of the version.
#[derive(Debug)]
pub enum Change {
    /// No change.
    Nothing,
    /// A new run of level 0. `through`: all of memory up to this number is in the levels then; `None` if it does not come
    /// from memory.
    Incorporate { parts: NewParts, through: Option<SequenceNumber> },
    /// The merged run, and the part files of deeper levels, replace the inputs.
    Compact { inputs: Vec<Input>, output: Output, merged: MergedRun, skipped: Vec<Skipped>, is_move: bool },
}

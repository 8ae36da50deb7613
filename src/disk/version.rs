//! The disk component as readers see it: immutable. Any thread; no locks. Clones share it.

use super::kind::kind_of;
use super::levels::{self, LevelsVersion};
use super::runs::figures::Figures;
use super::runs::section::Section;
use super::trunk::{self, Tree};
use crate::branch::{Branch, BranchContext, Maplet, Pages};
use crate::manifest::ManifestState;
use crate::merge::Cursor;
use crate::util::sync::Arc;
use crate::util::{Kind, Result, SequenceNumber};

/// See the module. While it is held, all its branch files are readable.
#[derive(Clone, Debug)]
pub enum Version {
    /// A trunk's tree.
    Trunk(Arc<Tree>),
    /// A version of levels.
    Levels(Arc<LevelsVersion>),
}

/// The runs of the node to which incorporations add one each.
#[derive(Clone, Copy, Debug)]
pub struct NewestRuns {
    /// The most that a read meets there.
    pub count: usize,
    /// Writers are slowed above this number.
    pub limit: usize,
    /// Incorporations wait for merges at this number.
    pub bound: usize,
}

impl Version {
    /// The kind of the component, in a word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Trunk(_) => kind_of(None),
            Self::Levels(version) => kind_of(Some(&version.tuning().shape)),
        }
    }

    /// The newest version `<= at` of `key`, whose hash is `hash`: its number and kind. Its value is appended to `out`.
    /// If a range tombstone over the key is newer, the result is that range tombstone.
    #[inline]
    pub fn get<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        match self {
            Self::Trunk(tree) => tree.get(key, hash, at, pages, out),
            Self::Levels(version) => version.get(key, hash, at, pages, out),
        }
    }

    /// A cursor over all entries.
    pub fn cursor(&self) -> Box<dyn Cursor> {
        match self {
            Self::Trunk(tree) => Box::new(tree.cursor()),
            Self::Levels(version) => Box::new(version.cursor()),
        }
    }

    /// A key from `lower` to below `upper` of which some version, or a range tombstone over it, has a number above
    /// `since`. Versions that were dropped after `since` may not be found, so the caller holds a pin at `since`.
    pub fn written_since(&self, since: SequenceNumber, lower: &[u8], upper: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        match self {
            Self::Trunk(tree) => tree.written_since(since, lower, upper),
            Self::Levels(version) => version.written_since(since, lower, upper),
        }
    }

    /// Whether any branch has range tombstones.
    #[inline]
    pub fn has_range_tombstones(&self) -> bool {
        match self {
            Self::Trunk(tree) => tree.has_range_tombstones(),
            Self::Levels(version) => version.has_range_tombstones(),
        }
    }

    /// Live bytes, estimated where branches are shared.
    #[inline]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Trunk(tree) => tree.bytes(),
            Self::Levels(version) => version.load().bytes,
        }
    }

    /// Live entries, all versions counted, estimated where branches are shared.
    pub fn entries(&self) -> u64 {
        match self {
            Self::Trunk(tree) => tree.root().totals.entries,
            Self::Levels(version) => version.load().entries,
        }
    }

    /// All data, in key order, for reading it once.
    pub fn sections(&self) -> Vec<Section> {
        match self {
            Self::Trunk(tree) => tree.sections(),
            Self::Levels(version) => version.sections(),
        }
    }

    /// Bytes of background work that waits.
    #[inline]
    pub fn debt(&self) -> u64 {
        match self {
            Self::Trunk(tree) => tree.debt(),
            Self::Levels(version) => version.debt(),
        }
    }

    /// The runs to which incorporations add. `None` for levels, whose shape bounds them.
    pub fn newest_runs(&self) -> Option<NewestRuns> {
        match self {
            Self::Trunk(tree) => {
                let options = tree.options();
                Some(NewestRuns { count: tree.root().runs(), limit: options.runs_limit, bound: options.runs_bound })
            }
            Self::Levels(_) => None,
        }
    }

    /// Bytes that may be rewritten in quiet times. 0 for levels, where nothing is.
    pub fn quiet_credit(&self) -> u64 {
        match self {
            Self::Trunk(tree) => tree.credit_left(),
            Self::Levels(_) => 0,
        }
    }

    /// About how many of the bytes are garbage, or newer versions that make some. 0 for levels: their shape bounds the
    /// garbage, so that writers need not be slowed for it.
    #[inline]
    pub fn garbage(&self) -> u64 {
        match self {
            Self::Trunk(tree) => tree.garbage(),
            Self::Levels(_) => 0,
        }
    }

    /// Bytes of branch files that the keys from `lower` to below `upper` (`None`: to the end) take, garbage included.
    pub fn approximate_bytes(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<u64> {
        match self {
            Self::Trunk(tree) => tree.approximate_bytes(lower, upper),
            Self::Levels(version) => version.approximate_bytes(lower, upper),
        }
    }

    /// Every branch, once, by file number.
    pub fn branches(&self) -> Vec<&Arc<Branch>> {
        match self {
            Self::Trunk(tree) => tree.branches(),
            Self::Levels(version) => version.branches(),
        }
    }

    /// Every maplet, once, by file number. Levels have none.
    pub fn maplets(&self) -> Vec<&Arc<Maplet>> {
        match self {
            Self::Trunk(tree) => tree.maplets(),
            Self::Levels(_) => Vec::new(),
        }
    }

    /// Calls `visit` with every reference to a branch and its level, counted from the deepest (0), the highest level
    /// first. A branch to which several nodes refer is visited as often.
    pub fn visit_branches<'a>(&'a self, visit: &mut dyn FnMut(u32, &'a Arc<Branch>)) {
        match self {
            Self::Trunk(tree) => tree.visit(&mut |node| node.branches().for_each(|branch| visit(node.height, branch))),
            Self::Levels(version) => version.visit_branches(visit),
        }
    }

    /// The figures of the version. O(references).
    pub fn figures(&self) -> Figures {
        match self {
            Self::Trunk(tree) => tree.figures(),
            Self::Levels(version) => version.figures(),
        }
    }

    /// Whether the structure in memory has what reads rely on; the error says what it lacks. O(references).
    pub fn check_structure(&self) -> Result<(), String> {
        match self {
            Self::Trunk(tree) => trunk::check_structure(tree),
            Self::Levels(version) => levels::check_structure(version),
        }
    }

    /// Whether the version agrees with the manifest; the error says what differs.
    pub fn check_against(&self, state: &ManifestState) -> Result<(), String> {
        match self {
            Self::Trunk(tree) => trunk::check_nodes(tree, state),
            Self::Levels(version) => levels::check_runs(version, state),
        }
    }

    /// The same with a reference that no read can see, for tests of `check_structure`.
    #[cfg(test)]
    pub fn inconsistent(&self) -> Self {
        match self {
            Self::Trunk(tree) => Self::Trunk(trunk::inconsistent(tree)),
            Self::Levels(version) => Self::Levels(levels::inconsistent(version)),
        }
    }
}

/// Checks the component that a consistent manifest (`ManifestState::check`) describes: its structure, its maplets, and
/// with `deep` the order of versions. Calls `report` with each result; an error from `report` ends the check.
pub fn check_stored(
    context: &Arc<BranchContext>,
    state: &ManifestState,
    deep: bool,
    report: &mut dyn FnMut(Result<()>) -> Result<()>,
) -> Result<()> {
    match state.levels {
        Some(shape) => levels::check_stored(context, (shape, state), deep, report),
        None => trunk::check_tree(context, state, deep, report),
    }
}

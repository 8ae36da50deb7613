//! The kinds of disk component. Plain data, any thread.

use super::levels::LevelsOptions;
use crate::format::manifest_edit::LevelsShape;
use crate::util::Result;

const TRUNK: &str = "trunk";

/// How a store keeps its data on disk. It is chosen when the store is created; `Db::convert` changes it.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, DiskComponent, LevelsOptions, Options};
/// let levels = DiskComponent::Levels(LevelsOptions::tiered());
/// let db = Db::open(directory.path(), Options::new().disk_component(levels))?;
/// assert_eq!(db.stats().disk_component, "tiered");
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskComponent {
    /// SplinterDB's STBε-tree: cheap writes, with reads that look up one maplet for each tree node. The default.
    #[default]
    Trunk,
    /// Levels of sorted runs, leveled or tiered.
    Levels(LevelsOptions),
}

impl DiskComponent {
    /// Refuses options outside their bounds.
    pub(crate) fn check(&self, memtable_bytes: u64) -> Result<()> {
        match self {
            Self::Trunk => Ok(()),
            Self::Levels(levels) => levels.shape(memtable_bytes).map(|_| ()),
        }
    }

    /// Its name.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Trunk => TRUNK,
            Self::Levels(levels) => kind_of_levels(levels.max_skip, levels.runs_per_level),
        }
    }

    /// Whether a store with levels of this shape, or with a trunk if there is none, has this component.
    pub(crate) fn is_of(&self, shape: Option<&LevelsShape>) -> bool {
        match (self, shape) {
            (Self::Trunk, None) => true,
            (Self::Levels(levels), Some(shape)) => levels.is_shape(shape),
            _ => false,
        }
    }
}

/// The name of the component of a store with levels of this shape, or with a trunk if there is none.
pub(crate) fn kind_of(shape: Option<&LevelsShape>) -> &'static str {
    shape.map_or(TRUNK, |shape| kind_of_levels(shape.max_skip, shape.runs_per_level))
}

fn kind_of_levels(max_skip: u32, runs_per_level: u32) -> &'static str {
    match (max_skip, runs_per_level) {
        (1.., _) => "skip",
        (0, ..=1) => "leveled",
        (0, _) => "tiered",
    }
}

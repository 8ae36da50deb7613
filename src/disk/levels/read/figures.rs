//! The figures of a version, for statistics. Any thread.

use crate::disk::levels::state::version::{Level, LevelsVersion};
use crate::disk::runs::figures::{Figures, LevelFigures};

impl LevelsVersion {
    /// The figures of the version: one entry for each level that has data, level 0 first. A run counts as a bundle. O(files).
    pub fn figures(&self) -> Figures {
        let of_level = |(at, level): (usize, &Level)| LevelFigures {
            height: self.height(at),
            nodes: 0,
            bundles: level.runs.len() as u64,
            branches: level.branches().count() as u64,
            runs_max: level.runs.len() as u64,
            probes_max: level.runs.len() as u64,
            load: level.load(),
        };
        let levels: Vec<LevelFigures> =
            self.levels().iter().enumerate().filter(|(_, level)| !level.runs.is_empty()).map(of_level).collect();
        let files = levels.iter().map(|level| level.branches).sum();
        Figures { levels, files, file_bytes: self.load().bytes }
    }
}

//! The figures of a version, for statistics. Any thread.

use crate::disk::levels::state::version::{Level, LevelsVersion};
use crate::disk::runs::figures::{BufferFigures, Figures, LevelFigures};

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
            misses: level.branches().map(|branch| branch.misses()).sum(),
        };
        let levels: Vec<LevelFigures> =
            self.levels().iter().enumerate().filter(|(_, level)| !level.runs.is_empty()).map(of_level).collect();
        let files = self.branches();
        let file_bytes = files.iter().map(|branch| branch.meta().bytes).sum();
        let buffered = self.levels().iter().flat_map(Level::branches).filter(|branch| branch.in_buffer().is_some());
        let buffers = BufferFigures {
            branches: buffered.count() as u64,
            bytes: self.buffered_bytes(),
            parent_bytes: self.parents().bytes(),
        };
        Figures { levels, files: files.len() as u64, file_bytes, buffers }
    }
}

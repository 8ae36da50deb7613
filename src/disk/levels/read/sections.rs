//! All data of the levels, for reading it once (`runs/section.rs`). Any thread.

use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::runs::section::Section;

impl LevelsVersion {
    /// One section with everything.
    pub fn sections(&self) -> Vec<Section> {
        let mut runs: Vec<_> = self.runs().map(|(_, run)| run).collect();
        // Oldest first.
        runs.reverse();
        let branches = runs.into_iter().flat_map(|run| run.run.parts()).cloned().collect();
        vec![Section { lower: [].into(), upper: None, branches }]
    }
}

//! Figures of papers, drawn again at a scale that fits the machine: what the paper claims, our numbers as a table and a plot in
//! plain text, and whether the claim's shape holds, by a rule that is stated and computed.
//!
//! A figure is one file: a value of `Figure`, listed in `ALL`. It runs for any list of engines; a claim about others is judged
//! only where these are in the list.

mod clsm;
mod drawing;
mod flodb;
mod host;
mod plot;
mod rules;
mod splinterdb;
mod stage;

pub use drawing::{Death, Drawing, Judgement, Line, Panel, Point, Ruling};
pub use host::{Host, InProcess, Ran};
pub use plot::plot;
pub use stage::Stage;

use crate::engine::{Factory, Result};

/// How a figure is made.
pub struct Figure {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Paper and number.
    pub source: &'static str,
    /// What the paper says with it, in a line.
    pub claim: &'static str,
    /// Runs it.
    pub draw: fn(&Figure, &Stage<'_>, &[&dyn Factory]) -> Result<Drawing>,
}

/// All of them.
pub const ALL: [Figure; 22] = [
    clsm::PARTITIONS,
    clsm::WRITES,
    clsm::READS,
    clsm::MIXED,
    clsm::MEMORY_SIZE,
    clsm::MODIFY,
    clsm::PRODUCTION,
    clsm::COMPACTION,
    flodb::WRITES,
    flodb::SCANS,
    flodb::SCAN_RATIO,
    flodb::MEMORY_SIZE,
    flodb::SKEWED,
    splinterdb::YCSB,
    splinterdb::AMPLIFICATION,
    splinterdb::LATENCY,
    splinterdb::SMALL_VALUES,
    splinterdb::LARGE_VALUES,
    splinterdb::NEAR_SEQUENTIAL,
    splinterdb::READS,
    splinterdb::INSERTS,
    splinterdb::SCANS,
];

/// The figure of a name, all of a paper by the paper's (`splinterdb`), or `all`; an error that lists them.
pub fn named(name: &str) -> Result<Vec<&'static Figure>> {
    let of_paper = |figure: &Figure| figure.name.split_once('-').is_some_and(|(paper, _)| paper == name);
    let found: Vec<&Figure> =
        ALL.iter().filter(|figure| figure.name == name || of_paper(figure) || name == "all").collect();
    if found.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|figure| figure.name).collect();
        return Err(
            format!("there is no figure {name:?}\nknown: all, clsm, flodb, splinterdb, {}", names.join(", ")).into()
        );
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

//! Papers' figures, reproduced at a scale that fits the machine: the paper's claim, our numbers as a table and a text
//! plot, and whether the claim's shape holds, by a stated rule.
//!
//! A figure is one file: a value of `Figure`, listed in `ALL`. It runs for any list of engines; a claim about other
//! engines is checked only if they are in the list.

mod clsm;
mod drawing;
mod flodb;
mod host;
mod kanda;
mod plot;
mod rules;
mod skipstore;
mod splinterdb;
mod stage;

pub use drawing::{Death, Drawing, Judgement, Line, Panel, Point, Ruling};
pub use host::{Host, InProcess, Ran};
pub use plot::plot;
pub use stage::Stage;

use crate::engine::{Factory, Result};

/// The definition of a figure.
pub struct Figure {
    /// Its name on the command line.
    pub name: &'static str,
    /// Paper and number.
    pub source: &'static str,
    /// The paper's claim, in a line.
    pub claim: &'static str,
    /// Runs it.
    pub draw: fn(&Figure, &Stage<'_>, &[&dyn Factory]) -> Result<Drawing>,
}

/// All of them.
pub const ALL: [Figure; 47] = [
    clsm::PARTITIONS,
    clsm::WRITES,
    clsm::READS,
    clsm::MIXED,
    clsm::MEMORY_SIZE,
    clsm::MODIFY,
    clsm::PRODUCTION,
    clsm::COMPACTION,
    flodb::LATENCY,
    flodb::WRITES,
    flodb::READS,
    flodb::MIXED,
    flodb::ONE_WRITER,
    flodb::SCANS,
    flodb::SCAN_RATIO,
    flodb::MEMORY_SIZE,
    flodb::SKEWED,
    kanda::LOADS,
    kanda::LOOKUPS,
    kanda::FRACTIONS,
    kanda::MIX,
    kanda::SKEW,
    kanda::FILTER,
    kanda::THREADS,
    kanda::RUNS,
    skipstore::AMPLIFICATION,
    skipstore::COMPRESSED,
    skipstore::PURPOSES,
    skipstore::UPDATES,
    skipstore::LIMITED,
    skipstore::MEMTABLES,
    skipstore::READS,
    skipstore::SKIPPED,
    skipstore::DISTRIBUTION,
    skipstore::BUFFERS,
    skipstore::CHECKPOINTS,
    skipstore::SCANS,
    skipstore::RECOVERY,
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

/// All figures, one a line, for help.
pub fn list() -> String {
    let line = |figure: &Figure| format!("  {:<18} {}: {}\n", figure.name, figure.source, figure.claim);
    format!("Figures:\n{}", ALL.iter().map(line).collect::<String>())
}

/// The figure with this name, all figures of a paper (`splinterdb`), or `all`; the error lists the names.
pub fn named(name: &str) -> Result<Vec<&'static Figure>> {
    let of_paper = |figure: &Figure| figure.name.split_once('-').is_some_and(|(paper, _)| paper == name);
    let found: Vec<&Figure> =
        ALL.iter().filter(|figure| figure.name == name || of_paper(figure) || name == "all").collect();
    if found.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|figure| figure.name).collect();
        return Err(format!(
            "there is no figure {name:?}\nknown: all, clsm, flodb, kanda, skipstore, splinterdb, {}\n\
             FloDB's figures 5, 7, 8 and 17 need no store: cargo bench --bench flodb",
            names.join(", ")
        )
        .into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

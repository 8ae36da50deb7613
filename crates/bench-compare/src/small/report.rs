//! The measured figures of all engines: medians and percentiles, as a table or as JSON.

use super::figures::{FIGURES, Figure};
use super::host::Round;
use crate::arguments::Small;
use crate::machine::about::{self, Machine};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::collections::BTreeMap;

/// A figure of one engine, over all rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The middle one.
    pub median: f64,
    /// The one that nine in ten do not exceed.
    pub p90: f64,
    /// Rounds.
    pub rounds: usize,
}

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Report {
    commit: String,
    machine: Machine,
    /// Bytes of keys and values of the large store.
    large_bytes: u64,
    /// Stores that were open at once.
    stores: u32,
    /// Seconds for which open stores were idle.
    idle_seconds: f64,
    engines: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    engine: &'static str,
    figures: BTreeMap<String, Summary>,
    /// Scenarios that failed, with the error.
    failed: BTreeMap<&'static str, String>,
    #[serde(skip)]
    all: BTreeMap<String, Vec<f64>>,
}

impl Report {
    /// An empty report.
    pub fn new(engines: &[&'static str], arguments: &Small) -> Self {
        let row = |engine: &&'static str| Row {
            engine,
            figures: BTreeMap::new(),
            failed: BTreeMap::new(),
            all: BTreeMap::new(),
        };
        Self {
            commit: about::commit(),
            machine: Machine::here(),
            large_bytes: arguments.bytes,
            stores: arguments.stores,
            idle_seconds: arguments.idle,
            engines: engines.iter().map(row).collect(),
        }
    }

    fn row(&mut self, engine: &str) -> Option<&mut Row> {
        self.engines.iter_mut().find(|row| row.engine == engine)
    }

    /// Adds the figures of a round.
    pub fn add(&mut self, engine: &str, figures: Round) {
        let Some(row) = self.row(engine) else { return };
        for (name, number) in figures {
            let all = row.all.entry(name.clone()).or_default();
            all.push(number);
            row.figures.insert(name, summary(all));
        }
    }

    /// Adds a failure, after which the engine has no further rounds of the scenario.
    pub fn fail(&mut self, engine: &str, scenario: &'static str, error: String) {
        if let Some(row) = self.row(engine) {
            row.failed.insert(scenario, error);
        }
    }

    /// What failed, in a line.
    pub fn failures(&self) -> Option<String> {
        let failed =
            self.engines.iter().flat_map(|row| row.failed.keys().map(move |name| format!("{} {name}", row.engine)));
        let failed: Vec<String> = failed.collect();
        (!failed.is_empty()).then(|| format!("failed: {}", failed.join(", ")))
    }

    /// A row for each figure and a column for each engine.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        table.set_header(std::iter::once("").chain(self.engines.iter().map(|row| row.engine)));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for figure in &FIGURES {
            let cells = self.engines.iter().map(|row| cell(figure, row.figures.get(figure.name).copied()));
            table.add_row(std::iter::once(figure.heading.to_owned()).chain(cells));
        }
        let Self { large_bytes, stores, idle_seconds, commit, .. } = self;
        format!(
            "Default options of every engine, source {commit}. Large: {} MB of data; many: {stores} stores; open stores \
             are looked at after {idle_seconds} s. Medians; times also the ninetieth percentile. Threads, descriptors \
             and memory are those above the process before opening.\n{table}",
            large_bytes / 1_000_000
        )
    }
}

fn cell(figure: &Figure, summary: Option<Summary>) -> String {
    match summary {
        None => "–".to_owned(),
        Some(Summary { median, p90, rounds }) if figure.spread && rounds > 1 => {
            format!("{} ({})", figure.unit.show(median), figure.unit.show(p90))
        }
        Some(Summary { median, .. }) => figure.unit.show(median),
    }
}

fn summary(all: &[f64]) -> Summary {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The smallest number that at least this share does not exceed.
    let at = |share: f64| sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1];
    Summary { median: at(0.5), p90: at(0.9), rounds: sorted.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let arguments = Small {
            engines: Vec::new(),
            rounds: 10,
            repeat: 1,
            stores: 3,
            bytes: 2_000_000,
            idle: 0.5,
            json: false,
            directory: None,
        };
        Report::new(&["alluvium", "other"], &arguments)
    }

    #[test]
    fn rounds_become_medians_and_percentiles() {
        let numbers: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(summary(&numbers), Summary { median: 5.0, p90: 9.0, rounds: 10 });
        assert_eq!(summary(&[3.0]), Summary { median: 3.0, p90: 3.0, rounds: 1 });
    }

    #[test]
    fn the_table_has_a_column_for_each_engine_and_dashes_for_what_failed() {
        let mut report = report();
        for ms in [2.0, 4.0, 30.0] {
            report.add("alluvium", Round::from([("brief_ns".into(), ms * 1e6), ("idle_threads".into(), 4.0)]));
        }
        report.fail("other", "brief", "no room".into());
        let text = report.table();
        let row = |heading: &str| text.lines().find(|line| line.contains(heading)).unwrap().to_owned();
        assert!(row("10 puts").contains("4.00 ms (30.00 ms)") && row("10 puts").contains('–'), "{text}");
        assert!(row("idle: threads").contains(" 4 "), "{text}");
        assert_eq!(report.failures().unwrap(), "failed: other brief");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["engines"][0]["figures"]["brief_ns"]["median"], 4e6);
        assert_eq!(json["engines"][1]["failed"]["brief"], "no room");
    }
}

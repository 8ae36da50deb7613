//! The measured figures of all engines: medians and percentiles, as a table or as JSON.

use super::figure::{Figure, Spread, Unit};
use super::host::Round;
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
    /// The smallest.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Rounds.
    pub rounds: usize,
}

/// All that was measured.
#[derive(Debug, Serialize)]
pub struct Report<Conditions> {
    /// The source.
    pub commit: String,
    machine: Machine,
    /// What was asked for.
    #[serde(flatten)]
    pub conditions: Conditions,
    engines: Vec<Row>,
    /// The engine that rates are compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratios_to: Option<&'static str>,
    /// The rows of the table.
    #[serde(skip)]
    rows: &'static [Figure],
}

#[derive(Debug, Serialize)]
struct Row {
    engine: &'static str,
    figures: BTreeMap<String, Summary>,
    /// Rates as quotients to those of another engine in the same round.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    ratios: BTreeMap<String, Summary>,
    /// Steps that failed, with the error.
    failed: BTreeMap<&'static str, String>,
    #[serde(skip)]
    all: BTreeMap<String, Vec<f64>>,
}

impl<Conditions> Report<Conditions> {
    /// An empty report.
    pub fn new(engines: &[&'static str], rows: &'static [Figure], conditions: Conditions) -> Self {
        let row = |engine: &&'static str| Row {
            engine,
            figures: BTreeMap::new(),
            ratios: BTreeMap::new(),
            failed: BTreeMap::new(),
            all: BTreeMap::new(),
        };
        let engines = engines.iter().map(row).collect();
        Self { commit: about::commit(), machine: Machine::here(), conditions, engines, ratios_to: None, rows }
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

    /// Compares all rates with those of an engine, round by round. An engine that failed is compared in the rounds that it
    /// has: the first ones.
    pub fn compare_with(&mut self, base: &'static str) {
        let Some(of_base) = self.row(base).map(|row| row.all.clone()) else { return };
        self.ratios_to = Some(base);
        for figure in self.rows.iter().filter(|figure| figure.unit == Unit::Rate) {
            let Some(of_base) = of_base.get(figure.name) else { continue };
            for row in self.engines.iter_mut().filter(|row| row.engine != base) {
                let Some(own) = row.all.get(figure.name) else { continue };
                let ratios: Vec<f64> = own.iter().zip(of_base).map(|(own, base)| own / base).collect();
                if !ratios.is_empty() {
                    row.ratios.insert(figure.name.to_owned(), summary(&ratios));
                }
            }
        }
    }

    /// Adds a failure, after which the engine has no further rounds of that step.
    pub fn fail(&mut self, engine: &str, step: &'static str, error: String) {
        if let Some(row) = self.row(engine) {
            row.failed.insert(step, error);
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
        for figure in self.rows {
            let cells = self.engines.iter().map(|row| figure.show(row.figures.get(figure.name).copied()));
            table.add_row(std::iter::once(figure.heading.to_owned()).chain(cells));
        }
        let Some(base) = self.ratios_to else { return table.to_string() };
        for figure in self.rows.iter().filter(|figure| figure.unit == Unit::Rate) {
            let ratio = Figure::new(figure.name, figure.heading, Unit::Ratio).with(Spread::Range);
            let cells = self.engines.iter().map(|row| ratio.show(row.ratios.get(figure.name).copied()));
            table.add_row(std::iter::once(format!("{}, to {base}", figure.heading)).chain(cells));
        }
        table.to_string()
    }
}

fn summary(all: &[f64]) -> Summary {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    // The smallest number that at least this share does not exceed.
    let at = |share: f64| sorted[((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len()) - 1];
    Summary { median: at(0.5), p90: at(0.9), min: at(0.0), max: at(1.0), rounds: sorted.len() }
}

#[cfg(test)]
mod tests {
    use super::super::figure::{Spread, Unit};
    use super::*;

    #[derive(Serialize)]
    struct Conditions {
        stores: u32,
    }

    static ROWS: [Figure; 2] = [
        Figure::new("brief_ns", "10 puts", Unit::Time).with(Spread::P90),
        Figure::new("idle_threads", "idle: threads", Unit::Count),
    ];

    #[test]
    fn rounds_become_medians_and_percentiles() {
        let numbers: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(summary(&numbers), Summary { median: 5.0, p90: 9.0, min: 1.0, max: 10.0, rounds: 10 });
        assert_eq!(summary(&[3.0]), Summary { median: 3.0, p90: 3.0, min: 3.0, max: 3.0, rounds: 1 });
    }

    #[test]
    fn rates_are_compared_round_by_round() {
        static RATES: [Figure; 1] = [Figure::new("create_rate", "create", Unit::Rate)];
        let mut report = Report::new(&["ours", "other"], &RATES, Conditions { stores: 1 });
        for (ours, other) in [(10.0, 5.0), (30.0, 10.0), (20.0, 20.0)] {
            report.add("ours", Round::from([("create_rate".into(), ours)]));
            report.add("other", Round::from([("create_rate".into(), other)]));
        }
        report.compare_with("other");
        let text = report.table();
        let row = text.lines().find(|line| line.contains("create, to other")).unwrap();
        assert!(row.contains("2.00 (1.00 to 3.00)") && row.contains('–'), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["engines"][0]["ratios"]["create_rate"]["median"], 2.0);
        assert_eq!((&json["ratios_to"], &json["engines"][1]["ratios"]), (&"other".into(), &serde_json::Value::Null));
    }

    #[test]
    fn the_table_has_a_column_for_each_engine_and_dashes_for_what_failed() {
        let mut report = Report::new(&["alluvium", "other"], &ROWS, Conditions { stores: 3 });
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
        assert_eq!(json["stores"], 3);
    }
}

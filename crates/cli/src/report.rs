//! Reports for people (a table) and for programs (a JSON object): each figure is added once and appears in both.

use crate::failure::Failure;
use crate::output::Output;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use serde_json::{Map, Value};

/// A list of named figures.
#[derive(Debug, Default)]
pub struct Report {
    labels: Vec<(&'static str, String)>,
    members: Map<String, Value>,
}

impl Report {
    /// An empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a figure: its JSON name and value, its label and text. A figure with an empty label is not in the table.
    pub fn add(&mut self, name: &str, label: &'static str, value: Value, text: String) -> &mut Self {
        if !label.is_empty() {
            self.labels.push((label, text));
        }
        self.members.insert(name.to_string(), value);
        self
    }

    /// Adds a count.
    pub fn count(&mut self, name: &str, label: &'static str, count: u64) -> &mut Self {
        self.add(name, label, count.into(), grouped(count))
    }

    /// Adds a size in bytes.
    pub fn size(&mut self, name: &str, label: &'static str, bytes: u64) -> &mut Self {
        self.add(name, label, bytes.into(), size(bytes))
    }

    /// Adds a number with two decimals; in JSON it is null if it is not finite.
    pub fn decimal(&mut self, name: &str, label: &'static str, number: f64) -> &mut Self {
        self.add(name, label, number.into(), format!("{number:.2}"))
    }

    /// Adds a figure for programs only.
    pub fn member(&mut self, name: &str, value: Value) -> &mut Self {
        self.add(name, "", value, String::new())
    }

    /// Adds a row for people only.
    pub fn text(&mut self, label: &'static str, text: String) -> &mut Self {
        self.labels.push((label, text));
        self
    }

    /// The report as a JSON object.
    pub fn json(&self) -> Value {
        Value::Object(self.members.clone())
    }

    /// The report as a table.
    pub fn table(&self) -> Table {
        let mut table = table(&[]);
        for (label, text) in &self.labels {
            table.add_row([(*label).to_string(), text.clone()]);
        }
        align_right(&mut table, 1);
        table
    }

    /// Prints the JSON object or the table.
    pub fn print(&self, json: bool) -> Result<(), Failure> {
        let mut output = Output::new();
        if json {
            output.line(self.json())?
        } else {
            output.line(self.table())?
        }
        output.finish()
    }
}

/// An empty table with these column headings.
pub fn table(heads: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    if !heads.is_empty() {
        table.set_header(heads);
    }
    table
}

/// Aligns all columns from this one on to the right.
pub fn align_right(table: &mut Table, from: usize) {
    table.column_iter_mut().skip(from).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
}

/// A number with a comma after every three digits.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size in the unit that fits best.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut number = bytes as f64 / 1024.0;
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    format!("{number:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
    }

    #[test]
    fn a_figure_appears_in_the_table_and_in_json() {
        let mut report = Report::new();
        report.count("keys", "keys", 1200).size("bytes", "bytes", 2048).decimal("none", "none", f64::NAN);
        report.member("hidden", Value::from("x"));
        assert_eq!(report.json().to_string(), r#"{"bytes":2048,"hidden":"x","keys":1200,"none":null}"#);
        let table = report.table().to_string();
        assert!(table.contains("1,200") && table.contains("2.0 KiB") && !table.contains("hidden"), "{table}");
    }
}

//! A figure of a report: its name in JSON, and how the table shows it.

use super::report::Summary;

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, shown in KiB or MiB.
    Bytes,
    /// Nanoseconds, shown in microseconds, milliseconds or seconds.
    Time,
    /// A number.
    Count,
    /// A quotient.
    Ratio,
    /// Operations a second.
    Rate,
}

/// What a table shows beside the median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// Nothing.
    None,
    /// The ninetieth percentile.
    P90,
    /// The smallest and the greatest.
    Range,
}

/// A figure.
#[derive(Debug)]
pub struct Figure {
    /// Its name in JSON.
    pub name: &'static str,
    /// Its row in the table.
    pub heading: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// What is shown beside its median.
    pub spread: Spread,
}

impl Figure {
    /// A figure of which only the median is shown.
    pub const fn new(name: &'static str, heading: &'static str, unit: Unit) -> Self {
        Self { name, heading, unit, spread: Spread::None }
    }

    /// The same with its spread.
    pub const fn with(self, spread: Spread) -> Self {
        Self { spread, ..self }
    }

    /// A cell of the table.
    pub fn show(&self, summary: Option<Summary>) -> String {
        let Some(Summary { median, p90, min, max, rounds }) = summary else { return "–".to_owned() };
        let median = self.unit.show(median);
        match self.spread {
            Spread::P90 if rounds > 1 => format!("{median} ({})", self.unit.show(p90)),
            Spread::Range if rounds > 1 => format!("{median} ({} to {})", self.unit.show(min), self.unit.show(max)),
            _ => median,
        }
    }
}

impl Unit {
    /// A number of this unit as text.
    pub fn show(self, number: f64) -> String {
        const KIB: f64 = 1024.0;
        match self {
            Self::Count => format!("{}", tenths(number)),
            Self::Ratio => format!("{:.2}", number),
            Self::Rate => crate::text::count(number),
            Self::Time if number >= 1e10 => format!("{:.1} s", number / 1e9),
            Self::Time if number >= 1e5 || number == 0.0 => format!("{:.2} ms", number / 1e6),
            Self::Time => format!("{:.2} us", number / 1e3),
            Self::Bytes if number.abs() >= KIB * KIB => format!("{:.1} MiB", number / KIB / KIB),
            Self::Bytes if number.abs() >= 10.0 * KIB => format!("{:.0} KiB", number / KIB),
            Self::Bytes if number.abs() >= KIB || number == 0.0 => format!("{} KiB", tenths(number / KIB)),
            Self::Bytes => format!("{number:.0} B"),
        }
    }
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (unit, number, shown) in [
            (Unit::Bytes, 0.0, "0 KiB"),
            (Unit::Bytes, 300.4, "300 B"),
            (Unit::Bytes, -12.0, "-12 B"),
            (Unit::Bytes, 4096.0, "4 KiB"),
            (Unit::Bytes, 4400.0, "4.3 KiB"),
            (Unit::Bytes, 17.3 * 1024.0, "17 KiB"),
            (Unit::Bytes, 17.3 * 1024.0 * 1024.0, "17.3 MiB"),
            (Unit::Time, 0.0, "0.00 ms"),
            (Unit::Time, 2_345.0, "2.35 us"),
            (Unit::Time, 1_234_567.0, "1.23 ms"),
            (Unit::Time, 12_345_678_901.0, "12.3 s"),
            (Unit::Count, 7.04, "7"),
            (Unit::Ratio, 1.234, "1.23"),
            (Unit::Rate, 12_345.6, "12.3k"),
        ] {
            assert_eq!(unit.show(number), shown, "{unit:?} {number}");
        }
    }

    #[test]
    fn cells_show_the_spread_of_several_rounds() {
        let figure = Figure::new("a", "A", Unit::Count);
        let summary = Summary { median: 2.0, p90: 4.0, min: 1.0, max: 5.0, rounds: 3 };
        assert_eq!(figure.show(Some(summary)), "2");
        assert_eq!(figure.show(None), "–");
        let figure = figure.with(Spread::P90);
        assert_eq!(figure.show(Some(summary)), "2 (4)");
        let figure = figure.with(Spread::Range);
        assert_eq!(figure.show(Some(summary)), "2 (1 to 5)");
        assert_eq!(figure.show(Some(Summary { rounds: 1, ..summary })), "2");
    }
}

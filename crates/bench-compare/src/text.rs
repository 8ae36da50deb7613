//! Numbers and lines as text.

use crate::record::Record;

/// A count with three digits: 950, 12.3k, 4.56M.
pub fn count(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        n if n >= 999.5e6 => (number / 1e9, "G"),
        n if n >= 999.5e3 => (number / 1e6, "M"),
        n if n >= 999.5 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    format!("{}{unit}", figures(scaled))
}

/// A number with about three digits.
pub fn figures(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        n if n >= 99.95 => format!("{number:.0}"),
        n if n >= 9.995 => format!("{number:.1}"),
        n if n >= 0.0095 => format!("{number:.2}"),
        _ => format!("{number:.1e}"),
    }
}

/// A number that may be missing.
pub fn figures_or_dash(number: Option<f64>) -> String {
    number.map_or_else(|| "–".to_owned(), figures)
}

/// A measurement in a line.
pub fn line(record: &Record) -> String {
    let outcome = &record.outcome;
    format!(
        "{}: {} ops/s, {} us CPU, p99 {} us, longest {} ms, settled in {} s, other load {:.0}%",
        outcome.workload,
        count(outcome.ops_per_s),
        figures(outcome.cpu_us_per_op),
        figures(outcome.p99_us),
        figures(outcome.max_ms),
        figures(outcome.settle_s),
        record.other_load_percent
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_three_figures() {
        for (number, shown) in [
            (0.0, "0"),
            (7.0, "7.00"),
            (999.0, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (999_600.0, "1.00M"),
            (4_560_000.0, "4.56M"),
            (2.5e9, "2.50G"),
        ] {
            assert_eq!(count(number), shown);
        }
        assert_eq!((figures(0.001), figures_or_dash(None)), ("1.0e-3".to_owned(), "–".to_owned()));
    }
}

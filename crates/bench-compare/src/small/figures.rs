//! The figures of the report: their names in JSON, and how the table shows them.

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes, shown in KiB or MiB.
    Bytes,
    /// Nanoseconds, shown in milliseconds.
    Time,
    /// A number.
    Count,
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
    /// Whether its ninetieth percentile is shown, too.
    pub spread: bool,
}

const fn bytes(name: &'static str, heading: &'static str) -> Figure {
    Figure { name, heading, unit: Unit::Bytes, spread: false }
}

const fn count(name: &'static str, heading: &'static str) -> Figure {
    Figure { name, heading, unit: Unit::Count, spread: false }
}

const fn time(name: &'static str, heading: &'static str) -> Figure {
    Figure { name, heading, unit: Unit::Time, spread: true }
}

/// All of them, in the order of the table. Memory, descriptors and threads are those above the process before opening.
pub static FIGURES: [Figure; 31] = [
    bytes("empty_open_allocated", "empty, open: blocks"),
    bytes("empty_open_length", "empty, open: length"),
    bytes("empty_closed_allocated", "empty, closed: blocks"),
    bytes("empty_closed_length", "empty, closed: length"),
    bytes("thousand_open_allocated", "1,000 pairs, open: blocks"),
    bytes("thousand_open_length", "1,000 pairs, open: length"),
    bytes("thousand_closed_allocated", "1,000 pairs, closed: blocks"),
    bytes("thousand_closed_length", "1,000 pairs, closed: length"),
    bytes("large_open_allocated", "large, open: blocks"),
    bytes("large_open_length", "large, open: length"),
    bytes("large_closed_allocated", "large, closed: blocks"),
    bytes("large_closed_length", "large, closed: length"),
    count("idle_threads", "idle: threads"),
    count("idle_descriptors", "idle: descriptors"),
    bytes("idle_resident", "idle: resident (VmRSS)"),
    bytes("idle_anonymous", "idle: of it anonymous (RssAnon)"),
    bytes("idle_reserved", "idle: address space (VmSize)"),
    time("brief_ns", "open, 10 puts, close, remove"),
    time("create_ns", "open a new store"),
    time("close_ns", "close after 100 puts"),
    time("reopen_ns", "open it again"),
    time("close_again_ns", "close it again"),
    time("many_open_ns", "many: open all, 1 put each"),
    time("many_close_ns", "many: close all"),
    count("many_threads", "many: threads, all"),
    count("many_descriptors", "many: descriptors, each"),
    bytes("many_resident", "many: resident, each"),
    bytes("many_anonymous", "many: of it anonymous, each"),
    bytes("many_reserved", "many: address space, each"),
    bytes("many_open_allocated", "many: blocks on disk, each"),
    bytes("many_closed_allocated", "many: blocks once closed, each"),
];

impl Unit {
    /// A number of this unit as text.
    pub fn show(self, number: f64) -> String {
        match self {
            Self::Count => format!("{}", (number * 10.0).round() / 10.0),
            Self::Time => format!("{:.2} ms", number / 1e6),
            Self::Bytes if number.abs() >= 1024.0 * 1024.0 => format!("{:.1} MiB", number / 1024.0 / 1024.0),
            Self::Bytes => format!("{:.0} KiB", number / 1024.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        assert_eq!(Unit::Bytes.show(4096.0), "4 KiB");
        assert_eq!(Unit::Bytes.show(17.3 * 1024.0 * 1024.0), "17.3 MiB");
        assert_eq!(Unit::Time.show(1_234_567.0), "1.23 ms");
        assert_eq!(Unit::Count.show(7.04), "7");
    }

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
    }
}

//! The figures of the report, in the order of its table. Memory, descriptors and threads are those above the process
//! before opening.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn bytes(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Bytes)
}

const fn count(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Count)
}

const fn time(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Time).with(Spread::P90)
}

/// All of them.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = FIGURES.iter().map(|figure| figure.name).collect();
        assert_eq!(names.len(), FIGURES.len());
    }
}

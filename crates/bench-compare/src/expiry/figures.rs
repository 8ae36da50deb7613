//! The figures of the report, in the order of its table.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn figure(name: &'static str, heading: &'static str, unit: Unit) -> Figure {
    Figure::new(name, heading, unit).with(Spread::Range)
}

/// All of them.
pub static FIGURES: [Figure; 10] = [
    figure("load_rate", "puts, 1/s", Unit::Rate),
    figure("before_bytes", "space before anything expires", Unit::Bytes),
    figure("get_ns", "get of a pair that stays, random", Unit::Time),
    figure("seen_by_gets", "expired pairs of these that gets see at once, of a thousand", Unit::Count),
    figure("seen_by_scan", "pairs that a scan sees / pairs that stay", Unit::Ratio),
    figure("after_bytes", "space in the end", Unit::Bytes),
    figure("back_ns", "time until nine tenths of what is freed is free", Unit::Time),
    figure("freed_ratio", "space in the end / before", Unit::Ratio),
    figure("written_bytes", "bytes written to the device meanwhile", Unit::Bytes),
    figure("written_ratio", "these / space before", Unit::Ratio),
];

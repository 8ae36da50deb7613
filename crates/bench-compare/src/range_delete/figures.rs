//! The figures of the report, in the order of its table.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn time(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Time).with(Spread::Range)
}

const fn bytes(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Bytes).with(Spread::Range)
}

const fn ratio(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Ratio).with(Spread::Range)
}

/// All of them.
pub static FIGURES: [Figure; 21] = [
    time("load_ns", "load, random order"),
    bytes("loaded_allocated", "loaded: blocks"),
    time("before_outside_ns", "before: seek outside the range"),
    time("before_into_ns", "before: seek into the range"),
    ratio("before_ratio", "before: into / outside"),
    time("delete_ns", "delete the range"),
    bytes("delete_logged", "deleted: bytes logged"),
    bytes("delete_grown", "deleted: blocks, more"),
    time("deleted_outside_ns", "deleted: seek outside the range"),
    time("deleted_into_ns", "deleted: seek into the range"),
    ratio("deleted_ratio", "deleted: into / outside"),
    time("flush_ns", "flush"),
    bytes("flushed_allocated", "flushed: blocks"),
    time("flushed_outside_ns", "flushed: seek outside the range"),
    time("flushed_into_ns", "flushed: seek into the range"),
    ratio("flushed_ratio", "flushed: into / outside"),
    time("compact_ns", "compact"),
    bytes("compacted_allocated", "compacted: blocks"),
    time("compacted_outside_ns", "compacted: seek outside the range"),
    time("compacted_into_ns", "compacted: seek into the range"),
    ratio("compacted_ratio", "compacted: into / outside"),
];

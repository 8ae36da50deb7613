//! The figures of the report, in the order of its table.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn figure(name: &'static str, heading: &'static str, unit: Unit) -> Figure {
    Figure::new(name, heading, unit).with(Spread::Range)
}

/// All of them.
pub static FIGURES: [Figure; 9] = [
    figure("ingest_rate", "ingested, pairs/s", Unit::Rate),
    figure("ingest_ns", "ingest: building the files, and entering", Unit::Time),
    figure("settle_ns", "flush and background work after it", Unit::Time),
    figure("cpu_ns", "processor time of all that, a pair", Unit::Time),
    figure("device_bytes", "bytes written to the device", Unit::Bytes),
    figure("file_length", "bytes of files", Unit::Bytes),
    figure("device_ratio", "device bytes / file bytes", Unit::Ratio),
    figure("get_ns", "get, random", Unit::Time),
    figure("put_rate", "batches of puts in key order, with settling, pairs/s", Unit::Rate),
];

//! The figures of the report, in the order of its table.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn figure(name: &'static str, heading: &'static str, unit: Unit) -> Figure {
    Figure::new(name, heading, unit).with(Spread::Range)
}

/// All of them.
pub static FIGURES: [Figure; 17] = [
    figure("store_bytes", "bytes of the loaded store", Unit::Bytes),
    figure("alone_rate", "puts alone, 1/s", Unit::Rate),
    figure("alone_max_ns", "longest put alone", Unit::Time),
    figure("checkpoint_ns", "checkpoint", Unit::Time),
    figure("checkpoint_bytes", "bytes that are its own, not linked", Unit::Bytes),
    figure("checkpoint_rate", "puts during it, 1/s", Unit::Rate),
    figure("checkpoint_max_ns", "longest put during it", Unit::Time),
    figure("open_ns", "opening the checkpoint and counting its pairs", Unit::Time),
    figure("backup_ns", "first backup", Unit::Time),
    figure("backup_bytes", "its bytes", Unit::Bytes),
    figure("backup_rate", "puts during it, 1/s", Unit::Rate),
    figure("backup_max_ns", "longest put during it", Unit::Time),
    figure("between_bytes", "bytes put between the backups", Unit::Bytes),
    figure("again_ns", "second backup", Unit::Time),
    figure("again_bytes", "bytes that it added", Unit::Bytes),
    figure("again_rate", "puts during it, 1/s", Unit::Rate),
    figure("again_max_ns", "longest put during it", Unit::Time),
];

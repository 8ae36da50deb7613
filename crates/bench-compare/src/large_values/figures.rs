//! The figures of the report, in the order of its table.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn figure(name: &'static str, heading: &'static str, unit: Unit) -> Figure {
    Figure::new(name, heading, unit).with(Spread::Range)
}

/// All of them.
pub static FIGURES: [Figure; 12] = [
    figure("load_rate", "puts, MiB/s", Unit::Rate),
    figure("overwrite_rate", "overwrites, MiB/s", Unit::Rate),
    figure("overwrite_max_ns", "longest overwrite", Unit::Time),
    figure("settle_ns", "flush and background work after them", Unit::Time),
    figure("settled_rate", "overwrites with that, MiB/s", Unit::Rate),
    figure("cpu_ns", "processor time of all that, a MiB", Unit::Time),
    figure("device_ratio", "bytes written to the device / bytes put", Unit::Ratio),
    figure("peak_ratio", "most space / bytes of values, during overwrites", Unit::Ratio),
    figure("settled_ratio", "space / bytes of values, settled", Unit::Ratio),
    figure("compacted_ratio", "space / bytes of values, compacted", Unit::Ratio),
    figure("get_rate", "gets, random, MiB/s", Unit::Rate),
    figure("get_ns", "get, random", Unit::Time),
];

//! The figures of the report, in the order of its table.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn rate(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Rate).with(Spread::Range)
}

const fn each(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Ratio)
}

/// All of them. Reading changes nothing, so it is not settled.
pub static FIGURES: &[Figure] = &[
    rate("create_rate", "create: operations/s"),
    rate("create_settled_rate", "create: operations/s, settled"),
    each("create_gets", "create: gets each"),
    each("create_puts", "create: puts each"),
    rate("stat_rate", "stat: operations/s"),
    each("stat_gets", "stat: gets each"),
    rate("readdir_rate", "readdir: entries/s"),
    rate("rename_rate", "rename: operations/s"),
    rate("rename_settled_rate", "rename: operations/s, settled"),
    each("rename_gets", "rename: gets each"),
    each("rename_puts", "rename: puts each"),
    rate("unlink_rate", "unlink: operations/s"),
    rate("unlink_settled_rate", "unlink: operations/s, settled"),
    each("unlink_gets", "unlink: gets each"),
    each("unlink_puts", "unlink: puts each"),
];

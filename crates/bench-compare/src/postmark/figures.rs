//! The figures of the report, in the order of its table.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn ranged(name: &'static str, heading: &'static str, unit: Unit) -> Figure {
    Figure::new(name, heading, unit).with(Spread::Range)
}

/// The figures of phases: names begin with the phase's.
macro_rules! of_phases {
    ($($phase:literal: $heading:literal;)*) => {
        &[$(
            ranged(concat!($phase, "_rate"), concat!($heading, ": operations/s"), Unit::Rate),
            ranged(concat!($phase, "_settled_rate"), concat!($heading, ": operations/s, settled"), Unit::Rate),
            ranged(concat!($phase, "_settle_ns"), concat!($heading, ": settling"), Unit::Time),
            Figure::new(concat!($phase, "_gets"), concat!($heading, ": gets each"), Unit::Ratio),
            Figure::new(concat!($phase, "_puts"), concat!($heading, ": puts each"), Unit::Ratio),
            Figure::new(concat!($phase, "_written"), concat!($heading, ": bytes written each"), Unit::Bytes),
            Figure::new(concat!($phase, "_amplification"), concat!($heading, ": written/user bytes"), Unit::Ratio),
        )*]
    };
}

/// All of them. Deletes have no user bytes.
pub static FIGURES: &[Figure] = of_phases! {
    "create": "create";
    "reads0": "0% reads";
    "reads10": "10% reads";
    "reads20": "20% reads";
    "delete": "delete";
};

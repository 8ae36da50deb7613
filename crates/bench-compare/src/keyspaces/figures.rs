//! The figures of the report, in the order of its table.

use crate::rounds::figure::{Figure, Spread, Unit};

const fn time(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Time).with(Spread::Range)
}

const fn bytes(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Bytes)
}

/// Memory: it varies.
const fn memory(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Bytes).with(Spread::Range)
}

const fn count(name: &'static str, heading: &'static str) -> Figure {
    Figure::new(name, heading, Unit::Count)
}

/// All of them.
pub static FIGURES: [Figure; 54] = [
    time("empty_new_ns", "empty: open a new store"),
    time("empty_create_ns", "empty: create all"),
    memory("empty_created_resident", "empty: created: resident, each"),
    memory("empty_created_anonymous", "empty: created: of it anonymous, each"),
    count("empty_created_descriptors", "empty: created: descriptors, each"),
    count("empty_created_threads", "empty: created: threads, more"),
    count("empty_created_files", "empty: created: files"),
    bytes("empty_created_allocated", "empty: created: blocks"),
    time("empty_close_ns", "empty: close"),
    count("empty_closed_files", "empty: closed: files"),
    bytes("empty_closed_allocated", "empty: closed: blocks"),
    time("empty_reopen_ns", "empty: open it and all keyspaces"),
    memory("empty_reopened_resident", "empty: opened again: resident, all"),
    memory("empty_reopened_anonymous", "empty: opened again: of it anonymous, all"),
    count("empty_reopened_descriptors", "empty: opened again: descriptors, all"),
    time("empty_drop_ns", "empty: drop half of them"),
    count("empty_dropped_files", "empty: dropped: files"),
    bytes("empty_dropped_allocated", "empty: dropped: blocks"),
    time("empty_close_dropped_ns", "empty: close"),
    count("empty_closed_dropped_files", "empty: closed: files"),
    bytes("empty_closed_dropped_allocated", "empty: closed: blocks"),
    time("empty_reopen_half_ns", "empty: open it and the other half"),
    count("empty_half_files", "empty: opened again: files"),
    bytes("empty_half_allocated", "empty: opened again: blocks"),
    time("filled_create_ns", "filled: create all"),
    memory("filled_created_resident", "filled: created: resident, each"),
    memory("filled_created_anonymous", "filled: created: of it anonymous, each"),
    count("filled_created_descriptors", "filled: created: descriptors, each"),
    count("filled_created_files", "filled: created: files"),
    bytes("filled_created_allocated", "filled: created: blocks"),
    time("filled_write_ns", "filled: write all pairs"),
    memory("filled_written_resident", "filled: written: resident, each"),
    memory("filled_written_anonymous", "filled: written: of it anonymous, each"),
    count("filled_written_descriptors", "filled: written: descriptors, each"),
    count("filled_written_files", "filled: written: files"),
    bytes("filled_written_allocated", "filled: written: blocks"),
    time("filled_read_ns", "filled: read all pairs"),
    time("filled_close_ns", "filled: close"),
    count("filled_closed_files", "filled: closed: files"),
    bytes("filled_closed_allocated", "filled: closed: blocks"),
    time("filled_reopen_ns", "filled: open it and all keyspaces"),
    memory("filled_reopened_resident", "filled: opened again: resident, all"),
    memory("filled_reopened_anonymous", "filled: opened again: of it anonymous, all"),
    count("filled_reopened_descriptors", "filled: opened again: descriptors, all"),
    time("filled_first_read_ns", "filled: read one pair of each"),
    time("filled_drop_ns", "filled: drop half of them"),
    count("filled_dropped_files", "filled: dropped: files"),
    bytes("filled_dropped_allocated", "filled: dropped: blocks"),
    time("filled_close_dropped_ns", "filled: close"),
    count("filled_closed_dropped_files", "filled: closed: files"),
    bytes("filled_closed_dropped_allocated", "filled: closed: blocks"),
    time("filled_reopen_half_ns", "filled: open it and the other half"),
    count("filled_half_files", "filled: opened again: files"),
    bytes("filled_half_allocated", "filled: opened again: blocks"),
];

//! A progress bar on standard error. It shows itself only where that is a terminal.

use alluvium::{CheckProgress, CompactProgress};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Read;

/// How far a load is.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    counts_pairs: bool,
}

impl Progress {
    /// Counts pairs up to a known number.
    pub fn of_pairs(pairs: u64) -> Self {
        let bar = ProgressBar::new(pairs);
        Self {
            bar: styled(bar, "{bar:30} {human_pos} of {human_len} pairs, {per_sec}, {eta} left"),
            counts_pairs: true,
        }
    }

    /// Counts bytes read, up to a number if it is known.
    pub fn of_bytes(bytes: Option<u64>) -> Self {
        let bar = match bytes {
            Some(bytes) => {
                styled(ProgressBar::new(bytes), "{bar:30} {bytes} of {total_bytes}, {msg}, {bytes_per_sec}, {eta} left")
            }
            None => styled(ProgressBar::no_length(), "{spinner} {bytes}, {msg}, {bytes_per_sec}"),
        };
        bar.set_message("0 pairs");
        Self { bar, counts_pairs: false }
    }

    /// The same bytes, counted as they are read where bytes are what counts.
    pub fn watch(&self, reader: Box<dyn Read>) -> Box<dyn Read> {
        if self.counts_pairs { reader } else { Box::new(self.bar.wrap_read(reader)) }
    }

    /// So many bytes are read.
    pub fn reach(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// So many pairs are written.
    pub fn advance(&self, pairs: u64) {
        if self.counts_pairs {
            self.bar.set_position(pairs);
        } else if !self.bar.is_hidden() {
            self.bar.set_message(format!("{pairs} pairs"));
        }
    }

    /// A line of text above the bar, or just on standard error where there is none.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// How far a check or a repair is.
#[derive(Debug)]
pub struct CheckBar {
    bar: ProgressBar,
}

impl CheckBar {
    /// Nothing is done yet.
    pub fn new() -> Self {
        Self { bar: styled(ProgressBar::new(0), "{bar:30} {bytes} of {total_bytes}, {msg}, {eta} left") }
    }

    /// Shows how far it is.
    pub fn show(&self, progress: CheckProgress<'_>) {
        if !self.bar.is_hidden() {
            self.bar.set_length(progress.bytes_total);
            self.bar.set_position(progress.bytes_done);
            self.bar.set_message(progress.file.to_string());
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// How far a compaction is.
#[derive(Debug)]
pub struct CompactBar {
    bar: ProgressBar,
}

impl CompactBar {
    /// Nothing is done yet.
    pub fn new() -> Self {
        Self {
            bar: styled(ProgressBar::new(0), "{bar:30} {bytes} of about {total_bytes}, {bytes_per_sec}, {eta} left"),
        }
    }

    /// Shows how far it is.
    pub fn show(&self, progress: CompactProgress) {
        self.bar.set_length(progress.bytes_total);
        self.bar.set_position(progress.bytes_done);
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A template that cannot be read would leave the bar in its default style: no reason to fail a load.
pub fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(error) => {
            debug_assert!(false, "progress template {template:?}: {error}");
            bar
        }
    }
}

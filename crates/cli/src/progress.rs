//! Progress bars on standard error. They appear only on a terminal.

use alluvium::{CheckProgress, CompactProgress};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::Read;

/// The progress of a load.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    counts_pairs: bool,
}

impl Progress {
    /// Counts pairs up to a known total.
    pub fn of_pairs(pairs: u64) -> Self {
        let bar = ProgressBar::new(pairs);
        Self {
            bar: styled(bar, "{bar:30} {human_pos} of {human_len} pairs, {per_sec}, {eta} left"),
            counts_pairs: true,
        }
    }

    /// Counts pairs up to a total that is an estimate.
    #[cfg(feature = "rocksdb")]
    pub fn of_about_pairs(pairs: u64) -> Self {
        let bar = ProgressBar::new(pairs);
        Self {
            bar: styled(bar, "{bar:30} {human_pos} of about {human_len} pairs, {per_sec}, {eta} left"),
            counts_pairs: true,
        }
    }

    /// Counts bytes read, up to the total if it is known.
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

    /// Wraps a reader so that the bytes read are counted, if the bar counts bytes.
    pub fn wrap(&self, reader: Box<dyn Read>) -> Box<dyn Read> {
        if self.counts_pairs { reader } else { Box::new(self.bar.wrap_read(reader)) }
    }

    /// Sets the number of bytes read.
    pub fn reach(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// Adds to the number of pairs written.
    pub fn advance(&self, pairs: u64) {
        if self.counts_pairs {
            self.bar.set_position(pairs);
        } else if !self.bar.is_hidden() {
            self.bar.set_message(format!("{pairs} pairs"));
        }
    }

    /// Prints a line above the bar, or on standard error if there is no bar.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| eprintln!("{text}"));
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The progress of a check, a repair or a conversion.
#[derive(Debug)]
pub struct CheckBar {
    bar: ProgressBar,
}

impl CheckBar {
    /// A bar at 0.
    pub fn new() -> Self {
        Self { bar: styled(ProgressBar::new(0), "{bar:30} {bytes} of {total_bytes}, {msg}, {eta} left") }
    }

    /// Shows the progress.
    pub fn show(&self, progress: CheckProgress<'_>) {
        if !self.bar.is_hidden() {
            self.bar.set_length(progress.bytes_total);
            self.bar.set_position(progress.bytes_done);
            self.bar.set_message(progress.file.to_string());
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The progress of a check of the file system.
#[derive(Debug)]
pub struct KeysBar {
    bar: ProgressBar,
}

impl KeysBar {
    /// A bar at 0, for about so many keys.
    pub fn new(keys: u64) -> Self {
        Self { bar: styled(ProgressBar::new(keys), "{bar:30} {human_pos} of about {human_len} keys, {eta} left") }
    }

    /// Shows the progress.
    pub fn show(&self, keys: u64) {
        self.bar.set_position(keys);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The progress of a compaction.
#[derive(Debug)]
pub struct CompactBar {
    bar: ProgressBar,
}

impl CompactBar {
    /// A bar at 0.
    pub fn new() -> Self {
        Self {
            bar: styled(ProgressBar::new(0), "{bar:30} {bytes} of about {total_bytes}, {bytes_per_sec}, {eta} left"),
        }
    }

    /// Shows the progress.
    pub fn show(&self, progress: CompactProgress) {
        self.bar.set_length(progress.bytes_total);
        self.bar.set_position(progress.bytes_done);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Sets the template of a bar. An invalid template leaves the default style: that is no reason to fail a command.
pub fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(error) => {
            debug_assert!(false, "progress template {template:?}: {error}");
            bar
        }
    }
}

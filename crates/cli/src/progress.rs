//! Progress bars on standard error. They appear only on a terminal.

use alluvium::{CheckProgress, CompactProgress};
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use std::cell::Cell;
use std::fmt::Write;
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
        Self { bar: styled(bar, "{bar:30} {human_pos} of {human_len} pairs, {per_sec}{left}"), counts_pairs: true }
    }

    /// Counts pairs up to a total that is an estimate.
    #[cfg(feature = "rocksdb")]
    pub fn of_about_pairs(pairs: u64) -> Self {
        let bar = ProgressBar::new(pairs);
        Self {
            bar: styled(bar, "{bar:30} {human_pos} of about {human_len} pairs, {per_sec}{left}"),
            counts_pairs: true,
        }
    }

    /// Counts bytes read, up to the total if it is known.
    pub fn of_bytes(bytes: Option<u64>) -> Self {
        let bar = match bytes {
            Some(bytes) => {
                styled(ProgressBar::new(bytes), "{bar:30} {bytes} of {total_bytes}, {msg}, {bytes_per_sec}{left}")
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
    /// Whether the total was known at the last call.
    is_known: Cell<bool>,
}

impl CheckBar {
    /// Nothing is shown before the first call of `show`.
    pub fn new() -> Self {
        Self::of(ProgressBar::new(0))
    }

    fn of(bar: ProgressBar) -> Self {
        Self { bar: styled(bar, "{msg}"), is_known: Cell::new(false) }
    }

    /// Shows the progress.
    pub fn show(&self, progress: CheckProgress<'_>) {
        self.show_file(progress.file, progress.bytes_done, progress.bytes_total);
    }

    /// Without a total there is only the name of the file: a bar would be full.
    fn show_file(&self, file: &str, bytes_done: u64, bytes_total: u64) {
        if self.bar.is_hidden() {
            return;
        }
        let is_known = bytes_total > 0;
        if self.is_known.replace(is_known) != is_known {
            self.bar.set_style(style(if is_known { CHECK } else { "{msg}" }));
        }
        // At once, so that no line has the one without the other.
        self.bar.update(|state| {
            state.set_len(bytes_total);
            state.set_pos(bytes_done);
        });
        self.bar.set_message(if is_known { format!(", {file}") } else { file.to_string() });
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// The message is a comma and the name of the file.
const CHECK: &str = "{bar:30} {bytes} of {total_bytes}{msg}{left}";

/// The progress of a check of the file system.
#[derive(Debug)]
pub struct KeysBar {
    bar: ProgressBar,
}

impl KeysBar {
    /// A bar at 0, for about so many keys.
    pub fn new(keys: u64) -> Self {
        Self { bar: styled(ProgressBar::new(keys), "{bar:30} {human_pos} of about {human_len} keys{left}") }
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
        Self { bar: styled(ProgressBar::new(0), "{bar:30} {bytes} of about {total_bytes}, {bytes_per_sec}{left}") }
    }

    /// Shows the progress.
    pub fn show(&self, progress: CompactProgress) {
        // Without a total the bar would be full.
        if progress.bytes_total > 0 {
            self.bar.update(|state| {
                state.set_len(progress.bytes_total);
                state.set_pos(progress.bytes_done);
            });
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Sets the template of a bar. Its key `left` is the time left, with a comma before it.
pub fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    bar.with_style(style(template))
}

/// An invalid template is the default style: that is no reason to fail a command.
fn style(template: &str) -> ProgressStyle {
    match ProgressStyle::with_template(template) {
        Ok(style) => style.with_key("left", write_time_left),
        Err(error) => {
            debug_assert!(false, "progress template {template:?}: {error}");
            ProgressStyle::default_bar()
        }
    }
}

/// Nothing before the first progress: the time is unknown then, and not zero.
fn write_time_left(state: &ProgressState, out: &mut dyn Write) {
    if state.pos() > 0 {
        // Writing to a string does not fail.
        let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::{ProgressDrawTarget, TermLike};
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A terminal that keeps all that is written.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<Vec<String>>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            200
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            let text = text.trim();
            if !text.is_empty() {
                self.0.lock().unwrap().push(text.to_owned());
            }
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Regression test: a check began with "0 B of 0 B" in a full bar, then showed "0 B of 56.41 MiB, , 0s left".
    #[test]
    fn a_check_shows_only_what_is_known() {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = CheckBar::of(ProgressBar::with_draw_target(Some(0), target));
        let taken = || std::mem::take(&mut *terminal.0.lock().unwrap());
        bar.show_file("MANIFEST", 0, 0);
        assert_eq!(taken().last().map(String::as_str), Some("MANIFEST"));
        bar.show_file("000001.branch", 0, 4096);
        let lines = taken();
        assert!(lines.last().unwrap().ends_with(" 0 B of 4.00 KiB, 000001.branch"), "{lines:?}");
        bar.show_file("000002.branch", 1024, 4096);
        let lines = [lines, taken()].concat();
        let last = lines.last().unwrap();
        assert!(last.contains("1.00 KiB of 4.00 KiB, 000002.branch, ") && last.ends_with(" left"), "{lines:?}");
        assert!(lines.iter().all(|line| !line.contains(", ,") && !line.contains("of 0 B")), "{lines:?}");
    }
}

//! The figures of a round, gathered while it runs.

use super::disk::Disk;
use super::host::Round;
use super::process::Usage;
use std::time::Instant;

/// Figures by name.
#[derive(Debug, Default)]
pub struct Gathered(pub Round);

impl Gathered {
    /// Adds a figure.
    pub fn set(&mut self, name: &str, number: f64) {
        self.0.insert(name.to_owned(), number);
    }

    /// The time since a moment.
    pub fn time(&mut self, name: &str, since: Instant) {
        self.set(name, since.elapsed().as_nanos() as f64);
    }

    /// The space of files.
    pub fn disk(&mut self, prefix: &str, disk: Disk) {
        self.set(&format!("{prefix}_allocated"), disk.allocated as f64);
        self.set(&format!("{prefix}_length"), disk.length as f64);
    }

    /// What `parts` stores or keyspaces added to the process: threads in all, the rest of each.
    pub fn usage(&mut self, prefix: &str, before: Usage, now: Usage, parts: u32) {
        let more = |now: u64, before: u64| now as f64 - before as f64;
        let each = f64::from(parts.max(1));
        self.set(&format!("{prefix}_threads"), more(now.threads, before.threads));
        self.set(&format!("{prefix}_descriptors"), more(now.descriptors, before.descriptors) / each);
        self.set(&format!("{prefix}_resident"), more(now.resident, before.resident) / each);
        self.set(&format!("{prefix}_anonymous"), more(now.anonymous, before.anonymous) / each);
        self.set(&format!("{prefix}_reserved"), more(now.reserved, before.reserved) / each);
    }
}

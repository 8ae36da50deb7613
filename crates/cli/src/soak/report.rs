//! The progress of a soak, as a line for people or an object for programs.

use super::board::{Board, Total};
use super::limits::ResourceUse;
use super::work::Work;
use crate::duration::format_duration;
use crate::report::{grouped, size};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How the rounds ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Rounds ended by SIGKILL.
    pub kills: u64,
    /// Rounds ended by closing the store.
    pub closes: u64,
}

/// The figures of one moment.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// Time since the start.
    pub elapsed: Duration,
    /// Ended rounds.
    pub ends: Ends,
    /// The most resources that any round used.
    pub peak: ResourceUse,
    /// The settings.
    pub work: &'a Work,
    /// The counters.
    pub board: &'a Board,
}

impl Progress<'_> {
    fn writes(&self) -> u64 {
        (0..self.work.threads).map(|writer| self.board.acknowledged(writer).load(Ordering::Acquire)).sum()
    }

    /// For people.
    pub fn line(&self) -> String {
        let count = |total| grouped(self.board.get(total));
        format!(
            "{:>8}  kills {}, closes {}, opened {} (longest {:.2} s), verified {}; writes {}, gets {}, pairs scanned {}, snapshots {}; \
             found in flight {}, cut unsynced {}; peak memory {}, disk {} for {} live, files {}, threads {}",
            format_duration(self.elapsed),
            grouped(self.ends.kills),
            grouped(self.ends.closes),
            count(Total::Opened),
            self.board.get(Total::OpenLongest) as f64 / 1e6,
            count(Total::Verified),
            grouped(self.writes()),
            count(Total::Gets),
            count(Total::Scanned),
            count(Total::Snapshots),
            count(Total::InFlight),
            count(Total::Cut),
            size(self.peak.memory),
            size(self.peak.disk),
            size(self.board.get(Total::LiveBytes)),
            self.peak.files,
            self.peak.threads,
        )
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let Work { seed, threads, keys, value_size, memory } = *self.work;
        let total = |total| self.board.get(total);
        json!({
            "elapsed_s": (self.elapsed.as_secs_f64() * 10.0).round() / 10.0,
            "seed": seed,
            "threads": threads,
            "keys": keys,
            "value_size": value_size,
            "memory": memory,
            "kills": self.ends.kills,
            "closes": self.ends.closes,
            "opened": total(Total::Opened),
            "open_longest_s": total(Total::OpenLongest) as f64 / 1e6,
            "verified": total(Total::Verified),
            "writes": self.writes(),
            "gets": total(Total::Gets),
            "pairs_scanned": total(Total::Scanned),
            "snapshots": total(Total::Snapshots),
            "syncs": total(Total::Syncs),
            "flushes": total(Total::Flushes),
            "found_in_flight": total(Total::InFlight),
            "cut_unsynced": total(Total::Cut),
            "live_bytes": total(Total::LiveBytes),
            "peak_memory_bytes": self.peak.memory,
            "peak_disk_bytes": self.peak.disk,
            "peak_open_files": self.peak.files,
            "peak_threads": self.peak.threads,
        })
    }

    /// The same at the end.
    pub fn summary(&self, failure: Option<&str>) -> Value {
        let mut summary = self.json();
        summary["summary"] = true.into();
        summary["ok"] = failure.is_none().into();
        summary["failure"] = failure.into();
        summary
    }
}

//! Notes when nothing was written for a while. Any thread.

use crate::util::SequenceNumber;
use crate::util::sync::Mutex;
use std::time::Duration;

/// How long no write must have come before the log is made small.
const QUIET: Duration = Duration::from_secs(5);
/// How long no write must have come before data is rewritten for readers.
const CALM: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Quiet(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    last: SequenceNumber,
    incorporated: SequenceNumber,
    since: Duration,
    rested: bool,
}

impl Quiet {
    /// Whether nothing was written or incorporated for a while. True only once for each quiet time.
    pub(crate) fn is_over(&self, last: SequenceNumber, incorporated: SequenceNumber, now: Duration) -> bool {
        let mut seen = self.0.lock();
        let is_due = seen.lasts(last, incorporated, now) >= QUIET && !seen.rested;
        seen.rested |= is_due;
        is_due
    }

    /// Whether nothing was written or incorporated for a shorter while. A call that finds something new starts the
    /// clock, so there must be a call soon after the last write.
    pub(crate) fn is_calm(&self, last: SequenceNumber, incorporated: SequenceNumber, now: Duration) -> bool {
        self.0.lock().lasts(last, incorporated, now) >= CALM
    }
}

impl Seen {
    /// How long nothing was written or incorporated.
    fn lasts(&mut self, last: SequenceNumber, incorporated: SequenceNumber, now: Duration) -> Duration {
        if (self.last, self.incorporated) != (last, incorporated) {
            *self = Self { last, incorporated, since: now, rested: false };
        }
        now.saturating_sub(self.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quiet_time_counts_once() {
        let (quiet, n) = (Quiet::default(), SequenceNumber);
        let due = |last, incorporated, seconds| quiet.is_over(n(last), n(incorporated), Duration::from_secs(seconds));
        assert!(!due(1, 0, 1) && !due(1, 0, 5) && due(1, 0, 6) && !due(1, 0, 60));
        assert!(!due(2, 0, 61) && !due(3, 0, 65) && !due(3, 0, 69) && due(3, 0, 70));
        let calm = |last, seconds| quiet.is_calm(n(last), n(0), Duration::from_secs(seconds));
        assert!(!calm(4, 71) && calm(4, 72) && calm(4, 73) && !due(4, 0, 75) && due(4, 0, 76) && !calm(5, 77));
        assert!(!due(3, 3, 80) && due(3, 3, 85) && !due(3, 3, 95), "an incorporation frees more");
    }
}

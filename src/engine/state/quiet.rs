//! Notes when nothing was written for a while. Any thread.

use crate::util::SequenceNumber;
use crate::util::sync::Mutex;
use std::time::Duration;

/// How long no write must have come.
const QUIET: Duration = Duration::from_secs(5);

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
        if (seen.last, seen.incorporated) != (last, incorporated) {
            *seen = Seen { last, incorporated, since: now, rested: false };
        }
        let is_due = !seen.rested && now.saturating_sub(seen.since) >= QUIET;
        seen.rested |= is_due;
        is_due
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
        assert!(!due(3, 3, 80) && due(3, 3, 85) && !due(3, 3, 95), "an incorporation frees more");
    }
}

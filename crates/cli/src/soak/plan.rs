//! The plan of a round: its options and its end. A pure function of the soak's seed and the round's number.

use super::work::Work;
use alluvium::{Compression, Options};
use std::time::Duration;

/// The least budget of a round; a store refuses less than a quarter of it.
const MEMORY_MIN: u64 = 1 << 20;

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By SIGKILL.
    Kill,
    /// By closing the store.
    Close,
}

/// The plan of a round.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How the store is opened.
    pub options: Options,
    /// Its memory budget.
    pub budget: u64,
    /// Its background threads.
    pub workers: u64,
    /// Whether everything on disk is read and checked at the beginning.
    pub verify: bool,
    /// The end.
    pub end: End,
    /// When it ends, counted from the start of the process.
    pub after: Duration,
}

impl Plan {
    /// The plan of a round that takes at most `longest`.
    pub fn new(work: &Work, round: u64, longest: Duration) -> Self {
        let mut random = work.round(round);
        let budget = (work.memory >> random.below(3)).max(MEMORY_MIN);
        let workers = 1 + random.below(3);
        let options = Options::new()
            .memory_budget(budget)
            .background_threads(workers as usize)
            .compression([Compression::None, Compression::Lz4, Compression::Zstd][random.below(3) as usize])
            .sync_interval(
                [Some(Duration::from_millis(100)), Some(Duration::from_millis(10)), None][random.below(3) as usize],
            )
            .force_cut(random.below(6) == 0);
        let verify = random.below(6) == 0;
        let end = if random.below(5) == 0 { End::Close } else { End::Kill };
        // A quarter of the rounds end in the first moments, while the store is being opened; another quarter during or
        // soon after the check.
        let most = match random.below(4) {
            0 => Duration::from_millis(60),
            1 => Duration::from_secs(1),
            _ => longest,
        };
        let after = most.min(longest).mul_f64(random.unit());
        Self { options, budget, workers, verify, end, after }
    }
}

#[cfg(test)]
mod tests {
    use super::super::work::SMALL;
    use super::*;

    #[test]
    fn lives_are_of_all_kinds_and_repeat() {
        let longest = Duration::from_secs(15);
        let plans: Vec<Plan> = (0..200).map(|round| Plan::new(&SMALL, round, longest)).collect();
        let count = |what: fn(&Plan) -> bool| plans.iter().filter(|plan| what(plan)).count();
        for (kind, found) in [
            ("killed", count(|plan| plan.end == End::Kill)),
            ("closed", count(|plan| plan.end == End::Close)),
            ("verified", count(|plan| plan.verify)),
            ("cut", count(|plan| plan.options.force_cut)),
            ("compressed", count(|plan| plan.options.compression != Compression::None)),
            ("never synced by itself", count(|plan| plan.options.sync_interval.is_none())),
            ("short", count(|plan| plan.after < Duration::from_millis(60))),
            ("long", count(|plan| plan.after > Duration::from_secs(5))),
        ] {
            assert!(found >= 10, "{kind}: {found}");
        }
        assert!(plans.iter().all(|plan| plan.after <= longest && plan.budget >= MEMORY_MIN));
        assert_eq!(format!("{:?}", Plan::new(&SMALL, 7, longest)), format!("{:?}", plans[7]));
    }
}

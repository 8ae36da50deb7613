//! Outcomes of steps that follow each other on one store, added up. Pure.

use crate::figures::host::Ran;
use crate::outcome::Outcome;

/// For each step, the outcome of all steps up to it as if they were one, with the fields that these figures need.
/// From a death on there is nothing but the death.
pub fn up_to_each(ran: Vec<Ran>) -> Vec<Ran> {
    let mut sum: Option<Outcome> = None;
    let each = |ran: Ran| {
        let next = ran?;
        let whole = match sum.take() {
            Some(before) => joined(&before, next),
            None => next,
        };
        sum = Some(whole.clone());
        Ok(whole)
    };
    ran.into_iter().map(each).collect()
}

fn joined(before: &Outcome, next: Outcome) -> Outcome {
    let written = before.user_bytes_written + next.user_bytes_written;
    let amp = |of: fn(&Outcome) -> Option<f64>| {
        let bytes = of(before)? * before.user_bytes_written as f64 + of(&next)? * next.user_bytes_written as f64;
        (written > 0).then(|| bytes / written as f64)
    };
    let skipped = before.skipped.as_ref().zip(next.skipped.as_ref());
    Outcome {
        ops: before.ops + next.ops,
        elapsed_s: before.elapsed_s + next.elapsed_s,
        settle_s: before.settle_s + next.settle_s,
        write_amp: amp(|outcome| outcome.write_amp),
        log_amp: amp(|outcome| outcome.log_amp),
        skipped: skipped.map(|(before, next)| before.iter().zip(next).map(|(before, next)| before + next).collect()),
        buffered: before.buffered.zip(next.buffered).map(|(before, next)| before.and(next)),
        user_bytes_written: written,
        ..next
    }
}

/// Bytes of flushes and compactions.
pub fn data_bytes(outcome: &Outcome) -> Option<f64> {
    Some(outcome.write_amp? * outcome.user_bytes_written as f64)
}

/// Bytes of the log.
pub fn log_bytes(outcome: &Outcome) -> Option<f64> {
    Some(outcome.log_amp? * outcome.user_bytes_written as f64)
}

/// Bytes read from the device, by gets and compactions.
pub fn read_bytes(outcome: &Outcome) -> Option<f64> {
    let moved = outcome.io_amp? * (outcome.user_bytes_written + outcome.user_bytes_read) as f64;
    // Without writes there is no amplification of writes, and nothing of the sum was written.
    Some((moved - data_bytes(outcome).unwrap_or(0.0) - log_bytes(outcome).unwrap_or(0.0)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Buffered;
    use crate::figures::Death;

    fn outcome(ops: u64, write_amp: f64, skipped: Option<Vec<u64>>) -> Outcome {
        let (write_amp, log_amp, io_amp) = (Some(write_amp), Some(1.0), Some(write_amp + 2.0));
        let user_bytes_written = ops * 10;
        Outcome {
            ops,
            elapsed_s: 2.0,
            settle_s: 0.5,
            write_amp,
            log_amp,
            io_amp,
            skipped,
            buffered: Some(Buffered { left: ops, recorded: 2 * ops, checkpointed: 3 * ops, scanned: 4 * ops }),
            user_bytes_written,
            ..Outcome::default()
        }
    }

    #[test]
    fn sums_weigh_by_bytes_and_end_at_a_death() {
        let death = Death { why: "killed".into(), ..Death::default() };
        let steps = vec![
            Ok(outcome(1, 4.0, Some(vec![3, 1]))),
            Ok(outcome(3, 8.0, Some(vec![5, 0]))),
            Err(death),
            Ok(outcome(1, 1.0, None)),
        ];
        let sums = up_to_each(steps);
        let second = sums[1].as_ref().unwrap();
        assert_eq!((second.ops, second.elapsed_s, second.settle_s), (4, 4.0, 1.0));
        assert_eq!((second.write_amp, second.log_amp), (Some(7.0), Some(1.0)));
        assert_eq!(second.skipped, Some(vec![8, 1]));
        assert_eq!(second.buffered, Some(Buffered { left: 4, recorded: 8, checkpointed: 12, scanned: 16 }));
        assert_eq!(sums[0].as_ref().unwrap().ops, 1);
        assert!(sums[2].is_err());
        let unknown = up_to_each(vec![Ok(outcome(1, 1.0, Some(vec![1]))), Ok(outcome(1, 1.0, None))]);
        assert_eq!(unknown[1].as_ref().unwrap().skipped, None);
    }

    #[test]
    fn bytes_follow_from_amplifications() {
        let one = outcome(10, 4.0, None);
        assert_eq!((data_bytes(&one), log_bytes(&one), read_bytes(&one)), (Some(400.0), Some(100.0), Some(100.0)));
        let reads = Outcome { io_amp: Some(3.0), user_bytes_read: 50, ..Outcome::default() };
        assert_eq!((data_bytes(&reads), read_bytes(&reads)), (None, Some(150.0)));
    }
}

//! Waits until background work is over, for engines that cannot report it: until their figures stop changing and the
//! process uses no processor time.

use std::time::Duration;

/// How often the figures are read, and how many reads in a row must show no change.
const POLL: Duration = Duration::from_millis(50);
const STILL_POLLS: u32 = 10;
/// Ticks (10 ms each) that the reads themselves may cost.
const OWN_TICKS: u64 = 1;

/// Returns once `look` has returned the same for half a second in which the process did nothing else. `look` must be
/// cheap, and the caller's other threads must be idle.
pub fn wait<T: PartialEq>(mut look: impl FnMut() -> T) {
    let mut before = (look(), busy_ticks());
    let mut still = 0;
    while still < STILL_POLLS {
        std::thread::sleep(POLL);
        let now = (look(), busy_ticks());
        let idle = now.1.saturating_sub(before.1) <= OWN_TICKS;
        still = if idle && now.0 == before.0 { still + 1 } else { 0 };
        before = now;
    }
}

/// Processor time of the process so far, all threads, in ticks of the kernel.
fn busy_ticks() -> u64 {
    std::fs::read_to_string("/proc/self/stat").map_or(0, |text| ticks_in(&text))
}

fn ticks_in(stat: &str) -> u64 {
    let fields = stat.rsplit(')').next().unwrap_or_default();
    fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::Instant;

    #[test]
    fn ticks_are_user_and_system_time() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 31 7 7 20 0 4";
        assert_eq!(ticks_in(stat), 281);
    }

    #[test]
    fn it_waits_while_something_changes() {
        let (looks, started) = (Cell::new(0u32), Instant::now());
        wait(|| {
            looks.set(looks.get() + 1);
            looks.get().min(5)
        });
        // Four reads that change, then ten that do not.
        assert!(looks.get() >= 14, "{}", looks.get());
        assert!(started.elapsed() >= POLL * 13);
    }
}

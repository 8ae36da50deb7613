//! How busy other programs kept the machine during a measurement: all processor time of the machine (`/proc/stat`),
//! minus that of this process and of the kernel's threads, most of which is this process's writeback.

use std::fs;
use std::time::Instant;

/// Ticks per second of the kernel's accounting; fixed in its interface to programs.
const TICKS_PER_SECOND: f64 = 100.0;
/// The parent of the kernel's threads.
const KTHREADD: u64 = 2;

/// Counters at one moment, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    machine: u64,
    own: u64,
    kernel_threads: u64,
}

/// Measures from its creation.
pub struct Meter {
    started: Instant,
    before: Ticks,
}

impl Meter {
    /// Starts now.
    pub fn start() -> Self {
        Self { started: Instant::now(), before: Ticks::now() }
    }

    /// Processor time of other programs since the start, in percent of the whole machine's.
    pub fn other_percent(&self) -> f64 {
        let seconds = self.started.elapsed().as_secs_f64();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        other_percent(self.before, Ticks::now(), seconds, cores)
    }
}

fn other_percent(before: Ticks, after: Ticks, seconds: f64, cores: usize) -> f64 {
    let since = |counter: fn(&Ticks) -> u64| counter(&after).saturating_sub(counter(&before));
    let other = since(|ticks| ticks.machine)
        .saturating_sub(since(|ticks| ticks.own))
        .saturating_sub(since(|ticks| ticks.kernel_threads));
    let whole = seconds * cores as f64 * TICKS_PER_SECOND;
    if whole > 0.0 { (other as f64 / whole * 100.0).min(100.0) } else { 0.0 }
}

impl Ticks {
    fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            machine: machine_ticks(&read("/proc/stat")),
            own: process_ticks(&read("/proc/self/stat")).map_or(0, |(_, ticks)| ticks),
            kernel_threads: kernel_thread_ticks(),
        }
    }
}

/// User, nice, system, interrupts and time stolen by the host; idle and waiting for disks do not count.
fn machine_ticks(stat: &str) -> u64 {
    let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let numbers: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
    [0, 1, 2, 5, 6, 7].iter().filter_map(|at| numbers.get(*at)).sum()
}

/// The parent of a process, and its own user and system time.
fn process_ticks(stat: &str) -> Option<(u64, u64)> {
    // The name, in parentheses, may contain any characters.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((number(1)?, number(11)? + number(12)?))
}

fn kernel_thread_ticks() -> u64 {
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let numbers = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
    let ticks = numbers.filter_map(|process| {
        let (parent, ticks) = process_ticks(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)?;
        (parent == KTHREADD || process == KTHREADD).then_some(ticks)
    });
    ticks.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn the_kernel_s_texts() {
        assert_eq!(machine_ticks("cpu  10 20 30 4000 500 6 7 8 0 0\ncpu0 1 1 1 1\n"), 10 + 20 + 30 + 6 + 7 + 8);
        assert_eq!(process_ticks("7 (a) (b) S 2 3 4 5 6 7 8 9 10 11 100 50 0"), Some((2, 150)));
        assert_eq!(process_ticks("7 (a"), None);
    }

    #[test]
    fn own_time_and_the_kernel_s_are_no_load_of_others() {
        let before = Ticks { machine: 1000, own: 100, kernel_threads: 10 };
        let after = Ticks { machine: 1400, own: 250, kernel_threads: 60 };
        // 400 ticks of the machine, 150 own, 50 of the kernel: 200 of the 400 that two cores have in two seconds.
        assert_eq!(other_percent(before, after, 2.0, 2), 50.0);
        assert_eq!(other_percent(after, after, 2.0, 2), 0.0);
        assert_eq!(other_percent(before, after, 0.0, 2), 0.0);
    }

    #[test]
    fn another_process_is_seen_and_our_own_work_is_not() {
        let meter = Meter::start();
        let mut other = Command::new("sh").args(["-c", "while :; do :; done"]).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(600));
        let (busy, seconds) = (meter.other_percent(), meter.started.elapsed().as_secs_f64());
        other.kill().unwrap();
        other.wait().unwrap();
        // A busy loop gets at least a share of one core, even beside other tests.
        assert!(busy > 2.0, "{busy}% in {seconds} s");
    }
}

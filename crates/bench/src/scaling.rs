//! A model of how operations scale with cores: a closed queueing network with one thread on each core, solved by exact
//! mean-value analysis (Reiser and Lavenberg, 1980). Pure functions.
//!
//! An operation takes processor time of its own, which all cores offer at once, and moves shared cache lines between
//! cores, each of which serves one core at a time. Background work takes processor time of the same cores. What the
//! disk writes, and how many threads do background work, cap the throughput.
//!
//! Assumptions:
//! 1. A core waits while another one has the line; a transfer takes the same time between any two cores. On one core no
//!    line moves.
//! 2. Transfers take random times (exponential, as the analysis requires), and threads come at random moments. Real
//!    transfers vary less, so the model predicts somewhat too much waiting.
//! 3. Caches and the bandwidth of memory are as large for each of many cores as for one.
//! 4. No operation waits for a key latch, a full Memtable or a sync.

use serde::Serialize;

/// The numbers of cores of a prediction.
pub const CORES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// What one operation of some kind costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// Processor time in the calling thread on one core, nanoseconds.
    pub private_ns: f64,
    /// Processor time of background threads, nanoseconds.
    pub background_ns: f64,
    /// How often it moves each shared line. A line has its own place in all `Costs` of a mix.
    pub transfers: Vec<f64>,
    /// Bytes written to the disk, by log and background work.
    pub written_bytes: f64,
}

impl Costs {
    /// Those of an operation that is `self` with the probability `share`, and otherwise `other`.
    #[must_use]
    pub fn mixed(&self, share: f64, other: &Self) -> Self {
        let mean = |one: f64, other: f64| one * share + other * (1.0 - share);
        let lines = self.transfers.len().max(other.transfers.len());
        let transfers_of = |costs: &Self, line: usize| costs.transfers.get(line).copied().unwrap_or(0.0);
        Self {
            private_ns: mean(self.private_ns, other.private_ns),
            background_ns: mean(self.background_ns, other.background_ns),
            transfers: (0..lines).map(|line| mean(transfers_of(self, line), transfers_of(other, line))).collect(),
            written_bytes: mean(self.written_bytes, other.written_bytes),
        }
    }
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// One transfer of a line from another core, nanoseconds.
    pub transfer_ns: f64,
    /// What the disk writes in a second. `None`: no limit.
    pub disk_bytes_per_s: Option<f64>,
    /// The most threads that do background work at once. `None`: one on each core.
    pub background_threads: Option<u32>,
}

/// What limits the throughput most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Processor time.
    Cores,
    /// A shared line: threads wait for it longer than they work.
    SharedLine,
    /// The threads that do background work.
    BackgroundThreads,
    /// The disk.
    Disk,
}

/// A prediction for one number of cores.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Also the number of threads.
    pub cores: u32,
    /// Operations in a second.
    pub per_second: f64,
    /// `per_second` as a multiple of that of one core.
    pub speedup: f64,
    /// What stops it from being more.
    pub limit: Limit,
}

/// Predictions for each of `CORES`.
pub fn predictions(costs: &Costs, machine: &Machine) -> Vec<Prediction> {
    CORES.iter().map(|cores| predict(costs, machine, *cores)).collect()
}

/// Requires at least one core, and processor time above zero.
pub fn predict(costs: &Costs, machine: &Machine, cores: u32) -> Prediction {
    let (per_second, limit) = throughput(costs, machine, cores);
    let (of_one, _) = throughput(costs, machine, 1);
    Prediction { cores, per_second, speedup: per_second / of_one, limit }
}

fn throughput(costs: &Costs, machine: &Machine, cores: u32) -> (f64, Limit) {
    assert!(cores > 0 && costs.private_ns > 0.0, "{cores} cores, {costs:?}");
    // Work-conserving: background work takes its time from the cores that the operations run on.
    let processor_ns = costs.private_ns + costs.background_ns;
    let (free_ns, waiting_ns) = cycle(costs, machine, cores, processor_ns);
    let on_lines = if waiting_ns > processor_ns { Limit::SharedLine } else { Limit::Cores };
    let mut least = (f64::from(cores) * 1e9 / free_ns, on_lines);
    let mut cap = |per_second: f64, limit: Limit| {
        if per_second < least.0 {
            least = (per_second, limit);
        }
    };
    if let Some(threads) = machine.background_threads.filter(|_| costs.background_ns > 0.0) {
        cap(f64::from(threads) * 1e9 / costs.background_ns, Limit::BackgroundThreads);
    }
    if let Some(bytes) = machine.disk_bytes_per_s.filter(|_| costs.written_bytes > 0.0) {
        cap(bytes / costs.written_bytes, Limit::Disk);
    }
    least
}

/// The mean time of one operation with this many threads, and the part of it at shared lines; by mean-value analysis: a
/// thread that comes to a line finds the queue that there is with one thread less.
fn cycle(costs: &Costs, machine: &Machine, threads: u32, processor_ns: f64) -> (f64, f64) {
    if threads == 1 {
        return (processor_ns, 0.0);
    }
    let demands: Vec<f64> = costs.transfers.iter().map(|transfers| transfers * machine.transfer_ns).collect();
    let mut queues = vec![0.0; demands.len()];
    let mut at_lines_ns = 0.0;
    for threads in 1..=threads {
        let residences: Vec<f64> = demands.iter().zip(&queues).map(|(demand, queue)| demand * (1.0 + queue)).collect();
        at_lines_ns = residences.iter().sum();
        let per_ns = f64::from(threads) / (processor_ns + at_lines_ns);
        queues = residences.iter().map(|residence| per_ns * residence).collect();
    }
    (processor_ns + at_lines_ns, at_lines_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine = Machine { transfer_ns: 100.0, disk_bytes_per_s: None, background_threads: None };

    fn costs(private_ns: f64, transfers: &[f64]) -> Costs {
        Costs { private_ns, transfers: transfers.to_vec(), ..Costs::default() }
    }

    fn speedups(costs: &Costs, machine: &Machine) -> Vec<f64> {
        predictions(costs, machine).iter().map(|prediction| prediction.speedup).collect()
    }

    #[test]
    fn without_shared_lines_it_is_linear() {
        assert_eq!(speedups(&costs(500.0, &[]), &MACHINE), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        let put = Costs { background_ns: 1500.0, ..costs(500.0, &[0.0]) };
        assert_eq!(speedups(&put, &MACHINE), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        assert_eq!(predict(&put, &MACHINE, 4).per_second, 2e6);
        assert_eq!(predict(&put, &MACHINE, 64).limit, Limit::Cores);
    }

    #[test]
    fn with_all_time_on_one_line_it_does_not_scale() {
        let all = costs(1e-6, &[1.0]);
        let of_two = predict(&all, &MACHINE, 2).per_second;
        for cores in [4, 16, 64] {
            let prediction = predict(&all, &MACHINE, cores);
            assert!((prediction.per_second / of_two - 1.0).abs() < 1e-6, "{prediction:?}");
            assert_eq!(prediction.limit, Limit::SharedLine);
        }
        assert!((of_two - 1e7).abs() < 1.0, "one transfer after the other, 100 ns each: {of_two}");
    }

    #[test]
    fn a_line_bounds_the_throughput() {
        // Balanced queues have a closed form: with two stations of equal demand, n threads pass n / (n + 1) of the most.
        let two_lines = costs(1e-9, &[1.0, 1.0]);
        for cores in [2, 8, 64] {
            let expected = 1e7 * f64::from(cores) / f64::from(cores + 1);
            let found = predict(&two_lines, &MACHINE, cores).per_second;
            assert!((found / expected - 1.0).abs() < 1e-6, "{cores} cores: {found}, not {expected}");
        }
        // Whatever the rest takes, a line passes at most one transfer at a time, and more cores are never slower.
        let put = costs(2000.0, &[2.0]);
        let mut before = 0.0;
        for prediction in &predictions(&put, &MACHINE)[1..] {
            assert!(prediction.per_second <= 5e6 && prediction.per_second > before, "{prediction:?}");
            before = prediction.per_second;
        }
        assert!(before > 4.9e6, "{before}");
    }

    #[test]
    fn disk_and_background_threads_cap() {
        let put = Costs { background_ns: 1000.0, written_bytes: 500.0, ..costs(500.0, &[]) };
        let disk = Machine { disk_bytes_per_s: Some(1e9), ..MACHINE };
        assert_eq!(predict(&put, &disk, 2).limit, Limit::Cores);
        let capped = predict(&put, &disk, 64);
        assert_eq!((capped.per_second, capped.limit), (2e6, Limit::Disk));
        let threads = Machine { background_threads: Some(8), ..MACHINE };
        let capped = predict(&put, &threads, 64);
        assert_eq!((capped.per_second, capped.limit), (8e6, Limit::BackgroundThreads));
        assert_eq!(predict(&costs(500.0, &[]), &threads, 64).limit, Limit::Cores, "nothing runs in the background");
    }

    #[test]
    fn a_mix_has_the_mean_costs() {
        let put = Costs { background_ns: 100.0, written_bytes: 40.0, ..costs(1000.0, &[2.0]) };
        let get = costs(500.0, &[0.0, 1.0]);
        let mix = put.mixed(0.5, &get);
        let expected = Costs { background_ns: 50.0, written_bytes: 20.0, ..costs(750.0, &[1.0, 0.5]) };
        assert_eq!(mix, expected);
        assert_eq!(put.mixed(1.0, &get).private_ns, 1000.0);
    }
}

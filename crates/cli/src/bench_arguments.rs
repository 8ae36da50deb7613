//! The arguments of `bench`: declarations only. The doc comments are the help texts that users read.

use crate::bytes;
use alluvium_bench::catalogue::{FLODB_SKEW, NAMES};
use alluvium_bench::choice::Choice;
use alluvium_bench::figures;
use alluvium_bench::keys::Order;
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

const HELP: &str = "\
Output: a table, or with --json one object per line for each workload. Sizes are measured on disk after background work has finished,
except files mean and files peak: these are the sizes of all files, log included, divided by the live bytes, sampled ten times per second
while a workload that overwrites or inserts runs. Write amplification counts data files; the log has its own column. CPU is the user and
system time of all threads, including background work. Each operation is timed from end to end, including making the key.

Without --db the store is in a temporary directory (in TMPDIR) that is removed at the end. With --db it is created in that directory,
which must be absent or empty, and kept.

Examples:
  alluvium bench fillrandom,readrandom,readseq --num 1000000 --memory 256M
  alluvium bench load,a,b,c,d,e,f --threads 4 --key-size 24 --json
  alluvium bench fillseq,readwhilewriting --duration 10
  alluvium --db /tmp/store bench readrandom --use-existing --num 1000000
  alluvium bench figures clsm-5";

/// The end of the help text: the workloads, then examples.
fn help() -> String {
    let names = NAMES.iter().map(|(name, what)| format!("  {name:<18} {what}\n"));
    format!("Workloads:\n{}\n{HELP}", names.collect::<String>())
}

/// Run benchmarks: a list of workloads, each on the store that the previous one left
#[derive(Debug, Args)]
#[command(after_help = help(), args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Bench {
    #[command(subcommand)]
    pub figures: Option<BenchCommand>,
    /// Workloads, separated by commas; fills start with an empty store
    #[arg(value_name = "NAME[,NAME...]", required = true)]
    pub names: Option<String>,
    /// Keys that a fill writes; also the operations of other workloads [default: 1000000]
    #[arg(long, value_name = "N")]
    pub num: Option<u64>,
    /// Operations of workloads that do not fill [default: the value of --num]
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub ops: Option<u64>,
    /// Run each workload for this many seconds instead of a number of operations; with --num, fills still load that
    /// many keys
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Threads that run the operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Size of a key
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, default_value = "8")]
    pub key_size: u64,
    /// Bytes of a key, at its start, that are the same in all keys
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, default_value = "0")]
    pub key_prefix: u64,
    /// Size of a value
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, default_value = "100")]
    pub value_size: u64,
    /// Pairs per atomic batch in fills and overwrites
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch_size: usize,
    /// Pairs that `seekrandom` reads after the first
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub seek_nexts: u64,
    /// Percentage of keys that `fillnear` writes in key order
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(..=100))]
    pub sequential_percent: u8,
    /// Key distribution of the YCSB workloads [default: latest for d, zipfian for the others]
    #[arg(long, value_name = "CHOICE")]
    pub distribution: Option<Distribution>,
    /// Seed of the workloads
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Check what is read against what was written; fail if anything is wrong or missing
    #[arg(long)]
    pub check: bool,
    /// Do not wait for background work after a workload
    #[arg(long)]
    pub no_settle: bool,
    /// Run on the existing store in --db, which holds the keys 0 to --num of an earlier `bench`
    #[arg(long, requires = "num")]
    pub use_existing: bool,
    /// Key order in which the existing store was filled
    #[arg(long, value_name = "ORDER", default_value = "random", requires = "use_existing")]
    pub order: ExistingOrder,
    /// Size of the Memtable [default: derived from --memory]
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size)]
    pub write_buffer: Option<u64>,
    /// Keep new writes only in a skiplist, without the hash table in front of it that updates in place
    #[arg(long)]
    pub single_level: bool,
    /// Keep so many bytes of what is written for followers, such as 64M or 2G [default: nothing]
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size)]
    pub keep_changes: Option<u64>,
    /// Filters that reads use to find the files that may hold a key
    #[arg(long, value_name = "KIND", default_value = "maplet")]
    pub filters: Filters,
    /// Let the control thread spin instead of sleep: it detects every scheduling gap of the machine, but occupies a
    /// core
    #[arg(long)]
    pub spin_control: bool,
}

/// Subcommands of `bench`.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    Figures(Figures),
}

/// The figures, then examples.
fn figures_help() -> String {
    format!("{}\nExample:\n  alluvium bench figures clsm-6 --num 200000 --duration 2", figures::list())
}

/// Reproduce figures from papers with this store: numbers, a plot, and whether the paper's claims hold
#[derive(Debug, Args)]
#[command(after_help = figures_help())]
pub struct Figures {
    /// Figures, separated by commas; a paper's name, such as `splinterdb`, for all its figures, or `all`
    #[arg(value_name = "NAME[,NAME...]")]
    pub names: String,
    /// Number of keys [default: set by the figure]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub num: Option<u64>,
    /// Seconds per data point
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "3")]
    pub duration: Duration,
    /// Maximum number of threads [default: four times the cores, at most 16; for YCSB the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Check what is read against what was written
    #[arg(long)]
    pub check: bool,
}

/// The key distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// All keys equally often
    Uniform,
    /// The skew of YCSB, 0.99; popular keys are scattered
    Zipfian,
    /// The same skew by age: the newest key is the most popular
    Latest,
    /// 98% of the operations on 2% of the keys
    Skewed,
}

impl Distribution {
    /// The library's name for it.
    pub fn choice(self) -> Choice {
        match self {
            Self::Uniform => Choice::Uniform,
            Self::Zipfian => Choice::Zipfian,
            Self::Latest => Choice::Latest,
            Self::Skewed => FLODB_SKEW,
        }
    }
}

/// The kinds of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Filters {
    /// One maplet for all files at a tree node
    Maplet,
    /// A quotient filter per file
    Quotient,
}

/// Key orders that a fill may have used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExistingOrder {
    /// As fillrandom and load write
    Random,
    /// As fillseq writes
    Sequential,
    /// As fillnear writes, with the same --sequential-percent
    Near,
}

impl Bench {
    /// The library's name for it.
    pub fn existing_order(&self) -> Order {
        match self.order {
            ExistingOrder::Random => Order::Random,
            ExistingOrder::Sequential => Order::Sequential,
            ExistingOrder::Near => Order::Near { sequential_percent: self.sequential_percent },
        }
    }
}

/// A time in seconds, such as 10 or 0.5; at most one day.
fn seconds(text: &str) -> Result<Duration, String> {
    let good = text.parse::<f64>().ok().filter(|seconds| *seconds >= 0.001 && *seconds <= 86_400.0);
    good.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds such as 10 or 0.5, at most a day".to_string())
}

#[cfg(test)]
mod tests {
    use super::seconds;
    use std::time::Duration;

    #[test]
    fn times() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "0", "-1", "nan", "inf", "1e9", "5s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}

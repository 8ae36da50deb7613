//! What may stand behind `bench`. Only declarations; the doc comments are the help texts that users read.

use crate::bytes;
use alluvium_bench::catalogue::{FLODB_SKEW, NAMES};
use alluvium_bench::choice::Choice;
use alluvium_bench::figures;
use alluvium_bench::keys::Order;
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

const HELP: &str = "\
Output: a table; with --json an object for each workload, one a line. Sizes are of what is on the disk when background work is
done, but for files mean and files peak: all files, the log's too, over the live bytes while what overwrites or inserts runs, looked at
ten times a second. Write amplification counts data files, the log has a column of its own; CPU is user and system time of all threads,
background work included. A thread's operations are timed from end to end, so a time includes making the key.

Without --db the store is in a temporary directory (of TMPDIR) that goes away. With --db it is made in an absent or empty
directory and stays.

Examples:
  alluvium bench fillrandom,readrandom,readseq --num 1000000 --memory 256M
  alluvium bench load,a,b,c,d,e,f --threads 4 --key-size 24 --json
  alluvium bench fillseq,readwhilewriting --duration 10
  alluvium --db /tmp/store bench readrandom --use-existing --num 1000000
  alluvium bench figures clsm-5";

/// The help's end: the workloads, then examples.
fn help() -> String {
    let names = NAMES.iter().map(|(name, what)| format!("  {name:<18} {what}\n"));
    format!("Workloads:\n{}\n{HELP}", names.collect::<String>())
}

/// Run benchmarks: workloads one after the other, each on the store that the one before left
#[derive(Debug, Args)]
#[command(after_help = help(), args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Bench {
    #[command(subcommand)]
    pub figures: Option<BenchCommand>,
    /// Workloads, with commas between them; those that fill begin with a fresh store
    #[arg(value_name = "NAME[,NAME...]", required = true)]
    pub names: Option<String>,
    /// Keys of a fill; also the operations of other workloads [default: 1000000]
    #[arg(long, value_name = "N")]
    pub num: Option<u64>,
    /// Operations of workloads that do not fill [default: as --num]
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    pub ops: Option<u64>,
    /// Seconds that a workload runs, instead of a number of operations; fills load --num keys if it is given
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Duration>,
    /// Threads that do the operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Bytes of a key
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, default_value = "8")]
    pub key_size: u64,
    /// Bytes of a value
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, default_value = "100")]
    pub value_size: u64,
    /// Pairs that fills and overwrites put together, all or none
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch_size: usize,
    /// Pairs behind the first that `seekrandom` reads
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub seek_nexts: u64,
    /// Keys in key order among 100 of `fillnear`
    #[arg(long, value_name = "PERCENT", default_value_t = 90, value_parser = clap::value_parser!(u8).range(..=100))]
    pub sequential_percent: u8,
    /// Which keys YCSB's workloads take [default: latest for d, zipfian for the others]
    #[arg(long, value_name = "CHOICE")]
    pub distribution: Option<Distribution>,
    /// The work follows from this number
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
    /// Compare what is read with what was written; end with an error if anything is wrong or missing
    #[arg(long)]
    pub check: bool,
    /// Do not wait for background work behind a workload
    #[arg(long)]
    pub no_settle: bool,
    /// Work on the store that --db has, which holds the keys 0 to --num of an earlier `bench`
    #[arg(long, requires = "num")]
    pub use_existing: bool,
    /// How the keys of the existing store lie
    #[arg(long, value_name = "ORDER", default_value = "random", requires = "use_existing")]
    pub order: ExistingOrder,
    /// Bytes of new writes that a memory generation takes [default: from --memory]
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size)]
    pub write_buffer: Option<u64>,
    /// Keep new writes in a skiplist alone, without the hash table that takes them first and updates them in place
    #[arg(long)]
    pub single_level: bool,
    /// How a read finds out which files may have a key
    #[arg(long, value_name = "KIND", default_value = "maplet")]
    pub filters: Filters,
    /// Let the control thread spin instead of sleep: it finds the machine's gaps without fail, and takes a core
    #[arg(long)]
    pub spin_control: bool,
}

/// What `bench` has below it.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    Figures(Figures),
}

/// The figures, then examples.
fn figures_help() -> String {
    let names =
        figures::ALL.iter().map(|figure| format!("  {:<18} {}: {}\n", figure.name, figure.source, figure.claim));
    let example = "Example:\n  alluvium bench figures clsm-6 --num 200000 --duration 2";
    format!("Figures:\n{}\n{example}", names.collect::<String>())
}

/// Draw figures of papers again, with this store: numbers, a plot, and whether the claim's shape holds
#[derive(Debug, Args)]
#[command(after_help = figures_help())]
pub struct Figures {
    /// Figures, with commas between them; a paper's name, such as `splinterdb`, for all of its figures, or `all`
    #[arg(value_name = "NAME[,NAME...]")]
    pub names: String,
    /// Keys [default: what the figure says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub num: Option<u64>,
    /// Seconds a point
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "3")]
    pub duration: Duration,
    /// Threads at most [default: four times the cores, 16 at most; for YCSB the cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Compare what is read with what was written
    #[arg(long)]
    pub check: bool,
}

/// Distributions that have a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    /// Every key as often as every other
    Uniform,
    /// YCSB's skew, 0.99; popular keys are scattered
    Zipfian,
    /// The same over age: the newest key is the most popular
    Latest,
    /// 98% of the operations on 2% of the keys
    Skewed,
}

impl Distribution {
    /// What the library calls it.
    pub fn choice(self) -> Choice {
        match self {
            Self::Uniform => Choice::Uniform,
            Self::Zipfian => Choice::Zipfian,
            Self::Latest => Choice::Latest,
            Self::Skewed => FLODB_SKEW,
        }
    }
}

/// What reads ask before they look into files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Filters {
    /// One maplet for all files at a node of the tree
    Maplet,
    /// A quotient filter for each file
    Quotient,
}

/// Orders that a fill may have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExistingOrder {
    /// Of fillrandom and load
    Random,
    /// Of fillseq
    Sequential,
    /// Of fillnear, with the same --sequential-percent
    Near,
}

impl Bench {
    /// What the library calls it.
    pub fn existing_order(&self) -> Order {
        match self.order {
            ExistingOrder::Random => Order::Random,
            ExistingOrder::Sequential => Order::Sequential,
            ExistingOrder::Near => Order::Near { sequential_percent: self.sequential_percent },
        }
    }
}

/// A time in seconds, such as 10 or 0.5; at most a day.
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

//! The command line: only declarations, and the parser of sizes. The doc comments are the help texts.

use crate::file_systems::LayoutName;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  bench-compare engines
  bench-compare quick
  bench-compare quick --engines alluvium,rocksdb,lmdb --num 1000000 --repeat 3
  bench-compare full
  bench-compare full --num 20000000 --memory 1G --workloads fillrandom,readrandom
  bench-compare full --sync --num 100000
  bench-compare small --engines alluvium,redb
  bench-compare keyspaces --keyspaces 1000 --pairs 100 --memory 256M
  bench-compare range-delete --num 1000000 --memory 256M
  bench-compare postmark --bytes 5G --layout items
  bench-compare postmark --targets skip,rocksdb,ext4 --mount
  bench-compare default-options
  bench-compare report
  bench-compare figures clsm-5 --engines alluvium,rocksdb,leveldb
  bench-compare figures splinterdb --engines alluvium,rocksdb,splinterdb

Every engine runs in a process of its own under the same memory limit (a cgroup, where that is permitted), page cache
included. Results go to results/*.json; the table is printed, and results/compare.html has the plots.";

/// Measure Alluvium beside other stores
#[derive(Debug, Parser)]
#[command(name = "bench-compare", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// A quick run, in minutes: 500,000 keys, one thread, one repetition
    Quick(Run),
    /// The full comparison, in hours: 5 million keys, 1 and 2 threads, 3 repetitions; resumes where it was interrupted
    Full(Run),
    /// Engines with their default options and all of the machine's memory: 20 million pairs, hits, misses, short scans.
    /// --memory limits the process and leaves the options; RocksDB gets Bloom filters of 10 bits and 128 MiB of cache
    DefaultOptions(Run),
    /// What a small store costs with default options: disk space, memory, threads, time to open and close
    Small(Small),
    /// What many keyspaces cost in one store, beside RocksDB's column families and fjall's keyspaces, with default
    /// options: time to create, write, read, open and drop them, memory, files
    Keyspaces(Keyspaces),
    /// Delete a range of many pairs, beside RocksDB's range delete and fjall, which has none: time, bytes logged, seeks
    /// into the hole and outside, before and after compaction
    RangeDelete(RangeDelete),
    /// Ingest sorted pairs into an empty range, beside RocksDB's SST files: time with building the files, bytes written to the
    /// device, gets afterwards, and the same pairs as batches of puts
    Ingest(Ingest),
    /// Put values of 256 KiB to 16 MiB and overwrite them, beside RocksDB's blob files: time, space, bytes written to the device
    LargeValues(LargeValues),
    /// A checkpoint and two backups of a store that is being written, beside RocksDB's: time, bytes copied, longest waits of the
    /// writer
    Copies(Copies),
    /// A keyspace of which nine in ten pairs expire, beside RocksDB's time to live: when the space is back, bytes written, what
    /// reads see
    Expiry(Expiry),
    /// Small files as in the SkipStore paper (§6.4): postmark's creates, reads and appends in SkipFS over Alluvium and over
    /// RocksDB, and in ext4
    Postmark(Postmark),
    /// Requests for empty files in SkipFS, in ext4, and in a FUSE mount that passes them on to ext4: create, stat, readdir,
    /// rename, unlink
    Metadata(Metadata),
    /// Print the table and write the page from existing results
    Report(Report),
    /// List the engines, and why some are not available
    Engines(Library),
    /// Reproduce a paper's figure with other stores, and check the paper's claim
    Figures(Figures),
    /// One engine's turn; the harness starts it for each turn
    #[command(hide = true)]
    Child,
    /// One engine's rounds of a scenario of `small`; the harness starts it
    #[command(hide = true)]
    SmallChild,
    /// One engine's stage of `keyspaces`; the harness starts it
    #[command(hide = true)]
    KeyspacesChild,
    /// One engine's turn of `range-delete`; the harness starts it
    #[command(hide = true)]
    RangeDeleteChild,
    /// One engine's turn of `ingest`; the harness starts it
    #[command(hide = true)]
    IngestChild,
    /// One engine's turn of `large-values`; the harness starts it
    #[command(hide = true)]
    LargeValuesChild,
    /// One engine's turn of `copies`; the harness starts it
    #[command(hide = true)]
    CopiesChild,
    /// One engine's turn of `expiry`; the harness starts it
    #[command(hide = true)]
    ExpiryChild,
    /// One file system's turn of `postmark`; the harness starts it
    #[command(hide = true)]
    PostmarkChild,
    /// One file system's turn of `metadata`; the harness starts it
    #[command(hide = true)]
    MetadataChild,
}

/// Where SplinterDB is.
#[derive(Clone, Debug, Default, Args)]
pub struct Library {
    /// SplinterDB's shared library
    #[arg(long, value_name = "FILE", env = "SPLINTERDB_LIB")]
    pub splinterdb_lib: Option<PathBuf>,
}

/// Which figures, and at which size.
#[derive(Clone, Debug, Args)]
#[command(after_help = alluvium_bench::figures::list())]
pub struct Figures {
    /// Figures, separated by commas; a paper's name, such as splinterdb, for all its figures, or all
    #[arg(required = true, value_delimiter = ',')]
    pub names: Vec<String>,
    /// Engines, separated by commas [default: all that can run here]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Number of keys to load [default: set by the figure]
    #[arg(long, value_name = "NUMBER")]
    pub num: Option<u64>,
    /// Memory for each engine [default: set by the figure]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Maximum number of threads [default: derived from the cores]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Duration of a data point
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Do not limit the process; engines use the memory they are configured with, and the page cache is unlimited
    #[arg(long)]
    pub no_limit: bool,
    /// Directory for the stores, on the disk to measure [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
    #[command(flatten)]
    pub library: Library,
}

/// Which small stores are measured, and how often.
#[derive(Clone, Debug, Args)]
pub struct Small {
    /// Engines, separated by commas [default: all that are built in]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Rounds of the scenarios that measure times
    #[arg(long, value_name = "NUMBER", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Rounds of the scenarios that measure space, memory and many stores
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Number of stores that are open at once
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub stores: u32,
    /// Bytes of keys and values in the large store, such as 100M
    #[arg(long, value_name = "SIZE", default_value = "100000000", value_parser = parse_size)]
    pub bytes: u64,
    /// Seconds for which open stores are idle before they are looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = parse_seconds)]
    pub idle: f64,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Directory for the stores, on the disk to measure [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}

/// How a comparison in rounds is run.
#[derive(Clone, Debug, Args)]
pub struct Rounds {
    /// Rounds, in which the engines take turns
    #[arg(long, value_name = "NUMBER", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Memory for each engine, such as 256M: Alluvium's budget; half as block cache and half for write buffers in
    /// RocksDB; half as block cache in fjall [default: the engine's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Directory for the stores, on the disk to measure [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
}

/// How many keyspaces there are, and what is in them.
#[derive(Clone, Debug, Args)]
pub struct Keyspaces {
    /// Engines, separated by commas [default: all with keyspaces that are built in]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Number of keyspaces
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    pub keyspaces: u32,
    /// Pairs in each, when they are filled
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Size of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub value_size: u32,
    /// Seconds for which open stores are idle before they are looked at
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = parse_seconds)]
    pub idle: f64,
    #[command(flatten)]
    pub rounds: Rounds,
}

/// How large the range is, and how often it is read.
#[derive(Clone, Debug, Args)]
pub struct RangeDelete {
    /// Engines, separated by commas [default: all with keyspaces that are built in]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Pairs of the range; as many are outside it
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(100..))]
    pub num: u64,
    /// Seeks into the range, and as many outside, at each point
    #[arg(long, value_name = "NUMBER", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub seeks: u64,
    /// The longest time for the seeks of one figure; those that are done count
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = parse_seconds)]
    pub seconds: f64,
    #[command(flatten)]
    pub rounds: Rounds,
}

/// What is ingested.
#[derive(Clone, Debug, Args)]
pub struct Ingest {
    /// Engines, separated by commas: alluvium, rocksdb [default: both, if built in]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Pairs
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub num: u64,
    /// Size of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 17))]
    pub value_size: u32,
    /// Random gets after the ingest
    #[arg(long, value_name = "NUMBER", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub gets: u64,
    #[command(flatten)]
    pub rounds: Rounds,
}

/// Which large values are overwritten, and how often.
#[derive(Clone, Debug, Args)]
pub struct LargeValues {
    /// Engines, separated by commas: alluvium, rocksdb [default: both, if built in]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Bytes of all values that are there at a time
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = parse_size)]
    pub bytes: u64,
    /// How many times these bytes are written over them, at random keys
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub overwrites: u32,
    /// The smallest value
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = parse_size)]
    pub smallest: u64,
    /// The largest value
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = parse_size)]
    pub largest: u64,
    #[command(flatten)]
    pub rounds: Rounds,
}

/// What is copied, and what happens meanwhile.
#[derive(Clone, Debug, Args)]
pub struct Copies {
    /// Engines, separated by commas: alluvium, rocksdb [default: both, if built in]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Bytes of all values
    #[arg(long, value_name = "SIZE", default_value = "10G", value_parser = parse_size)]
    pub bytes: u64,
    /// Size of a value
    #[arg(long, value_name = "BYTES", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 17))]
    pub value_size: u32,
    /// Seconds for which the writer is alone, before the checkpoint and between the backups
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = parse_seconds)]
    pub seconds: f64,
    #[command(flatten)]
    pub rounds: Rounds,
}

/// What expires, and when.
#[derive(Clone, Debug, Args)]
pub struct Expiry {
    /// Engines, separated by commas: alluvium, rocksdb [default: both, if built in]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Pairs
    #[arg(long, value_name = "NUMBER", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(100..))]
    pub num: u64,
    /// Size of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1 << 17))]
    pub value_size: u32,
    /// Seconds after which pairs expire: at least three times what the load takes
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0, value_parser = parse_seconds)]
    pub age: f64,
    /// Random gets of pairs that stay, and as many of expired ones
    #[arg(long, value_name = "NUMBER", default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub gets: u64,
    #[command(flatten)]
    pub rounds: Rounds,
}

/// Which file systems are compared, and how.
#[derive(Clone, Debug, Args)]
pub struct Files {
    /// File systems, separated by commas: SkipFS over Alluvium with the components skip, leveled and trunk, SkipFS over
    /// rocksdb, and ext4, a plain directory; for `metadata` also passthrough, a mount that passes requests on to ext4
    /// [default: all that are built in; passthrough with --mount]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub targets: Vec<String>,
    /// Use SkipFS through a FUSE mount instead of its library; needs root
    #[arg(long)]
    pub mount: bool,
    /// Where SkipFS has the content of files
    #[arg(long, value_enum, default_value_t = LayoutName::Items)]
    pub layout: LayoutName,
    /// Rounds, in which the file systems take turns
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Memory for each file system and the benchmark, page cache included [default: a tenth of the data, at least 64M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Measure without memory limits if no cgroup can be created, instead of failing
    #[arg(long)]
    pub no_limit: bool,
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Directory for the file systems, on the disk to measure [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
}

/// Postmark's parameters. Sizes are 512 to 4096 bytes.
#[derive(Clone, Debug, Args)]
pub struct Postmark {
    /// Bytes of all files when they were created
    #[arg(long, value_name = "SIZE", default_value = "5G", value_parser = parse_size)]
    pub bytes: u64,
    /// Number of files, instead of their bytes
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub num: Option<u64>,
    /// Transactions with each share of reads
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: u64,
    /// Subdirectories among which the files are distributed at random; 0: all files are in one directory
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    pub subdirectories: u32,
    /// Seed of sizes, places and transactions
    #[arg(long, value_name = "NUMBER", default_value_t = 42)]
    pub seed: u64,
    #[command(flatten)]
    pub files: Files,
}

/// How many empty files there are.
#[derive(Clone, Debug, Args)]
pub struct Metadata {
    /// Number of files
    #[arg(long, value_name = "NUMBER", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub num: u64,
    /// Files of a directory
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub per_directory: u64,
    #[command(flatten)]
    pub files: Files,
}

/// Where results are.
#[derive(Clone, Debug, Args)]
pub struct Report {
    /// Directory of the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
    /// Only results of this commit [default: the newest commit with results]
    #[arg(long, value_name = "COMMIT")]
    pub commit: Option<String>,
}

/// What to measure. Missing arguments take the command's defaults.
#[derive(Clone, Debug, Args)]
pub struct Run {
    /// Engines, separated by commas [default: all that can run here]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub engines: Vec<String>,
    /// Workloads, separated by commas; a fill creates a new store, and those after it run on that; `readrandom*500000`
    /// sets the operations
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// Numbers of threads, separated by commas
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Number of keys to load
    #[arg(long, value_name = "NUMBER")]
    pub num: Option<u64>,
    /// Memory for each engine, page cache included, such as 512M or 2G [default: twice the data, at least 256M]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Number of repetitions
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// The second set: every write is synced before it returns
    #[arg(long)]
    pub sync: bool,
    /// Size of a value
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub value_size: usize,
    /// Size of a key
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    pub key_size: usize,
    /// Bytes of a key, at its start, that are the same in all keys
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub key_prefix: usize,
    /// Pairs that `seekrandom` reads after the first
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    pub seek_nexts: u64,
    /// Seed of the generated work
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Compare the values that are read with what was written
    #[arg(long)]
    pub check: bool,
    /// Repeat a measurement if other programs used more than this share of the processors, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    pub disturbed: f64,
    /// Number of attempts before the least disturbed one is kept
    #[arg(long, value_name = "NUMBER", default_value_t = 2)]
    pub retries: u32,
    /// Measure without memory limits if no cgroup can be created, instead of failing
    #[arg(long)]
    pub no_limit: bool,
    /// Directory for the stores, on the disk to measure [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Directory for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub results: PathBuf,
    #[command(flatten)]
    pub library: Library,
}

/// Parses a number of bytes with an optional K, M, G or T.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let trimmed = text.trim().trim_end_matches(['b', 'B']).trim_end_matches(['i', 'I']);
    let (digits, shift) = match trimmed.chars().next_back().map(|letter| letter.to_ascii_uppercase()) {
        Some('K') => (&trimmed[..trimmed.len() - 1], 10),
        Some('M') => (&trimmed[..trimmed.len() - 1], 20),
        Some('G') => (&trimmed[..trimmed.len() - 1], 30),
        Some('T') => (&trimmed[..trimmed.len() - 1], 40),
        _ => (trimmed, 0),
    };
    let wrong = || format!("\"{text}\" is not a size; write for example 512M or 2G");
    let number: u64 = digits.trim().parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// Parses a duration.
fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number of seconds"))?;
    if (0.001..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("a duration from a millisecond to a day".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_declarations_hold_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("512", 512), ("1k", 1 << 10), ("64M", 64 << 20), ("2GiB", 2 << 30), ("1 G", 1 << 30)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "0", "99999999T", "é", "5é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn seconds() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        for text in ["0", "-1", "inf", "NaN", "soon"] {
            assert!(parse_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn comparisons_in_rounds_have_defaults() {
        let parse = |arguments: &[&str]| Arguments::try_parse_from([&["x"], arguments].concat()).map(|all| all.command);
        let Ok(Command::Keyspaces(keyspaces)) = parse(&["keyspaces", "--memory", "1G"]) else { unreachable!() };
        assert_eq!((keyspaces.keyspaces, keyspaces.pairs, keyspaces.value_size), (1000, 100, 100));
        assert_eq!((keyspaces.rounds.rounds, keyspaces.rounds.memory), (5, Some(1 << 30)));
        let Ok(Command::RangeDelete(deletes)) = parse(&["range-delete", "--json"]) else { unreachable!() };
        assert_eq!((deletes.num, deletes.rounds.memory, deletes.rounds.json), (1_000_000, None, true));
        let Ok(Command::Postmark(postmark)) = parse(&["postmark", "--layout", "inline"]) else { unreachable!() };
        assert_eq!((postmark.bytes, postmark.num, postmark.transactions), (5 << 30, None, 1_000_000));
        assert_eq!((postmark.files.layout, postmark.files.mount), (LayoutName::Inline, false));
        for refused in
            [["keyspaces", "--keyspaces", "1"], ["keyspaces", "--pairs", "0"], ["range-delete", "--num", "9"]]
        {
            assert!(parse(&refused).is_err(), "{refused:?}");
        }
    }

    #[test]
    fn lists_are_cut_at_commas() {
        let arguments = Arguments::try_parse_from(["x", "quick", "--engines", "a,b", "--threads", "1,2"]).unwrap();
        let Command::Quick(run) = arguments.command else { unreachable!() };
        assert_eq!((run.engines, run.threads), (vec!["a".to_owned(), "b".to_owned()], vec![1, 2]));
        assert!(Arguments::try_parse_from(["x", "quick", "--threads", "one"]).is_err());
        assert!(Arguments::try_parse_from(["x", "quick", "--repeat", "0"]).is_err());
    }
}

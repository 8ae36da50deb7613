//! What may stand on the command line. Only declarations, and the parsers of single arguments; the doc comments are the
//! help texts that users read.

use crate::bench_arguments::Bench;
use crate::bytes;
use crate::duration::parse_interval;
use crate::input::Format;
use crate::soak_arguments::Soak;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium --db /tmp/store put greeting 'hello there'
  alluvium --db /tmp/store get greeting
  alluvium --db /tmp/store load --ycsb 100000
  alluvium --db /tmp/store scan --prefix user --limit 3
  alluvium --db /tmp/store verify
  alluvium bench fillrandom,readrandom
  alluvium soak --for 1h

Exit codes:
  0  done
  1  `get`: the key is absent
  2  an error: bad usage, bad input, no store, the system refused
  3  bytes on disk are damaged; `repair`: something could not be saved
  4  `soak`: the store broke a promise

The directory may also come from the environment variable ALLUVIUM_DB.";

/// Keep key-value pairs in a directory, in key order
#[derive(Debug, Parser)]
#[command(name = "alluvium", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Debug, Args)]
pub struct Common {
    /// Directory of the store
    #[arg(long, value_name = "DIR", env = "ALLUVIUM_DB", global = true, help_heading = "Common options")]
    pub db: Option<PathBuf>,
    /// Bytes of memory for the store, such as 64M or 2G [default: half of what the machine or container has]
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, global = true, help_heading = "Common options")]
    pub memory: Option<u64>,
    /// Wait for the disk after every write, not only at the end of the command
    #[arg(long, global = true, help_heading = "Common options")]
    pub sync: bool,
    /// Where writes go before they are on the disk [default: auto]
    #[arg(long, value_name = "PLACE", global = true, help_heading = "Common options")]
    pub log_memory: Option<LogPlace>,
    /// Open as after a power loss: without what only a lost piece of shared memory had
    #[arg(long, global = true, help_heading = "Common options")]
    pub force_cut: bool,
    /// Report in JSON
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
    /// Take and print keys and values in hexadecimal
    #[arg(long, global = true, help_heading = "Common options")]
    pub hex: bool,
}

/// Where writes go before they are on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogPlace {
    /// Shared memory where it is certain to outlive the process, else the log's files
    Auto,
    /// The log's files, mapped
    File,
    /// Shared memory (/dev/shm); you vouch that it outlives the process
    Shared,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Put(Put),
    Get(Get),
    Delete(Delete),
    Scan(Scan),
    Load(Load),
    Import(Import),
    Stat(Stat),
    Compact(Compact),
    Optimize(Optimize),
    Verify(Verify),
    Repair(Repair),
    Dump(Dump),
    Destroy(Destroy),
    Bench(Bench),
    Soak(Soak),
}

/// Set a key; makes the store where there is none
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium --db /tmp/store put greeting 'hello there'
  alluvium --db /tmp/store put --hex 00ff 0badcafe
  alluvium --db /tmp/store put picture --value-file picture.png")]
pub struct Put {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: String,
    /// The value
    #[arg(allow_negative_numbers = true, required_unless_present = "value_file")]
    pub value: Option<String>,
    /// Take the value from a file, byte by byte; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    pub value_file: Option<PathBuf>,
}

/// Print the value of a key; exit code 1 and no output if it is absent
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium --db /tmp/store get greeting
  alluvium --db /tmp/store get picture --no-newline > picture.png
  alluvium --db /tmp/store get greeting --json")]
pub struct Get {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: String,
    /// Print the value's bytes and nothing behind them
    #[arg(short, long, conflicts_with_all = ["json", "hex"])]
    pub no_newline: bool,
}

/// Remove a key; no error if it is absent
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  alluvium --db /tmp/store delete greeting")]
pub struct Delete {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: String,
}

/// Print pairs in key order
#[derive(Debug, Args)]
#[command(after_help = "\
Output:
  plain   KEY TAB VALUE, one pair a line; backslash, TAB, LF and CR are printed as \\\\ \\t \\n \\r, other control
          characters and bytes that are not UTF-8 as \\xNN
  --hex   the same, both in hexadecimal
  --json  {\"key\": ..., \"value\": ...}, one object a line; what is not UTF-8 goes to \"key_hex\" and \"value_hex\"
`load` reads all three back (the second with --hex).

Examples:
  alluvium --db /tmp/store scan --prefix user --limit 10
  alluvium --db /tmp/store scan --from a --to n --reverse --json")]
pub struct Scan {
    /// First key, included
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// Last key, excluded
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Only keys that begin with this
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
    /// Stop after so many pairs
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// From the last key to the first
    #[arg(long)]
    pub reverse: bool,
}

/// Write many pairs, from files, standard input or a generator; makes the store where there is none
#[derive(Debug, Args)]
#[command(after_help = "\
Input:
  tsv    KEY TAB VALUE, one pair a line, with the escapes that `scan` prints (\\\\ \\t \\n \\r \\xNN)
  csv    two columns, quoted where needed
  jsonl  {\"key\": \"...\", \"value\": \"...\"}, one object a line; \"key_hex\" and \"value_hex\" for bytes
A file's format follows from its name: .tsv .tab .txt, .csv, .jsonl .ndjson; standard input is tsv unless --format says
otherwise. Empty lines are passed over. At a bad line the load ends; everything before it has been written.

Examples:
  alluvium --db /tmp/store load rivers.tsv
  zcat pairs.csv.gz | alluvium --db /tmp/store load --format csv --header -
  alluvium --db /tmp/store load --ycsb 1000000 --value-size 100 --json")]
pub struct Load {
    /// Files to read; - is standard input, which is also the default
    #[arg(value_name = "FILE", conflicts_with = "ycsb")]
    pub files: Vec<PathBuf>,
    /// Format of all inputs
    #[arg(long, value_name = "FORMAT", conflicts_with = "ycsb")]
    pub format: Option<Format>,
    /// The first record of a CSV input names the columns: pass over it
    #[arg(long, conflicts_with = "ycsb")]
    pub header: bool,
    /// Take backslashes in TSV as they are
    #[arg(long, conflicts_with_all = ["ycsb", "hex"])]
    pub literal: bool,
    /// Pass over bad lines; tell their number, and on standard error the first of them
    #[arg(long, conflicts_with = "ycsb")]
    pub skip_bad: bool,
    /// Generate N pairs as YCSB's load phase does: keys are `user` and a hashed number, in hash order
    #[arg(long, value_name = "N")]
    pub ycsb: Option<u64>,
    /// Bytes of a generated value
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, default_value = "1000", requires = "ycsb")]
    pub value_size: u64,
    /// Generated values follow from this number; the keys do not depend on it
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "ycsb")]
    pub seed: u64,
    /// Pairs that are written together, all or none
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub batch: u64,
    /// Wait for flushes and compactions before the report
    #[arg(long)]
    pub settle: bool,
}

/// Load the data of another store's directory, which is only read; makes the store where there is none
#[derive(Debug, Args)]
#[command(after_help = "\
A directory of LevelDB is read as LevelDB would: manifest, tables and logs, each key with its newest value. No process may have it open
meanwhile. Its keys must be in the order of bytes. What a process that died had begun to write at a log's end is left out, and told.

Examples:
  alluvium --db /tmp/store import --from leveldb /var/lib/program/db
  alluvium --db /tmp/store import --from leveldb --skip-damaged --json damaged.db")]
pub struct Import {
    /// What has written the directory
    #[arg(long, value_name = "STORE")]
    pub from: ImportFrom,
    /// The directory
    #[arg(value_name = "DIR")]
    pub source: PathBuf,
    /// Go on past damage, and leave out what it hit: of a key whose newest write is damaged an older one may show
    #[arg(long)]
    pub skip_damaged: bool,
    /// Leave out keys of over 64 KiB, which no store takes
    #[arg(long)]
    pub skip_long_keys: bool,
    /// Wait for flushes and compactions before the report
    #[arg(long)]
    pub settle: bool,
}

/// Which stores can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportFrom {
    /// LevelDB, and others that write its files
    Leveldb,
}

/// Show the tree level by level, and the store's figures
#[derive(Debug, Args)]
#[command(after_help = "\
Counters run from the moment when the store was opened, for reading that is now: then only sizes tell of earlier work.

A process that has the store open for writing tells its figures about once a second, and they are shown with its id and how old
they are: what runs in its background and how far it is, writes that it slowed, its memory and cache, whether it is paused, has
failed, or its disk is full. A process that died tells nothing.

With --watch a look every so often: writes a second, bytes of branch files that background work wrote a second, what waits in memory
and as debt of merges, the tree, files that are being written (or are left to be removed), and of a writer what users wrote a second,
the write amplification since the look before, and a line for each running task. The tree is told level by level, root first:
\"1x16.7 MiB, 3 runs / 2x12.5 MiB, 8 runs\" is a root of 16.7 MiB, of which the worst read meets 3 runs, over two nodes of 12.5 MiB
each on average with at most 8. Rates are those since the look before, so the first look has none (\"-\", in JSON null), nor is there one
of what nobody tells. Every operation of a batch is a write where a writer tells its figures; elsewhere a batch is one, since it takes
one sequence number. A look at a store that tells no figures reads its manifest and log, so look seldom where the log is long. A
writer tells its figures about once a second: in between the rates before hold.

Examples:
  alluvium --db /tmp/store stat
  alluvium --db /tmp/store stat --watch
  alluvium --db /tmp/store stat --watch 0.5 --times 10 --json")]
pub struct Stat {
    /// Look again and again, every so many seconds, 0.1 or more [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = parse_interval)]
    pub watch: Option<Duration>,
    /// End after so many looks
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub times: Option<u64>,
}

/// Rewrite a key range into its smallest form: one run, without old versions and deletes
#[derive(Debug, Args)]
#[command(after_help = "\
Ranges that are in that form already are not rewritten. What was rewritten stays where the command is interrupted. Merges that were due
anyway are done, too, and not counted in the report.

Examples:
  alluvium --db /tmp/store compact
  alluvium --db /tmp/store compact --from a --to n --rate 20M")]
pub struct Compact {
    #[command(flatten)]
    pub range: CompactRange,
}

/// Merge a key range as far as it reads fastest, for the least rewriting
#[derive(Debug, Args)]
#[command(after_help = "\
Unlike compact it leaves alone what is one run already, even where old versions and deletes in it could go. Merges that were due anyway
are done, too, and not counted in the report.

Example:
  alluvium --db /tmp/store optimize --from user")]
pub struct Optimize {
    #[command(flatten)]
    pub range: CompactRange,
}

/// What is to be merged.
#[derive(Debug, Args)]
pub struct CompactRange {
    /// First key, included [default: the first there is]
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// Last key, excluded [default: behind the last there is]
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Write at most so many bytes a second, such as 20M
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size)]
    pub rate: Option<u64>,
}

/// Check everything on disk and list all that is damaged; exit code 3 if anything is
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is changed, and the store is not opened: this works on a store that does not open, too.

Examples:
  alluvium --db /tmp/store verify --json
  alluvium --db /tmp/store verify --quick")]
pub struct Verify {
    /// Only the manifest, the ends of files and headers; no data
    #[arg(long)]
    pub quick: bool,
}

/// Rebuild a store from whatever files are left; exit code 3 if something was lost
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing happens to a sound store. Where the manifest can be read, sound files are kept and damaged ones replaced by what
their good pages hold; where it cannot, everything is merged. Damaged files stay, with names that end with .damaged.

Examples:
  alluvium --db /tmp/store repair
  alluvium --db /tmp/store repair --json")]
pub struct Repair {}

/// Print all pairs in a form that `load` reads back, or list the files
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium --db /tmp/store dump > pairs.tsv
  alluvium --db /tmp/store dump | alluvium --db /tmp/copy load
  alluvium --db /tmp/store dump --format csv > pairs.csv
  alluvium --db /tmp/store dump --files")]
pub struct Dump {
    /// Format of the pairs [default: tsv, or jsonl with --json]
    #[arg(long, value_name = "FORMAT", conflicts_with = "files")]
    pub format: Option<Format>,
    /// List the directory's files by kind and size instead; works beside a process that has the store open
    #[arg(long)]
    pub files: bool,
}

/// Remove the store and all its data
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  alluvium --db /tmp/store destroy --yes")]
pub struct Destroy {
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_declarations_hold_together_and_every_command_has_an_example() {
        Arguments::command().debug_assert();
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{} has no example", command.get_name());
            assert!(
                help.contains(&format!("alluvium --db /tmp/store {}", command.get_name())),
                "{}",
                command.get_name()
            );
        }
    }
}

//! The command-line syntax: declarations and the parsers of single arguments. The doc comments are the help texts that
//! users read.

use crate::backup_arguments::Backup;
use crate::bench_arguments::Bench;
use crate::bytes;
use crate::changes_arguments::Changes;
use crate::duration::parse_interval;
use crate::file_system_arguments::{Check, Mkfs, Mount, OfStore, Unmount};
use crate::import_arguments::Import;
use crate::input::Format;
use crate::keyspace_arguments::{InKeyspace, Keyspaces};
use crate::shell_arguments::Shell;
use crate::soak_arguments::Soak;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  alluvium --db /tmp/store put greeting 'hello there'
  alluvium --db /tmp/store get greeting
  alluvium --db /tmp/store load --ycsb 100000
  alluvium --db /tmp/store scan --prefix user --limit 3
  alluvium --db /tmp/store verify
  alluvium mkfs /tmp/files
  alluvium mount /mnt /tmp/files
  alluvium bench fillrandom,readrandom
  alluvium soak --for 1h

Exit codes:
  0  done
  1  `get`: the key is absent; `scan`, `dump`: keys were left out because their operands cannot be merged
  2  an error: bad usage, bad input, no store, an I/O error
  3  data on disk, or a backup, is damaged; `check`: the file system is; `repair`: some data could not be recovered
  4  `soak`: the store violated a guarantee

The directory can also be given in the environment variable ALLUVIUM_DB.";

/// Alluvium: an ordered key-value store in a directory
#[derive(Debug, Parser)]
#[command(name = "alluvium", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Arguments {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Directory of the store
    #[arg(long, value_name = "DIR", env = "ALLUVIUM_DB", global = true, help_heading = "Common options")]
    pub db: Option<PathBuf>,
    /// Whether --db was given. Otherwise `db` is what the environment says.
    #[arg(skip)]
    pub names_db: bool,
    /// Memory budget of the store, such as 64M or 2G [default: a quarter of the memory of the machine or container, at most 1G]
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, global = true, help_heading = "Common options")]
    pub memory: Option<u64>,
    /// What keeps the data of a new store on disk; commands that write refuse a store that has another component (see `convert`) [default: trunk, or what the store has]
    #[arg(long, value_name = "KIND", global = true, help_heading = "Common options")]
    pub component: Option<Component>,
    /// Sync every write to disk, instead of once at the end of the command
    #[arg(long, global = true, help_heading = "Common options")]
    pub sync: bool,
    /// Recover as after a power loss: open although the newest part of the log (*.shadow) is lost or damaged, without what follows the gap
    #[arg(long, global = true, help_heading = "Common options")]
    pub force_cut: bool,
    /// Print results as JSON
    #[arg(long, global = true, help_heading = "Common options")]
    pub json: bool,
    /// Read and print keys and values in hexadecimal
    #[arg(long, global = true, help_heading = "Common options")]
    pub hex: bool,
}

/// The kinds of disk component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Component {
    /// The STBε-tree
    Trunk,
    /// Levels of one run each: reads and space first
    Leveled,
    /// Levels of several runs: writes first
    Tiered,
    /// Levels that keys skip if they are not there: fewer writes than leveled
    Skip,
}

/// How branch files are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// As they are
    None,
    /// Compressed with LZ4
    Lz4,
    /// Compressed with Zstandard: smaller, and slower
    Zstd,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    Put(Put),
    Get(Get),
    Delete(Delete),
    Merge(Merge),
    Keyspaces(Keyspaces),
    Scan(Scan),
    Count(Count),
    Load(Load),
    Import(Import),
    Stat(Stat),
    Compact(Compact),
    Optimize(Optimize),
    Verify(Verify),
    Repair(Repair),
    Convert(Convert),
    Checkpoint(Checkpoint),
    Changes(Changes),
    Backup(Backup),
    Dump(Dump),
    Destroy(Destroy),
    Mkfs(Mkfs),
    Mount(Mount),
    Unmount(Unmount),
    Check(Check),
    Bench(Bench),
    Soak(Soak),
    Shell(Shell),
    Completions(Completions),
}

/// Set a key; creates the store if there is none
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium --db /tmp/store put greeting 'hello there'
  alluvium --db /tmp/store put --hex 00ff 0badcafe
  alluvium --db /tmp/store put --keyspace users 7 Ada
  alluvium --db /tmp/store put picture --value-file picture.png")]
pub struct Put {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: String,
    /// The value
    #[arg(allow_negative_numbers = true, required_unless_present = "value_file")]
    pub value: Option<String>,
    /// Read the value from a file, unchanged; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    pub value_file: Option<PathBuf>,
    #[command(flatten)]
    pub within: InKeyspace,
}

/// Print the value of a key; if the key is absent, print nothing and exit with code 1
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium --db /tmp/store get greeting
  alluvium --db /tmp/store get picture --no-newline > picture.png
  alluvium --db /tmp/store get greeting --json
  alluvium --db /tmp/store get visits --integer")]
pub struct Get {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: String,
    /// Print the value without a newline after it
    #[arg(short, long, conflicts_with_all = ["json", "hex"])]
    pub no_newline: bool,
    /// Print the value as a decimal number: it has eight bytes, as `merge --integer` writes them
    #[arg(long, conflicts_with_all = ["json", "hex"])]
    pub integer: bool,
    #[command(flatten)]
    pub within: InKeyspace,
}

/// Delete a key, or all keys of a range; absent keys are no error
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["key", "from", "to", "prefix"]).required(true).multiple(true)), after_help = "\
A range is deleted by one small write, however many keys it has.

Examples:
  alluvium --db /tmp/store delete greeting
  alluvium --db /tmp/store delete --prefix session/
  alluvium --db /tmp/store delete --from 2025 --to 2026")]
pub struct Delete {
    /// The key
    #[arg(allow_negative_numbers = true, conflicts_with_all = ["from", "to", "prefix"])]
    pub key: Option<String>,
    #[command(flatten)]
    pub range: KeyRange,
    #[command(flatten)]
    pub within: InKeyspace,
}

/// Merge an operand into the value of a key, as the merge operator of the store or of its keyspace says
#[derive(Debug, Args)]
#[command(after_help = "\
A keyspace has one operator, which is chosen once: by the first merge, by `keyspaces create`, or by a program.

Examples:
  alluvium --db /tmp/store merge --operator add --integer visits 1
  alluvium --db /tmp/store merge --operator append log 'started; '")]
pub struct Merge {
    /// The key
    #[arg(allow_negative_numbers = true)]
    pub key: String,
    /// The operand
    #[arg(allow_negative_numbers = true)]
    pub operand: String,
    /// The operator; needed only if the keyspace has none yet
    #[arg(long)]
    pub operator: Option<MergeOperator>,
    /// The operand is a decimal number, which is stored in eight bytes, as `add` takes it
    #[arg(long, conflicts_with = "hex")]
    pub integer: bool,
    #[command(flatten)]
    pub within: InKeyspace,
}

/// The merge operators that come with the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MergeOperator {
    /// Adds 64-bit integers
    Add,
    /// Appends to the value
    Append,
    /// Joins sets of bits
    Bitor,
    /// Keeps the greatest value, in byte order
    Max,
    /// Keeps the least value, in byte order
    Min,
}

/// The keys that a command is about.
#[derive(Debug, Args)]
pub struct KeyRange {
    /// First key, inclusive
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// Last key, exclusive
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Only keys with this prefix
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
}

/// Print pairs in key order
#[derive(Debug, Args)]
#[command(after_help = "\
Output:
  plain   KEY TAB VALUE, one pair per line; backslash, TAB, LF and CR are printed as \\\\ \\t \\n \\r, other control
          characters and bytes that are not UTF-8 as \\xNN
  --hex   the same, key and value in hexadecimal
  --json  {\"key\": ..., \"value\": ...}, one object per line; \"key_hex\" and \"value_hex\" for bytes that are not UTF-8
`load` reads all three formats (--hex output with --hex).

Examples:
  alluvium --db /tmp/store scan --prefix user --limit 10
  alluvium --db /tmp/store scan --keyspace users
  alluvium --db /tmp/store scan --from a --to n --reverse --json")]
pub struct Scan {
    #[command(flatten)]
    pub range: KeyRange,
    /// Print at most N pairs
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Scan from the last key to the first
    #[arg(long)]
    pub reverse: bool,
    #[command(flatten)]
    pub within: InKeyspace,
}

/// Count the pairs of a range, exactly: it reads all of them
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the number; with --json also the bytes of the keys and of the values. `stat` has an estimate without reading the pairs.

Examples:
  alluvium --db /tmp/store count
  alluvium --db /tmp/store count --prefix user --json")]
pub struct Count {
    #[command(flatten)]
    pub range: KeyRange,
    #[command(flatten)]
    pub within: InKeyspace,
}

/// Load pairs from files, standard input or a generator; creates the store if there is none
#[derive(Debug, Args)]
#[command(after_help = "\
Input:
  tsv    KEY TAB VALUE, one pair per line, escaped as `scan` prints them (\\\\ \\t \\n \\r \\xNN)
  csv    two columns, quoted if needed
  jsonl  {\"key\": \"...\", \"value\": \"...\"}, one object per line; \"key_hex\" and \"value_hex\" for bytes
The file name extension selects the format: .tsv .tab .txt, .csv, .jsonl .ndjson. Standard input is tsv unless --format is
given. Empty lines are ignored. The load stops at a bad line; all pairs before it are written.

Examples:
  alluvium --db /tmp/store load rivers.tsv
  zcat pairs.csv.gz | alluvium --db /tmp/store load --format csv --header -
  alluvium --db /tmp/store load --ycsb 1000000 --value-size 100 --json")]
pub struct Load {
    /// Files to read; - is standard input, the default
    #[arg(value_name = "FILE", conflicts_with = "ycsb")]
    pub files: Vec<PathBuf>,
    /// Format of all inputs
    #[arg(long, value_name = "FORMAT", conflicts_with = "ycsb")]
    pub format: Option<Format>,
    /// Skip the first record of CSV input: it names the columns
    #[arg(long, conflicts_with = "ycsb")]
    pub header: bool,
    /// Do not interpret backslashes in TSV
    #[arg(long, conflicts_with_all = ["ycsb", "hex"])]
    pub literal: bool,
    /// Skip bad lines; report how many, and print the first ones on standard error
    #[arg(long, conflicts_with = "ycsb")]
    pub skip_bad: bool,
    /// Generate N pairs as the load phase of YCSB does: keys are `user` and a hashed number, in hash order
    #[arg(long, value_name = "N")]
    pub ycsb: Option<u64>,
    /// Size of generated values
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size, default_value = "1000", requires = "ycsb")]
    pub value_size: u64,
    /// Seed of the generated values; the keys do not depend on it
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "ycsb")]
    pub seed: u64,
    /// Pairs per atomic batch
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub batch: u64,
    /// The input ascends by key: ingest it at once, past log and memory; all pairs are loaded, or none
    #[arg(long, conflicts_with_all = ["ycsb", "batch", "skip_bad"])]
    pub sorted: bool,
    #[command(flatten)]
    pub within: InKeyspace,
    /// Wait for background merges before the report
    #[arg(long)]
    pub settle: bool,
}

/// Show the tree level by level, and the statistics of the store
#[derive(Debug, Args)]
#[command(after_help = "\
Counters start when the store is opened. `stat` opens it now, so without a writer only the sizes reflect earlier work.

A process that has the store open for writing publishes its statistics about once a second. `stat` shows them with the process
id and their age: running background tasks and their progress, slowed writes, memory and cache, and whether background work is
paused, the store has failed or the disk is full. The statistics of a process that has died are not shown.

--watch prints a sample at every interval: writes per second, bytes per second that background work writes to branch files, entries in
memory, merge debt, the tree, and the size of branch files that the manifest does not name (being written, or about to be removed). If
a writer publishes statistics, a sample also has the bytes per second that users wrote, the write amplification since the previous
sample, and a line for each running task. The tree is shown root first: \"1x16.7 MiB, 3 runs / 2x12.5 MiB, 8 runs\" is a root of
16.7 MiB in which a read meets at most 3 runs, above two nodes of 12.5 MiB each on average with at most 8 runs.

Rates cover the time since the previous sample, so the first sample has none (\"-\", or null in JSON); neither has a figure that only a
writer publishes if there is no writer. With a writer, each operation of a batch counts as a write. Without one, a batch counts once,
since it takes one sequence number, and each sample reads the manifest and the log: choose a long interval if the log is long. If the
writer has not published again since the previous sample, the previous rates are shown.

--prometheus has sizes in bytes and times in seconds, under the names of `Db::publish_metrics`. How long calls take
(`Options::latencies`) is not among what a writer publishes: only the program that has the store open can pass it on.

Examples:
  alluvium stat /tmp/store
  alluvium --db /tmp/store stat --watch
  alluvium --db /tmp/store stat --watch 0.5 --times 10 --json
  alluvium --db /tmp/store stat --prometheus > /var/lib/node_exporter/alluvium.prom")]
pub struct Stat {
    #[command(flatten)]
    pub of: OfStore,
    /// Print a sample every SECONDS, at least 0.1 [default: 2]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = parse_interval)]
    pub watch: Option<Duration>,
    /// Stop after N samples
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub times: Option<u64>,
    /// Print the metrics that Prometheus reads: for its textfile collector, or to serve them
    #[arg(long, conflicts_with_all = ["watch", "json"])]
    pub prometheus: bool,
}

/// Rewrite a key range into its smallest form: one run without old versions and tombstones
#[derive(Debug, Args)]
#[command(after_help = "\
Ranges that are already in that form are not rewritten. An interrupted command keeps what it has rewritten so far. Merges that were due
anyway also run; the report does not count them.

Examples:
  alluvium --db /tmp/store compact
  alluvium --db /tmp/store compact --from a --to n --rate 20M")]
pub struct Compact {
    #[command(flatten)]
    pub range: CompactRange,
}

/// Merge a key range to its fastest form for reads, with the least rewriting
#[derive(Debug, Args)]
#[command(after_help = "\
Unlike compact it does not rewrite what is already one run, even if old versions and tombstones could be dropped. Merges that were
due anyway also run; the report does not count them.

Example:
  alluvium --db /tmp/store optimize --from user")]
pub struct Optimize {
    #[command(flatten)]
    pub range: CompactRange,
}

/// The key range to merge.
#[derive(Debug, Args)]
pub struct CompactRange {
    /// First key, inclusive [default: the first key of the keyspace]
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// Last key, exclusive [default: to the end of the keyspace]
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Limit of bytes written per second, such as 20M
    #[arg(long, value_name = "SIZE", value_parser = bytes::parse_size)]
    pub rate: Option<u64>,
    #[command(flatten)]
    pub within: InKeyspace,
}

/// Check everything on disk and list all damage; exit code 3 if there is any
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is changed, and the store is not opened, so this also works on a store that cannot be opened.

Examples:
  alluvium --db /tmp/store verify --json
  alluvium --db /tmp/store verify --quick")]
pub struct Verify {
    /// Check only the manifest, file footers and headers, not the data
    #[arg(long)]
    pub quick: bool,
}

/// Rebuild a store from the files that are left; exit code 3 if data was lost
#[derive(Debug, Args)]
#[command(after_help = "\
A store without damage is not changed. If the manifest can be read, undamaged files are kept, and each damaged file is replaced
by the contents of its good pages. Otherwise all files are merged. Damaged files are kept, with the suffix .damaged.

Examples:
  alluvium --db /tmp/store repair
  alluvium --db /tmp/store repair --json")]
pub struct Repair {}

/// Rewrite a closed store for another disk component
#[derive(Debug, Args)]
#[command(after_help = "\
All pairs stay, with their sequence numbers; old versions and deletes are left out. Large values in files of their own are not copied.
The new files need about as much free space as the store's live data, which is checked first. The store must not be open anywhere. The
command may be killed at any time: the store is whole then, and what was written so far is removed when it is opened or converted
again. A store that has the component already is not changed, whatever its compression. Files that are not compressed take more space
than compressed ones: then the check may miss that they do not fit, the conversion fails, and the store is as before. The sizes of the
levels follow from the memory with which the store was created; `Db::convert` takes all options of the levels.

Examples:
  alluvium --db /tmp/store convert --to leveled
  alluvium --db /tmp/store convert --to skip --compression lz4
  alluvium --db /tmp/store convert --to trunk --json")]
pub struct Convert {
    /// The component that the store shall have
    #[arg(long, value_name = "KIND")]
    pub to: Component,
    /// How the new files are stored, whatever the old ones are; later ones are as the program says that opens the store
    #[arg(long, value_name = "KIND", default_value = "none")]
    pub compression: Compression,
}

/// Make a second store in another directory, with the contents of this one; the files are shared by hard links
#[derive(Debug, Args)]
#[command(after_help = "\
Takes hardly any time or space: the files of the tree never change, so both stores share them. On another file system they are copied.
Each store may be written, verified and destroyed afterwards without an effect on the other. The directory must be empty, or not exist
yet, and lie outside the store. The command may be killed at any time: then the directory is no store, and says so when it is opened.

The store must not be open in another process: a program that has it open makes its own checkpoints (`Db::checkpoint`), while it
writes.

Examples:
  alluvium --db /tmp/store checkpoint /tmp/copy
  alluvium --db /tmp/store checkpoint /tmp/copy --links-only --json")]
pub struct Checkpoint {
    /// The directory of the second store
    #[arg(value_name = "DIR")]
    pub to: PathBuf,
    /// Fail if a file cannot be linked, instead of copying it
    #[arg(long)]
    pub links_only: bool,
}

/// Print all pairs of a keyspace in a format that `load` reads, or list the files
#[derive(Debug, Args)]
#[command(after_help = "\
A dump has one keyspace, the default one unless --keyspace names another. If the store has others, a note on standard error names
them.

Examples:
  alluvium --db /tmp/store dump > pairs.tsv
  alluvium --db /tmp/store dump | alluvium --db /tmp/copy load
  alluvium --db /tmp/store dump --format csv > pairs.csv
  alluvium --db /tmp/store dump --files")]
pub struct Dump {
    /// Output format [default: tsv, or jsonl with --json]
    #[arg(long, value_name = "FORMAT", conflicts_with = "files")]
    pub format: Option<Format>,
    #[command(flatten)]
    pub within: InKeyspace,
    /// List the files of the directory by kind and size; works while another process has the store open
    #[arg(long, conflicts_with = "keyspace")]
    pub files: bool,
}

/// Delete the store and all its data
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  alluvium --db /tmp/store destroy --yes")]
pub struct Destroy {
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
}

/// Print a script by which a shell completes commands and options
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium completions bash > /usr/share/bash-completion/completions/alluvium
  alluvium completions fish > ~/.config/fish/completions/alluvium.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_declarations_are_valid_and_every_command_has_an_example() {
        Arguments::command().debug_assert();
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let name = command.get_name();
            assert!(help.contains("Example"), "{name} has no example");
            // `unmount` and `completions` take no store.
            let uses = ["alluvium --db /tmp/store {}", "alluvium {} /mnt", "alluvium {} bash"];
            let uses = uses.map(|text| text.replace("{}", name));
            assert!(uses.iter().any(|text| help.contains(text)), "{name}");
        }
    }
}

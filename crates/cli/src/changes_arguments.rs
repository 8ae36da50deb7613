//! The arguments of `changes`. The doc comments are the help texts that users read.

use crate::bytes::parse_size;
use crate::duration::parse_duration;
use clap::{Args, Subcommand};
use std::time::Duration;

/// Print what was written to the store, in order, or say how much of it the store keeps
#[derive(Debug, Args)]
#[command(after_help = "\
A store keeps nothing of what was written unless it is told to: `changes keep`. What another process writes appears here when that
process has synced it in the background, by default a tenth of a second later.

Each line has the number of the write and, separated by tabs, what it did: put, keyspace, key, value; delete, keyspace, key; merge,
keyspace, key, operand; delete-range, keyspace, first key, first key behind the range (empty: none); set-keyspace and drop-keyspace,
keyspace. All lines of a batch or a transaction have the same number.

Examples:
  alluvium --db /tmp/store changes keep 1G --age 7d
  alluvium --db /tmp/store changes --since 100
  alluvium --db /tmp/store changes --follow --json
  alluvium --db /tmp/store changes keep off")]
#[command(args_conflicts_with_subcommands = true)]
pub struct Changes {
    /// What to do; without it, print
    #[command(subcommand)]
    pub action: Option<ChangesAction>,
    /// Print the writes with greater numbers [default: all that are kept]
    #[arg(long, value_name = "NUMBER")]
    pub since: Option<u64>,
    /// Go on when there is nothing more, and wait for what is written next
    #[arg(long)]
    pub follow: bool,
    /// Print the lines of so many writes at most
    #[arg(long, value_name = "COUNT")]
    pub limit: Option<u64>,
}

/// What `changes` does.
#[derive(Debug, Subcommand)]
pub enum ChangesAction {
    Keep(Keep),
}

/// Say how much the store keeps from now on, and remember it
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium --db /tmp/store changes keep 1G
  alluvium --db /tmp/store changes keep 1G --age 7d
  alluvium --db /tmp/store changes keep off")]
pub struct Keep {
    /// How many bytes of writes, such as 64M or 2G; off: none, and what is there is removed
    #[arg(value_name = "SIZE", value_parser = parse_kept)]
    pub bytes: u64,
    /// The age at which writes may go, such as 30m, 1h30m or 7d [default: they stay as long as there are few enough]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub age: Option<Duration>,
}

fn parse_kept(text: &str) -> Result<u64, String> {
    match text {
        "off" => Ok(0),
        size => parse_size(size).and_then(|bytes| match bytes {
            0 => Err("expected a size such as 64M, or off".to_string()),
            bytes => Ok(bytes),
        }),
    }
}

//! The syntax of `--keyspace` and of `keyspaces`. The doc comments are the help texts that users read.

use crate::arguments::{Compression, MergeOperator};
use crate::duration::parse_duration;
use clap::{Args, Subcommand, ValueEnum};
use std::time::Duration;

/// The keyspace that a command is about.
#[derive(Debug, Args)]
pub struct InKeyspace {
    /// Keyspace of the keys; `put`, `load` and `import` create it [default: the store's default keyspace]
    #[arg(long, value_name = "NAME")]
    pub keyspace: Option<String>,
}

/// List the keyspaces of the store, create one, change its options, drop one, or delete all its keys
#[derive(Debug, Args)]
#[command(after_help = "\
A keyspace has keys of its own: the same key may be in several. Commands about keys take the option --keyspace; without it they are
about the default keyspace, which is not listed.

Examples:
  alluvium --db /tmp/store keyspaces
  alluvium --db /tmp/store keyspaces create visits --operator add
  alluvium --db /tmp/store merge --keyspace visits --integer home 1
  alluvium --db /tmp/store keyspaces drop visits")]
pub struct Keyspaces {
    /// What to do; without it, list them
    #[command(subcommand)]
    pub action: Option<KeyspaceAction>,
}

/// What `keyspaces` does.
#[derive(Debug, Subcommand)]
pub enum KeyspaceAction {
    Create(CreateKeyspace),
    Set(SetKeyspace),
    Drop(DropKeyspace),
    Clear(ClearKeyspace),
}

/// Create a keyspace, and the store if there is none; one that exists with these options is no error
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium --db /tmp/store keyspaces create users
  alluvium --db /tmp/store keyspaces create visits --operator add --durability sync
  alluvium --db /tmp/store keyspaces create sessions --expiry 8h
  alluvium --db /tmp/store keyspaces create documents --compression zstd")]
pub struct CreateKeyspace {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What `merge` makes of its values
    #[arg(long)]
    pub operator: Option<MergeOperator>,
    /// When its writes return [default: as the program says that opens the store]
    #[arg(long, value_name = "KIND")]
    pub durability: Option<Durability>,
    /// How its data is stored in new files [default: as the program says that opens the store]
    #[arg(long, value_name = "KIND")]
    pub compression: Option<Compression>,
    /// How old its pairs get, such as 30m, 1h30m or 7d (units: ms, s, m, h, d, w), or never [default: never, or what it has]
    #[arg(long, value_name = "TIME", value_parser = parse_expiry)]
    pub expiry: Option<Chosen<Duration>>,
}

/// Change options of a keyspace; those that are not named stay
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  alluvium --db /tmp/store keyspaces set sessions --expiry 24h
  alluvium --db /tmp/store keyspaces set sessions --expiry never --durability as-opened")]
pub struct SetKeyspace {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// When its writes return: as for `create`, or as-opened, as the program says that opens the store
    #[arg(long, value_name = "KIND", value_parser = parse_durability)]
    pub durability: Option<Chosen<Durability>>,
    /// How its data is stored in new files: as for `create`, or as-opened, as the program says that opens the store
    #[arg(long, value_name = "KIND", value_parser = parse_compression)]
    pub compression: Option<Chosen<Compression>>,
    /// How old its pairs get, such as 30m, 1h30m or 7d (units: ms, s, m, h, d, w), or never
    #[arg(long, value_name = "TIME", value_parser = parse_expiry)]
    pub expiry: Option<Chosen<Duration>>,
}

/// An option of a keyspace, or that it has none of its own.
pub type Chosen<T> = std::result::Result<T, Unset>;

/// The keyspace has no option of its own.
#[derive(Clone, Copy, Debug)]
pub struct Unset;

fn parse_durability(text: &str) -> Result<Chosen<Durability>, String> {
    parse_choice(text, "buffered, sync, unlogged")
}

fn parse_compression(text: &str) -> Result<Chosen<Compression>, String> {
    parse_choice(text, "none, lz4, zstd")
}

fn parse_choice<T: ValueEnum>(text: &str, kinds: &str) -> Result<Chosen<T>, String> {
    if text == "as-opened" {
        return Ok(Err(Unset));
    }
    T::from_str(text, false).map(Ok).map_err(|_| format!("expected {kinds} or as-opened"))
}

fn parse_expiry(text: &str) -> Result<Chosen<Duration>, String> {
    if text == "never" {
        return Ok(Err(Unset));
    }
    parse_duration(text).map(Ok).map_err(|expected| format!("{expected}; or never"))
}

/// Drop a keyspace with all its keys
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  alluvium --db /tmp/store keyspaces drop users")]
pub struct DropKeyspace {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// Delete all keys of a keyspace, which stays; `default` is the default keyspace
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  alluvium --db /tmp/store keyspaces clear users")]
pub struct ClearKeyspace {
    /// Its name
    #[arg(value_name = "NAME")]
    pub name: String,
}

/// When a write returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Once the system has it: it survives the process
    Buffered,
    /// Once the disk has it: it survives a power loss
    Sync,
    /// At once: it survives only what is written to branch files
    Unlogged,
}

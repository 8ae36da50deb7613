//! The syntax of `import`. The doc comments are the help texts that users read.

use crate::keyspace_arguments::InKeyspace;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Import another store's directory, read-only; creates the store if there is none
#[derive(Debug, Args)]
#[command(after_help = "\
No process may have the directory open during the import. Its keys must be in bytewise order. Pairs that the store has already stay,
except that those with the same keys are replaced.

A LevelDB directory is read as LevelDB would read it: manifest, tables and logs, with the newest value of each key. An incomplete
record at the end of a log, left by a process that died, is skipped and reported.

A RocksDB directory is read by RocksDB itself, logs included. The build must have the feature `rocksdb`; see the README. The column
family `default` goes to the default keyspace, each other one to the keyspace of its name, which is created. The pairs of a column
family enter its keyspace all at one moment. After an error or an interruption, column families that were finished remain, nothing of
the others does, and the import can be run again. Values are taken as RocksDB stores them: if the program opens the database with a
time to live, four bytes of time follow each value. An incomplete record at the end of a log is skipped. Merge operands cannot be
imported; a compaction of the whole column family by their program makes values of them.

Examples:
  alluvium --db /tmp/store import --from leveldb /var/lib/program/db
  alluvium --db /tmp/store import --from leveldb --skip-damaged --json damaged.db
  alluvium --db /tmp/store import --from rocksdb /var/lib/program/rocks
  alluvium --db /tmp/store import --from rocksdb --column-family users --keyspace people /var/lib/program/rocks")]
pub struct Import {
    /// The format of the directory
    #[arg(long, value_name = "STORE")]
    pub from: ImportFrom,
    /// The directory
    #[arg(value_name = "DIR")]
    pub source: PathBuf,
    /// RocksDB: only this column family; may be repeated [default: all]
    #[arg(long = "column-family", value_name = "NAME")]
    pub column_families: Vec<String>,
    /// LevelDB: continue past damage and skip what it affects; a key whose newest write is damaged may get an older value
    #[arg(long)]
    pub skip_damaged: bool,
    /// Skip keys longer than 64 KiB, the limit of a store
    #[arg(long)]
    pub skip_long_keys: bool,
    #[command(flatten)]
    pub within: InKeyspace,
    /// Wait for background merges before the report
    #[arg(long)]
    pub settle: bool,
}

/// Stores that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ImportFrom {
    /// LevelDB, and other stores that write its files
    Leveldb,
    /// RocksDB, in builds with the feature `rocksdb`
    Rocksdb,
}

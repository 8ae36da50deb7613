//! The command line of Alluvium: `alluvium --db DIR COMMAND`. It runs on one thread; the store starts its own
//! background threads, and `mount` those that serve the file system.
//!
//! 1. Results go to standard output, everything else to standard error.
//! 2. Exit codes (`failure.rs`): 0 success, 1 `get` found no key (not in a shell) or keys were left out of a `scan` or `dump`, 2 an error, 3 damaged bytes on disk, 4 `soak` found a
//!    failure.
//! 3. Commands that only read never create a store. If the reader of standard output closes its end, the command exits
//!    silently.

mod arguments;
mod backup_arguments;
mod bench_arguments;
mod bench_progress;
mod bytes;
mod changes_arguments;
mod commands;
mod duration;
mod failure;
mod file_system_arguments;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzz;
mod import_arguments;
mod input;
mod keyspace;
mod keyspace_arguments;
mod open;
mod output;
mod process;
mod progress;
mod report;
mod shell_arguments;
mod soak;
mod soak_arguments;
mod store_files;
mod unknown_operator;
mod ycsb;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use std::process::ExitCode;

/// Runs the command that the process arguments name.
pub fn run() -> ExitCode {
    let arguments = parse();
    match commands::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(message) = failure.message() {
                eprintln!("alluvium: {message}");
            }
            ExitCode::from(failure.code())
        }
    }
}

/// Parses the process arguments. Exits with a message if that fails, as clap does.
fn parse() -> arguments::Arguments {
    let matches = arguments::Arguments::command().get_matches();
    let parsed = arguments::Arguments::from_arg_matches(&matches);
    let mut arguments = parsed.unwrap_or_else(|error| error.exit());
    arguments.common.names_db = names_db(&matches);
    arguments
}

/// Whether `--db` is among the arguments, before the command or after it.
fn names_db(matches: &ArgMatches) -> bool {
    let mut next = Some(matches);
    while let Some(matches) = next {
        if matches!(matches.try_contains_id("db"), Ok(true))
            && matches.value_source("db") == Some(ValueSource::CommandLine)
        {
            return true;
        }
        next = matches.subcommand().map(|(_, of_command)| of_command);
    }
    false
}

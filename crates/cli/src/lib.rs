//! The command line of Alluvium: `alluvium --db DIR COMMAND`. One thread; the store brings its own for background work.
//!
//! 1. Results go to standard output, everything else to standard error.
//! 2. Exit codes: 0 done, 1 `get` found nothing, 2 an error, 3 damaged bytes on disk,
//!    4 a soak failed (`failure.rs`).
//! 3. Reading commands never make a store; a reader of standard output that goes away ends a command quietly.

mod arguments;
mod bench_arguments;
mod bench_progress;
mod bytes;
mod commands;
mod duration;
mod failure;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzz;
mod input;
mod open;
mod output;
mod process;
mod progress;
mod report;
mod soak;
mod soak_arguments;
mod store_files;
mod ycsb;

use clap::Parser;
use std::process::ExitCode;

/// Does what the process's arguments say.
pub fn run() -> ExitCode {
    let arguments = arguments::Arguments::parse();
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

//! `completions`: prints a script by which a shell completes the commands and their options.

use crate::arguments::{Arguments, Completions};
use crate::failure::Failure;
use crate::output::Output;
use clap::CommandFactory;

/// Prints the script.
pub fn run(asked: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(asked.shell, &mut Arguments::command(), "alluvium", &mut script);
    let mut output = Output::new();
    output.line(String::from_utf8_lossy(&script).trim_end())?;
    output.finish()
}

//! A mount in the background: a second process of this program serves it. The first one waits until it is mounted or
//! has failed.
//!
//! The second process writes its one line to a pipe once it is mounted. Then it closes its end of both pipes. If it
//! ends before, what it has said is the error.

use crate::failure::Failure;
use crate::output::Output;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::process::{Command, Stdio};

const FLAG: &str = "--background";
const FLAG_OF_CHILD: &str = "--detached";

fn cannot_start(error: &io::Error) -> Failure {
    Failure::Usage(format!("cannot serve a mount in the background: {error}"))
}

/// Starts the process, and returns when it has mounted. If it fails, its message and its exit code are passed on.
pub fn start() -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| cannot_start(&error))?;
    let mut child = Command::new(program)
        .args(arguments_of_child(std::env::args_os().skip(1)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot_start(&error))?;
    let (mut said, mut errors) = (Vec::new(), Vec::new());
    // The line and the messages are short: they fit into the pipes.
    let read = child.stdout.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut said));
    read.and_then(|_| child.stderr.take().map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut errors)))
        .map_err(|error| cannot_start(&error))?;
    eprint!("{}", String::from_utf8_lossy(&errors));
    if !said.is_empty() {
        let mut output = Output::new();
        output.bytes(&said)?;
        return output.finish();
    }
    let ended = child.wait().map_err(|error| cannot_start(&error))?;
    let code = ended.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code > 0);
    match code {
        Some(code) => Err(Failure::Reported { code }),
        None => Err(Failure::Usage(format!("the process in the background ended before it had mounted: {ended}"))),
    }
}

/// The same arguments with one flag for the other. The first word that looks like the flag is the flag: clap takes it
/// for nothing else before `--`.
fn arguments_of_child(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut is_replaced = false;
    let replace = |argument: OsString| {
        if argument == FLAG && !is_replaced {
            is_replaced = true;
            return FLAG_OF_CHILD.into();
        }
        argument
    };
    arguments.map(replace).collect()
}

/// Leaves the terminal's session, so that neither Ctrl-C nor its end reaches this process.
pub fn leave_session() -> Result<(), Failure> {
    rustix::process::setsid().map(drop).map_err(|error| cannot_start(&error.into()))
}

/// Closes the pipes to the first process, and keeps no directory in use. Later messages go nowhere.
pub fn leave_terminal() -> Result<(), Failure> {
    let nowhere = OpenOptions::new().read(true).write(true).open("/dev/null").map_err(|error| cannot_start(&error))?;
    rustix::stdio::dup2_stdout(&nowhere)
        .and_then(|()| rustix::stdio::dup2_stderr(&nowhere))
        .and_then(|()| rustix::process::chdir("/"))
        .map_err(|error| cannot_start(&error.into()))
}

#[cfg(test)]
mod tests {
    use super::arguments_of_child;

    #[test]
    fn only_the_flag_is_replaced() {
        let arguments = ["mount", "--background", "--", "--background", "store"];
        let replaced = arguments_of_child(arguments.into_iter().map(Into::into));
        assert_eq!(replaced, ["mount", "--detached", "--", "--background", "store"]);
    }
}

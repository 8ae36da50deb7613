//! `shell`: reads commands and runs them on one store.
//!
//! 1. A line has the syntax of the command line, so the shell has no commands of its own but `help` and `exit`.
//! 2. On a terminal a failure is shown and the next line is read. Otherwise the first failure ends the shell. That `get`
//!    finds no key is an answer, not a failure.
//! 3. All lines are about the store of the shell: a line with `--db` is refused.
//! 4. Lines that come from a pipe cannot read standard input, because the shell reads its lines there.

use crate::arguments::{Arguments, Command, Common};
use crate::failure::Failure;
use crate::shell_arguments::Shell;
use clap::{CommandFactory, FromArgMatches};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use std::io::{self, BufRead, IsTerminal};
use std::iter;
use std::path::Path;

const PROMPT: &str = "alluvium> ";

/// What a line asks for.
#[derive(Debug)]
enum Line {
    Nothing,
    Exit,
    Help,
    Run(Box<Arguments>),
    /// What clap says: help, or what is wrong.
    Said {
        text: String,
        is_error: bool,
    },
}

/// Where lines come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Terminal,
    /// A pipe or a file. The shell holds the lock of standard input meanwhile, so a command that reads it would wait for
    /// ever.
    Pipe,
}

/// Runs commands until the input ends.
pub fn run(common: &Common, shell: &Shell) -> Result<(), Failure> {
    common.directory()?;
    if io::stdin().is_terminal() { interactive(common) } else { piped(common, shell.keep_going) }
}

fn interactive(common: &Common) -> Result<(), Failure> {
    let failed = |error: ReadlineError| Failure::Output(io::Error::other(error));
    let mut editor = Editor::with_history(Config::builder().build(), MemHistory::new()).map_err(failed)?;
    editor.set_helper(Some(Commands(names())));
    loop {
        match editor.readline(PROMPT) {
            Ok(line) => {
                // Only a convenience.
                let _ = editor.add_history_entry(&line);
                match execute(common, &line, Source::Terminal) {
                    Ok(true) => {}
                    Ok(false) => return Ok(()),
                    Err(failure) => report(&failure),
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
    }
}

fn piped(common: &Common, keeps_going: bool) -> Result<(), Failure> {
    let mut failure = None;
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::Usage(format!("cannot read a command: {error}")))?;
        match execute(common, &line, Source::Pipe) {
            Ok(true) => {}
            Ok(false) => break,
            Err(failed) if keeps_going => {
                report(&failed);
                failure = Some(Failure::Reported { code: failed.code() });
            }
            Err(failed) => return Err(failed),
        }
    }
    failure.map_or(Ok(()), Err)
}

fn report(failure: &Failure) {
    if let Some(message) = failure.message() {
        eprintln!("alluvium: {message}");
    }
}

/// Runs the command of a line. False if the line ends the shell.
fn execute(common: &Common, line: &str, source: Source) -> Result<bool, Failure> {
    match parse(common, line)? {
        Line::Nothing => Ok(true),
        Line::Exit => Ok(false),
        Line::Help => print(&Arguments::command().render_help().to_string()),
        Line::Said { text, is_error: false } => print(&text),
        Line::Said { text, is_error: true } => Err(Failure::Usage(text)),
        Line::Run(arguments) if source == Source::Pipe && reads_standard_input(&arguments.command) => {
            Err(Failure::Usage(format!(
                "the shell reads its lines from standard input, so a line cannot read it: name a file instead: {}",
                line.trim()
            )))
        }
        Line::Run(arguments) => match super::run(&arguments) {
            Err(Failure::Absent) => {
                report_absent(&arguments.command);
                Ok(true)
            }
            result => result.map(|()| true),
        },
    }
}

fn reads_standard_input(command: &Command) -> bool {
    let is_standard_input = |path: &Path| path == Path::new("-");
    match command {
        Command::Put(put) => put.value_file.as_deref().is_some_and(is_standard_input),
        Command::Load(load) if load.ycsb.is_some() => false,
        Command::Load(load) => load.files.is_empty() || load.files.iter().any(|path| is_standard_input(path)),
        _ => false,
    }
}

/// A lone `get` says by its exit code that there is no such key. The shell has no exit code for a line.
fn report_absent(command: &Command) {
    if let Command::Get(get) = command {
        eprintln!("alluvium: the key {:?} is absent", get.key);
    }
}

fn print(text: &str) -> Result<bool, Failure> {
    let mut output = crate::output::Output::new();
    output.line(text.trim_end())?;
    output.finish().map(|()| true)
}

fn parse(common: &Common, line: &str) -> Result<Line, Failure> {
    let line = line.trim();
    if line.starts_with('#') {
        return Ok(Line::Nothing);
    }
    let words = shlex::split(line).ok_or_else(|| Failure::Usage(format!("a quote is not closed: {line}")))?;
    match words.first().map(String::as_str) {
        None => return Ok(Line::Nothing),
        Some("exit" | "quit") if words.len() == 1 => return Ok(Line::Exit),
        Some("help") if words.len() == 1 => return Ok(Line::Help),
        _ => {}
    }
    let words = iter::once("alluvium".to_owned()).chain(words);
    let parsed = Arguments::command()
        .try_get_matches_from(words)
        .and_then(|found| Ok((Arguments::from_arg_matches(&found)?, crate::names_db(&found))));
    let (mut arguments, names_db) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned();
            return Ok(Line::Said { text, is_error: error.use_stderr() });
        }
    };
    if matches!(arguments.command, Command::Shell(_)) {
        return Err(Failure::Usage("this is the shell already".into()));
    }
    if names_db {
        let store = common.directory()?.display();
        return Err(Failure::Usage(format!(
            "--db is not for a line: all lines of this shell are about the store {store}; start another shell for another store"
        )));
    }
    inherit(common, &mut arguments.common);
    Ok(Line::Run(Box::new(arguments)))
}

/// The options of the shell hold where a line names none of its own.
fn inherit(shell: &Common, own: &mut Common) {
    own.db.clone_from(&shell.db);
    own.names_db = shell.names_db;
    own.memory = own.memory.or(shell.memory);
    own.component = own.component.or(shell.component);
    own.sync |= shell.sync;
    own.force_cut |= shell.force_cut;
    own.json |= shell.json;
    own.hex |= shell.hex;
}

/// The names of all commands.
fn names() -> Vec<String> {
    let of_clap =
        Arguments::command().get_subcommands().map(|command| command.get_name().to_owned()).collect::<Vec<_>>();
    of_clap.into_iter().filter(|name| name != "shell").chain(["exit".to_owned(), "help".to_owned()]).collect()
}

/// Completes the first word of a line.
struct Commands(Vec<String>);

impl Completer for Commands {
    type Candidate = String;

    fn complete(&self, line: &str, position: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line.get(..position).unwrap_or_default();
        let fitting = self.0.iter().filter(|name| name.starts_with(begun)).map(|name| format!("{name} "));
        Ok((0, if begun.contains(' ') { Vec::new() } else { fitting.collect() }))
    }
}

impl Hinter for Commands {
    type Hint = String;
}

impl Highlighter for Commands {}
impl Validator for Commands {}
impl Helper for Commands {}

#[cfg(test)]
mod tests {
    use super::*;

    fn common() -> Common {
        let parsed =
            Arguments::command().try_get_matches_from(["alluvium", "--db", "/tmp/x", "--hex", "stat"]).unwrap();
        Arguments::from_arg_matches(&parsed).unwrap().common
    }

    #[test]
    fn a_line_is_a_command_with_the_options_of_the_shell() {
        let Line::Run(put) = parse(&common(), "put 'a b' \"c\" --json").unwrap() else { panic!("not a command") };
        assert!(put.common.hex && put.common.json && put.common.db == common().db);
        assert!(matches!(put.command, Command::Put(_)));
        for nothing in ["", "   ", "# put a b"] {
            assert!(matches!(parse(&common(), nothing).unwrap(), Line::Nothing));
        }
        assert!(matches!(parse(&common(), " exit ").unwrap(), Line::Exit));
        assert!(matches!(parse(&common(), "help").unwrap(), Line::Help));
        assert!(matches!(parse(&common(), "get --help").unwrap(), Line::Said { is_error: false, .. }));
        assert!(matches!(parse(&common(), "gte a").unwrap(), Line::Said { is_error: true, .. }));
        assert!(parse(&common(), "put 'a b").is_err() && parse(&common(), "shell").is_err());
    }

    #[test]
    fn commands_that_read_standard_input_are_known() {
        let reads = |line| {
            let Line::Run(arguments) = parse(&common(), line).unwrap() else { panic!("not a command") };
            reads_standard_input(&arguments.command)
        };
        for line in ["load", "load -", "load a.tsv -", "load --sorted -", "put a --value-file -"] {
            assert!(reads(line), "{line}");
        }
        for line in ["load a.tsv", "load --ycsb 3", "put a --value-file b", "put a -", "scan"] {
            assert!(!reads(line), "{line}");
        }
    }

    #[test]
    fn commands_are_completed() {
        let (commands, history) = (Commands(names()), MemHistory::new());
        let complete = |line: &str| commands.complete(line, line.len(), &Context::new(&history)).unwrap().1;
        assert_eq!(complete("comp"), ["compact ", "completions "]);
        assert_eq!(complete("ex"), ["exit "]);
        assert!(complete("put a").is_empty() && complete("she").is_empty());
    }
}

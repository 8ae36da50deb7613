//! Runs the binary on a store in its own directory.

#[path = "../../../skipfs/tests/private_mounts.rs"]
pub mod mounts;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The result of a run.
#[derive(Debug)]
pub struct Done {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: Vec<u8>,
    /// Standard error.
    pub err: String,
}

impl Done {
    /// Standard output as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.out).expect("output is UTF-8")
    }

    /// Standard output as one JSON value.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Checks the exit code.
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Checks for an error that contains this text, with nothing on standard output.
    pub fn refused(self, code: i32, text: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.out.is_empty(), "{self:?}");
        assert!(self.err.starts_with("alluvium: ") && self.err.contains(text), "expected {text:?} in {self:?}");
    }
}

/// The binary, not yet started, without the store of the environment.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alluvium"));
    command.env_remove("ALLUVIUM_DB").args(arguments);
    command
}

/// Runs a command to its end with these bytes on standard input.
pub fn finish(mut command: Command, input: &[u8]) -> Done {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    let input = input.to_vec();
    // A command that rejects its arguments does not read standard input. The broken pipe is not an error of the test.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the binary ends");
    writer.join().expect("the writer does not panic");
    Done {
        code: output.status.code().expect("the binary is not killed"),
        out: output.stdout,
        err: String::from_utf8(output.stderr).expect("messages are UTF-8"),
    }
}

/// A directory that is removed on drop. A command creates the store in it.
pub struct Store {
    directory: TempDir,
}

impl Store {
    /// No store yet.
    pub fn new() -> Self {
        Self { directory: TempDir::new().expect("a temporary directory") }
    }

    /// The path of the store.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// A file beside the store.
    pub fn file(&self, name: &str, contents: &[u8]) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, contents).expect("a file beside the store");
        path.into_os_string().into_string().expect("a path that is UTF-8")
    }

    /// A command on the store, not yet started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(&["--memory", "16M", "--db"]);
        command.arg(self.path()).args(arguments);
        command
    }

    /// Runs a command.
    pub fn run(&self, arguments: &[&str]) -> Done {
        self.feed(arguments, b"")
    }

    /// Runs a command with something on standard input.
    pub fn feed(&self, arguments: &[&str], input: &[u8]) -> Done {
        finish(self.command(arguments), input)
    }

    /// Sets a key.
    pub fn put(&self, key: &str, value: &str) {
        let done = self.run(&["put", key, value]).expect(0);
        assert!(done.out.is_empty() && done.err.is_empty(), "{done:?}");
    }
}

/// The names in a directory, sorted.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

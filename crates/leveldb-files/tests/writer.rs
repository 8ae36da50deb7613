//! Runs the real LevelDB.

use alluvium_leveldb_files::{Database, Options, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The contents of a database.
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const LIBRARY: &str = "libleveldb.so.1d";

/// The C program that calls LevelDB; `None`, and a message, if there is no compiler or no LevelDB.
fn program() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<(TempDir, PathBuf)>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("leveldb");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/leveldb.c");
        let compiled = Command::new("cc").arg("-O1").arg(source).arg("-o").arg(&program).arg("-lleveldb").output();
        match compiled {
            Ok(output) if output.status.success() => Some((directory, program)),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                skip(&format!("LevelDB's header or library is missing ({})", why.lines().next().unwrap_or_default()));
                None
            }
            Err(_) => {
                skip("there is no C compiler");
                None
            }
        }
    });
    built.as_ref().map(|(_, program)| program.as_path())
}

/// A script for the program, and the contents of the database after it.
#[derive(Default)]
pub struct Script {
    text: String,
    /// The expected contents.
    pub model: Model,
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect()
}

impl Script {
    /// Opens the database with a write buffer size in bytes.
    pub fn open(&mut self, write_buffer: usize, snappy: bool) -> &mut Self {
        let _ = writeln!(self.text, "o {write_buffer} {}", u8::from(snappy));
        self
    }

    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        let (key, value) = (key.as_ref(), value.as_ref());
        let _ = writeln!(self.text, "p {} {}", hex(key), hex(value));
        self.model.insert(key.to_vec(), value.to_vec());
        self
    }

    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        let _ = writeln!(self.text, "d {}", hex(key.as_ref()));
        self.model.remove(key.as_ref());
        self
    }

    /// Adds any other command.
    pub fn command(&mut self, command: &str) -> &mut Self {
        let _ = writeln!(self.text, "{command}");
        self
    }

    /// Runs the script and returns the printed pairs. `None` if it cannot be run.
    pub fn run(&self, directory: &Path) -> Option<Model> {
        let mut child = Command::new(program()?)
            .arg(directory)
            // Cargo's value may lead to another library of that name.
            .env_remove("LD_LIBRARY_PATH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let text = self.text.clone();
        let feeder = std::thread::spawn(move || drop(input.write_all(text.as_bytes())));
        let output = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        assert!(output.status.success(), "{LIBRARY} failed to run the script");
        let lines = std::str::from_utf8(&output.stdout).unwrap().lines();
        Some(lines.map(|line| line.split_once(' ').unwrap()).map(|(key, value)| (unhex(key), unhex(value))).collect())
    }
}

/// Returns what LevelDB itself reads in a copy of a directory.
pub fn as_leveldb_reads(directory: &Path) -> Option<Model> {
    let copy = copy(directory);
    Script::default().open(4 << 20, true).command("s").command("x").run(copy.path())
}

/// Copies a directory.
pub fn copy(directory: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    copy
}

/// Returns what this crate reads, and the number of places that it left out.
pub fn read(directory: &Path, options: Options) -> Result<(Model, usize)> {
    let mut pairs = Database::open(directory, options)?.pairs()?;
    let mut found = Model::new();
    let mut last = None;
    for pair in pairs.by_ref() {
        let (key, value) = pair?;
        assert!(last.as_ref().is_none_or(|last| *last < key), "keys are not ascending");
        last = Some(key.clone());
        found.insert(key, value);
    }
    Ok((found, pairs.left_out().len()))
}

/// Pseudorandom numbers, determined by a seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Reports a skipped test. In CI that is a failure, because CI installs everything that the tests need.
fn skip(what: &str) {
    assert!(std::env::var_os("CI").is_none(), "skipped, which is a failure in CI: {what}");
    eprintln!("SKIPPED: {what}");
}

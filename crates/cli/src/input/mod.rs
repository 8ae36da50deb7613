//! Pairs from files and standard input. Each format is a module of its own that turns bytes into pairs or says at which
//! line it could not. One thread reads.
//!
//! 1. A bad line is told by input, line number, what was expected and what was found; the lines after it can still be read.
//! 2. Memory is bounded by one line, whatever the input's length (CSV: by one record).

mod csv;
mod json_lines;
mod lines;
#[cfg(test)]
mod tests;
mod tsv;

use crate::bytes;
use alluvium::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use clap::ValueEnum;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// How pairs are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// KEY TAB VALUE, one pair a line
    Tsv,
    /// Two columns
    Csv,
    /// One JSON object a line
    Jsonl,
}

impl Format {
    /// What a file's name says.
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "tsv" | "tab" | "txt" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// How lines become pairs, besides the format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// TSV and CSV fields are hexadecimal.
    pub hex: bool,
    /// TSV fields have no escapes.
    pub literal: bool,
    /// The first CSV record is no pair.
    pub header: bool,
}

/// A key and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
}

impl Pair {
    /// A pair that a store can hold; the error says what is too long.
    fn new(key: Vec<u8>, value: Vec<u8>) -> Result<Self, String> {
        for (what, length, most) in [("key", key.len(), KEY_BYTES_MAX), ("value", value.len(), VALUE_BYTES_MAX)] {
            if length > most {
                return Err(format!("expected a {what} of at most {most} bytes, found {length}"));
            }
        }
        Ok(Self { key, value })
    }
}

/// Why there is no pair.
#[derive(Debug)]
pub enum InputError {
    /// The system refused to open or read.
    Io {
        /// What was tried: "open", "read".
        operation: &'static str,
        /// The input, as users know it.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// The line is none of a pair.
    Bad {
        /// The input, as users know it.
        name: String,
        /// The line, from 1.
        line: u64,
        /// What was expected and what was found.
        why: String,
    },
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { operation, name, source } => write!(f, "cannot {operation} {name}: {source}"),
            Self::Bad { name, line, why } => write!(f, "{name}:{line}: {why}"),
        }
    }
}

/// One input, opened but not yet read.
pub struct Input {
    /// What messages call it.
    pub name: String,
    /// How it is written.
    pub format: Format,
    /// Its bytes.
    pub reader: Box<dyn Read>,
    /// How many there are, where that can be told.
    pub length: Option<u64>,
}

impl Input {
    /// Standard input; TSV unless said otherwise.
    pub fn standard(format: Option<Format>) -> Self {
        Self {
            name: "standard input".to_string(),
            format: format.unwrap_or(Format::Tsv),
            reader: Box::new(io::stdin()),
            length: None,
        }
    }

    /// A file. `Ok(None)` if its format can neither be told by its name nor was given.
    pub fn file(path: &Path, format: Option<Format>) -> Result<Option<Self>, InputError> {
        let Some(format) = format.or_else(|| Format::of_name(path)) else { return Ok(None) };
        let name = path.display().to_string();
        let failed = |source| InputError::Io { operation: "open", name: name.clone(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let length = metadata.is_file().then_some(metadata.len());
        Ok(Some(Self { name, format, reader: Box::new(file), length }))
    }

    /// The pairs, through `watch`, which sees every read (a progress bar counts bytes there).
    pub fn pairs(self, reading: Reading, watch: impl FnOnce(Box<dyn Read>) -> Box<dyn Read>) -> Pairs {
        let reader = watch(self.reader);
        match self.format {
            Format::Tsv => Box::new(tsv::TsvPairs::new(self.name, reader, reading)),
            Format::Csv => Box::new(csv::CsvPairs::new(self.name, reader, reading)),
            Format::Jsonl => Box::new(json_lines::JsonPairs::new(self.name, reader)),
        }
    }
}

/// Pairs one by one. After `InputError::Bad` the next call goes on behind the bad line; after `InputError::Io` it ends.
pub type Pairs = Box<dyn Iterator<Item = Result<Pair, InputError>>>;

/// The bytes of a TSV or CSV field.
fn field(bytes: &[u8], hex: bool, escaped: bool) -> Result<Vec<u8>, String> {
    match (hex, escaped) {
        (true, _) => bytes::from_hex(bytes),
        (false, true) => bytes::unescape(bytes),
        (false, false) => Ok(bytes.to_vec()),
    }
}

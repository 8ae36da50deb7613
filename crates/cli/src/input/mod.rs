//! Reads pairs from files and standard input. Each format is one module, which parses bytes into pairs or returns an
//! error with the line number. Single-threaded.
//!
//! 1. An error for a bad line names the input, the line number, what was expected and what was found. Reading can
//!    continue after it.
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

/// The input formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// KEY TAB VALUE, one pair per line
    Tsv,
    /// Two columns
    Csv,
    /// One JSON object per line
    Jsonl,
}

impl Format {
    /// The format that a file name extension selects.
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "tsv" | "tab" | "txt" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}

/// How fields are interpreted, besides the format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// TSV and CSV fields are hexadecimal.
    pub hex: bool,
    /// TSV fields have no escapes.
    pub literal: bool,
    /// The first CSV record is a header.
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
    /// Checks the lengths; the error says what is too long.
    fn new(key: Vec<u8>, value: Vec<u8>) -> Result<Self, String> {
        for (what, length, most) in [("key", key.len(), KEY_BYTES_MAX), ("value", value.len(), VALUE_BYTES_MAX)] {
            if length > most {
                return Err(format!("expected a {what} of at most {most} bytes, found {length}"));
            }
        }
        Ok(Self { key, value })
    }
}

/// Why a pair could not be read.
#[derive(Debug)]
pub enum InputError {
    /// The file cannot be opened or read.
    Io {
        /// The failed operation: "open" or "read".
        operation: &'static str,
        /// The name of the input in messages.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The line is not a pair.
    Bad {
        /// The name of the input in messages.
        name: String,
        /// The line number, from 1.
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

/// An input that is open but not yet read.
pub struct Input {
    /// Its name in messages.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// Its bytes.
    pub reader: Box<dyn Read>,
    /// Its length, if known.
    pub length: Option<u64>,
}

impl Input {
    /// Standard input; TSV by default.
    pub fn standard(format: Option<Format>) -> Self {
        Self {
            name: "standard input".to_string(),
            format: format.unwrap_or(Format::Tsv),
            reader: Box::new(io::stdin()),
            length: None,
        }
    }

    /// Opens a file. Returns `Ok(None)` if no format is given and the name does not determine one.
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

    /// Reads the pairs. `wrap` wraps the reader; a progress bar uses it to count the bytes that are read.
    pub fn pairs(self, reading: Reading, wrap: impl FnOnce(Box<dyn Read>) -> Box<dyn Read>) -> Pairs {
        let reader = wrap(self.reader);
        match self.format {
            Format::Tsv => Box::new(tsv::TsvPairs::new(self.name, reader, reading)),
            Format::Csv => Box::new(csv::CsvPairs::new(self.name, reader, reading)),
            Format::Jsonl => Box::new(json_lines::JsonPairs::new(self.name, reader)),
        }
    }
}

/// Iterates over pairs. After `InputError::Bad` it continues with the next line; after `InputError::Io` it ends.
pub type Pairs = Box<dyn Iterator<Item = Result<Pair, InputError>>>;

/// Decodes a TSV or CSV field.
fn field(bytes: &[u8], hex: bool, escaped: bool) -> Result<Vec<u8>, String> {
    match (hex, escaped) {
        (true, _) => bytes::from_hex(bytes),
        (false, true) => bytes::unescape(bytes),
        (false, false) => Ok(bytes.to_vec()),
    }
}

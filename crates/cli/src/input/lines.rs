//! Numbered lines of bytes with a maximum length.

use super::InputError;
use std::io::{BufRead, BufReader, Read};

/// The longest line: the longest value in hexadecimal, and a key.
const LINE_BYTES_MAX: u64 = (2 << 30) + (1 << 20);

/// Reads lines into one reused buffer.
pub struct Lines {
    name: String,
    reader: BufReader<Box<dyn Read>>,
    line: Vec<u8>,
    number: u64,
    failed: bool,
}

impl Lines {
    /// Reads nothing before the first `advance`.
    pub fn new(name: String, reader: Box<dyn Read>) -> Self {
        Self { name, reader: BufReader::with_capacity(256 << 10, reader), line: Vec::new(), number: 0, failed: false }
    }

    /// Moves to the next nonempty line; false at the end. `line()` returns it without its LF or CR LF.
    pub fn advance(&mut self) -> Result<bool, InputError> {
        while !self.failed {
            self.line.clear();
            self.number += 1;
            let read = (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
            match read {
                Ok(0) => return Ok(false),
                Ok(length) if length as u64 == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') => {
                    self.failed = true;
                    return Err(self.bad(format!("expected a line, found none in {LINE_BYTES_MAX} bytes")));
                }
                Ok(_) => {}
                Err(source) => {
                    self.failed = true;
                    return Err(InputError::Io { operation: "read", name: self.name.clone(), source });
                }
            }
            if self.line.last() == Some(&b'\n') {
                self.line.pop();
                if self.line.last() == Some(&b'\r') {
                    self.line.pop();
                }
            }
            if !self.line.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The current line.
    pub fn line(&self) -> &[u8] {
        &self.line
    }

    /// An error at the current line.
    pub fn bad(&self, why: String) -> InputError {
        InputError::Bad { name: self.name.clone(), line: self.number, why }
    }
}

//! Prints pairs on standard output, in each of the formats that `load` reads.

use crate::bytes;
use crate::failure::Failure;
use std::io::{self, BufWriter, StdoutLock, Write};

/// Output formats of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairForm {
    /// Key TAB value, escaped.
    Escaped,
    /// Key TAB value, in hexadecimal.
    Hex,
    /// One object per line. With `hex` always `key_hex` and `value_hex`, otherwise only for bytes that are not UTF-8.
    Json {
        /// Whether everything is in hexadecimal.
        hex: bool,
    },
    /// Two columns, always quoted, so that the first field cannot be taken for a byte order mark.
    Csv {
        /// Whether both are in hexadecimal.
        hex: bool,
    },
}

impl PairForm {
    /// The format that `--json` and `--hex` select.
    pub fn new(json: bool, hex: bool) -> Self {
        match (json, hex) {
            (true, hex) => Self::Json { hex },
            (false, true) => Self::Hex,
            (false, false) => Self::Escaped,
        }
    }

    /// Appends one line to `out`.
    pub fn append(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Escaped => {
                bytes::escape_into(key, out);
                out.push(b'\t');
                bytes::escape_into(value, out);
            }
            Self::Hex => {
                bytes::hex_into(key, out);
                out.push(b'\t');
                bytes::hex_into(value, out);
            }
            Self::Json { hex } => {
                out.push(b'{');
                append_member("key", key, hex, out);
                out.push(b',');
                append_member("value", value, hex, out);
                out.push(b'}');
            }
            Self::Csv { hex } => {
                append_quoted(key, hex, out);
                out.push(b',');
                append_quoted(value, hex, out);
            }
        }
        out.push(b'\n');
    }
}

fn append_member(name: &str, value: &[u8], hex: bool, out: &mut Vec<u8>) {
    let text = if hex { None } else { std::str::from_utf8(value).ok() };
    match text {
        Some(text) => {
            out.extend_from_slice(format!("\"{name}\":").as_bytes());
            out.extend_from_slice(serde_json::Value::from(text).to_string().as_bytes());
        }
        None => {
            out.extend_from_slice(format!("\"{name}_hex\":\"").as_bytes());
            bytes::hex_into(value, out);
            out.push(b'"');
        }
    }
}

fn append_quoted(value: &[u8], hex: bool, out: &mut Vec<u8>) {
    out.push(b'"');
    if hex {
        bytes::hex_into(value, out);
    } else {
        for &byte in value {
            if byte == b'"' {
                out.push(b'"');
            }
            out.push(byte);
        }
    }
    out.push(b'"');
}

/// Buffered standard output. A failed write is a `Failure::Output`; if the cause is a closed pipe, the command exits
/// silently.
pub struct Output {
    stdout: BufWriter<StdoutLock<'static>>,
    line: Vec<u8>,
}

impl Output {
    /// Locks standard output for the lifetime of the value.
    pub fn new() -> Self {
        Self { stdout: BufWriter::with_capacity(64 << 10, io::stdout().lock()), line: Vec::new() }
    }

    /// Prints a pair.
    pub fn pair(&mut self, form: PairForm, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.line.clear();
        form.append(key, value, &mut self.line);
        self.stdout.write_all(&self.line).map_err(Failure::Output)
    }

    /// Prints bytes unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.stdout.write_all(bytes).map_err(Failure::Output)
    }

    /// Prints a line of text.
    pub fn line(&mut self, text: impl std::fmt::Display) -> Result<(), Failure> {
        writeln!(self.stdout, "{text}").map_err(Failure::Output)
    }

    /// Writes the buffer to standard output.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.stdout.flush().map_err(Failure::Output)
    }

    /// Flushes and closes the output.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::PairForm;

    fn line(form: PairForm, key: &[u8], value: &[u8]) -> String {
        let mut out = Vec::new();
        form.append(key, value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn forms() {
        assert_eq!(line(PairForm::Escaped, b"a\tb", b"\xff"), "a\\tb\t\\xff\n");
        assert_eq!(line(PairForm::Hex, b"az", b"\xff\0"), "617a\tff00\n");
        assert_eq!(
            line(PairForm::Json { hex: false }, b"a\"b", b"\xff"),
            "{\"key\":\"a\\\"b\",\"value_hex\":\"ff\"}\n"
        );
        assert_eq!(line(PairForm::Json { hex: true }, b"a", b""), "{\"key_hex\":\"61\",\"value_hex\":\"\"}\n");
        assert_eq!(line(PairForm::Csv { hex: false }, b"a,\"b\"", b"c\nd"), "\"a,\"\"b\"\"\",\"c\nd\"\n");
    }
}

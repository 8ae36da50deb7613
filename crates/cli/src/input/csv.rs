//! Two columns, comma-separated, quoted where needed (RFC 4180). Fields are bytes: they need not be UTF-8.

use super::{InputError, Pair, Reading, field};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use std::io::Read;

/// The pairs of a CSV input.
pub struct CsvPairs {
    name: String,
    reader: Reader<Box<dyn Read>>,
    record: ByteRecord,
    hex: bool,
    failed: bool,
}

impl CsvPairs {
    /// A reader at the start of the input.
    pub fn new(name: String, reader: Box<dyn Read>, reading: Reading) -> Self {
        let reader = ReaderBuilder::new()
            .has_headers(reading.header)
            .flexible(true)
            .buffer_capacity(256 << 10)
            .from_reader(reader);
        Self { name, reader, record: ByteRecord::new(), hex: reading.hex, failed: false }
    }

    fn parse(&self) -> Result<Pair, InputError> {
        let line = self.record.position().map_or(0, csv::Position::line);
        let bad = |why| InputError::Bad { name: self.name.clone(), line, why };
        if self.record.len() != 2 {
            return Err(bad(format!("expected 2 columns, found {}", self.record.len())));
        }
        let key = field(&self.record[0], self.hex, false).map_err(|why| bad(format!("in the key: {why}")))?;
        let value = field(&self.record[1], self.hex, false).map_err(|why| bad(format!("in the value: {why}")))?;
        Pair::new(key, value).map_err(bad)
    }
}

impl Iterator for CsvPairs {
    type Item = Result<Pair, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        match self.reader.read_byte_record(&mut self.record) {
            Ok(true) => Some(self.parse()),
            Ok(false) => None,
            Err(error) => {
                self.failed = true;
                let name = self.name.clone();
                let line = error.position().map_or(0, csv::Position::line);
                Some(Err(match error.into_kind() {
                    ErrorKind::Io(source) => InputError::Io { operation: "read", name, source },
                    other => InputError::Bad { name, line, why: format!("expected CSV, found {other:?}") },
                }))
            }
        }
    }
}

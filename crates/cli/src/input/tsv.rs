//! KEY TAB VALUE, one pair per line.

use super::lines::Lines;
use super::{InputError, Pair, Reading, field};
use std::io::Read;

/// The pairs of a TSV input.
pub struct TsvPairs {
    lines: Lines,
    reading: Reading,
}

impl TsvPairs {
    /// A reader at the start of the input.
    pub fn new(name: String, reader: Box<dyn Read>, reading: Reading) -> Self {
        Self { lines: Lines::new(name, reader), reading }
    }

    fn parse(&self) -> Result<Pair, String> {
        let mut fields = self.lines.line().split(|&b| b == b'\t');
        match (fields.next(), fields.next(), fields.count()) {
            (Some(key), Some(value), 0) => {
                let (hex, escaped) = (self.reading.hex, !self.reading.literal);
                let key = field(key, hex, escaped).map_err(|why| format!("in the key: {why}"))?;
                let value = field(value, hex, escaped).map_err(|why| format!("in the value: {why}"))?;
                Pair::new(key, value)
            }
            (_, None, _) => Err("expected KEY TAB VALUE, found no TAB".to_string()),
            (_, Some(_), more) => {
                Err(format!("expected KEY TAB VALUE, found {} TABs (one in a value is written \\t)", 1 + more))
            }
        }
    }
}

impl Iterator for TsvPairs {
    type Item = Result<Pair, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.lines.advance() {
            Ok(true) => Some(self.parse().map_err(|why| self.lines.bad(why))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

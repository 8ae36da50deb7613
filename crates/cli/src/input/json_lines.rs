//! One JSON object per line: `key` or `key_hex`, `value` or `value_hex`.

use super::lines::Lines;
use super::{InputError, Pair};
use crate::bytes;
use serde::Deserialize;
use std::borrow::Cow;
use std::io::Read;

/// One row. Unknown members are errors, since they are probably misspelled.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row<'a> {
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    key_hex: Option<Cow<'a, str>>,
    value: Option<Cow<'a, str>>,
    value_hex: Option<Cow<'a, str>>,
}

/// The pairs of a JSON Lines input.
pub struct JsonPairs {
    lines: Lines,
}

impl JsonPairs {
    /// A reader at the start of the input.
    pub fn new(name: String, reader: Box<dyn Read>) -> Self {
        Self { lines: Lines::new(name, reader) }
    }
}

/// Parses one line; the error describes what is wrong.
fn parse(line: &[u8]) -> Result<Pair, String> {
    let row: Row<'_> = serde_json::from_slice(line).map_err(|error| {
        // The parser counts lines within this line, so only its column helps.
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or(&text);
        format!("expected {{\"key\": \"...\", \"value\": \"...\"}}, found at column {}: {text}", error.column())
    })?;
    let member = |name: &str, text: Option<Cow<'_, str>>, hex: Option<Cow<'_, str>>| match (text, hex) {
        (Some(text), None) => Ok(text.into_owned().into_bytes()),
        (None, Some(hex)) => bytes::from_hex(hex.as_bytes()).map_err(|why| format!("in {name}_hex: {why}")),
        (None, None) => Err(format!("expected \"{name}\" or \"{name}_hex\" as a string, found neither")),
        (Some(_), Some(_)) => Err(format!("expected \"{name}\" or \"{name}_hex\", found both")),
    };
    Pair::new(member("key", row.key, row.key_hex)?, member("value", row.value, row.value_hex)?)
}

impl Iterator for JsonPairs {
    type Item = Result<Pair, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.lines.advance() {
                Ok(true) if self.lines.line().iter().all(u8::is_ascii_whitespace) => {}
                Ok(true) => return Some(parse(self.lines.line()).map_err(|why| self.lines.bad(why))),
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

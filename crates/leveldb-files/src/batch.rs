//! The contents of a log record: a batch of writes.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 8 | sequence number of the first write |
//! | 4 | number of writes |
//! | | for each write: 1, key, value, or 0, key; keys and values are a length and as many bytes |

use crate::decode::Decoder;

/// One write: its sequence number, the key, and the value of a put.
pub type Write<'a> = (u64, &'a [u8], Option<&'a [u8]>);

/// Decodes the writes of a record; `None` if the record is invalid.
pub fn decode(record: &[u8]) -> Option<Vec<Write<'_>>> {
    let mut decoder = Decoder::new(record);
    let (first, count) = (decoder.fixed64()?, u64::from(decoder.fixed32()?));
    let mut writes = Vec::new();
    while !decoder.is_empty() {
        let number = first.checked_add(writes.len() as u64)?;
        let write = match decoder.byte()? {
            1 => (number, decoder.string()?, Some(decoder.string()?)),
            0 => (number, decoder.string()?, None),
            _ => return None,
        };
        writes.push(write);
    }
    (writes.len() as u64 == count).then_some(writes)
}

//! What a record of a log says.
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | the sequence number of the first write |
//! | 4 | how many writes |
//! | | for each: 1, key, value, or 0, key; each of these a length and as many bytes |

use crate::decode::Decoder;

/// One write: its number, the key, and the value of a put.
pub type Write<'a> = (u64, &'a [u8], Option<&'a [u8]>);

/// The writes of a record; `None` where it is not one.
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

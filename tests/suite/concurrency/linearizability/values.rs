//! Values as the store sees them: they repeat their number and length, so that a value that is mixed from two,
//! truncated, or never written is detected.

use super::history::Value;

/// The shortest value that carries a number.
pub const BYTES_MIN: usize = 8;

/// The bytes of a value; `ABSENT` has none.
pub fn encode(value: Value, length: usize) -> Vec<u8> {
    if value == Value::EMPTY {
        return Vec::new();
    }
    assert!(value != Value::ABSENT && length >= BYTES_MIN);
    let mut stamp = value.0.to_le_bytes().to_vec();
    stamp.extend((length as u32).to_le_bytes());
    stamp.into_iter().cycle().take(length).collect()
}

/// The value that the store returned, or what is wrong with it.
pub fn decode(found: Option<&[u8]>) -> Result<Value, String> {
    let Some(bytes) = found else { return Ok(Value::ABSENT) };
    if bytes.is_empty() {
        return Ok(Value::EMPTY);
    }
    let Some((stamp, _)) = bytes.split_first_chunk::<BYTES_MIN>() else {
        return Err(format!("a value of {} bytes that was never written", bytes.len()));
    };
    let (value, length) = stamp.split_at(4);
    let (value, length) =
        (u32::from_le_bytes(value.try_into().unwrap()), u32::from_le_bytes(length.try_into().unwrap()));
    let strays = bytes.chunks(BYTES_MIN).position(|chunk| *chunk != stamp[..chunk.len()]);
    if length as usize != bytes.len() || strays.is_some() {
        let strays = strays.map(|chunk| format!(", from byte {} on of another value", chunk * BYTES_MIN));
        let (bytes, strays) = (bytes.len(), strays.unwrap_or_default());
        return Err(format!(
            "a value that was never written: {bytes} bytes that begin as v{value} of {length} bytes{strays}"
        ));
    }
    Ok(Value(value))
}

#[test]
fn values_that_nobody_wrote_are_detected() {
    for length in [8, 9, 100, 3000] {
        let bytes = encode(Value(7), length);
        assert_eq!(decode(Some(&bytes)), Ok(Value(7)));
        assert!(decode(Some(&bytes[..length - 1])).is_err());
        let mut mixed = bytes.clone();
        mixed[length - 1] ^= 1;
        assert!(decode(Some(&mixed)).is_err());
    }
    assert_eq!(decode(Some(&encode(Value::EMPTY, 0))), Ok(Value::EMPTY));
    assert_eq!(decode(None), Ok(Value::ABSENT));
}

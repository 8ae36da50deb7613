//! Variable-length unsigned integers (LEB128, at most ten bytes). Pure; any thread.

/// Appends `value`.
pub fn write(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that `write` appends for `value`.
pub fn length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes `value` to the front of `out` and returns the number of bytes written. `out` must have `length(value)` bytes.
pub fn write_to(mut value: u64, out: &mut [u8]) -> usize {
    let mut at = 0;
    while value >= 0x80 {
        out[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    out[at] = value as u8;
    at + 1
}

/// Reads a value from the front of `bytes` and advances it. `None` if the bytes end early, exceed 64 bits, or are not
/// the shortest form.
pub fn read(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (at, &byte) in bytes.iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if at == 9 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            if byte == 0 && at > 0 {
                return None;
            }
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Reads a length and then that many bytes; `None` if they are not all there.
pub fn read_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(read(bytes)?).ok()?;
    if length > bytes.len() {
        return None;
    }
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    Some(taken)
}

/// Appends a length and then the bytes.
pub fn write_bytes(value: &[u8], out: &mut Vec<u8>) {
    write(value.len() as u64, out);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_rejects_garbage() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut out = Vec::new();
                write(value, &mut out);
                assert_eq!(out.len(), length(value));
                let mut fixed = [0; 10];
                assert_eq!(write_to(value, &mut fixed), out.len());
                assert_eq!(&fixed[..out.len()], &out[..]);
                let mut rest = &out[..];
                assert_eq!(read(&mut rest), Some(value));
                assert!(rest.is_empty());
                assert_eq!(read(&mut &out[..out.len() - 1]), None);
            }
        }
        assert_eq!(read(&mut &[0xff; 10][..]), None);
        assert_eq!(read(&mut &[0x80, 0x00][..]), None);
        assert_eq!(read_bytes(&mut &[5, 1, 2][..]), None);
    }
}

//! Conversions between bytes and text: hexadecimal, TSV escapes, sizes. Pure functions.
//!
//! 1. `unescape(escape(b)) == b` and `from_hex(hex(b)) == b` for all bytes.
//! 2. An escaped field is UTF-8 without control characters, so it contains neither TAB nor LF, the field terminators.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends bytes in hexadecimal.
pub fn hex_into(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() * 2);
    for &byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|&b| [b >> 4, b & 15]).map(|d| char::from(DIGITS[usize::from(d)])).collect()
}

/// Parses hexadecimal digits of either case.
pub fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    if !text.len().is_multiple_of(2) {
        return Err(format!("expected pairs of hexadecimal digits, found {} digits", text.len()));
    }
    text.chunks_exact(2).map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn digit(byte: u8) -> Result<u8, String> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err(format!("expected a hexadecimal digit, found {:?}", char::from(byte))),
    }
}

/// Appends bytes escaped, as one field of a TSV line.
pub fn escape_into(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                0..0x20 | 0x7f => escape_byte(byte, out),
                _ => out.push(byte),
            }
        }
        chunk.invalid().iter().for_each(|&byte| escape_byte(byte, out));
    }
}

fn escape_byte(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    hex_into(&[byte], out);
}

/// Decodes an escaped field.
pub fn unescape(field: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some(at) = rest.iter().position(|&b| b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let (byte, length) = match &rest[at + 1..] {
            [b'\\', ..] => (b'\\', 2),
            [b't', ..] => (b'\t', 2),
            [b'n', ..] => (b'\n', 2),
            [b'r', ..] => (b'\r', 2),
            [b'x', high, low, ..] => (digit(*high)? << 4 | digit(*low)?, 4),
            _ => return Err("expected \\\\ \\t \\n \\r or \\xNN after a backslash".to_string()),
        };
        out.push(byte);
        rest = &rest[at + length..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

/// Parses a size: digits, then optionally K, M, G or T (powers of 1024), then optionally B or iB.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err("expected a size such as 4096, 64M or 2G".to_string()),
    };
    let number: u64 = digits.parse().map_err(|_| "expected a size such as 4096, 64M or 2G".to_string())?;
    number.checked_mul(1 << shift).ok_or_else(|| "the size does not fit in 64 bits".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn escape(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        escape_into(bytes, &mut out);
        out
    }

    #[test]
    fn escapes_are_as_documented() {
        assert_eq!(escape(b"a\\b\tc\nd\re"), b"a\\\\b\\tc\\nd\\re");
        assert_eq!(escape(b"\0\x1b\x7f"), b"\\x00\\x1b\\x7f");
        assert_eq!(escape("größe".as_bytes()), "größe".as_bytes());
        assert_eq!(escape(b"a\xff\xc3z"), b"a\\xff\\xc3z");
    }

    #[test]
    fn escaping_and_hexadecimal_round_trip_every_pair_of_bytes() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let bytes = [first, second, b'x'];
                let escaped = escape(&bytes);
                assert!(std::str::from_utf8(&escaped).is_ok(), "{bytes:?}");
                assert!(!escaped.iter().any(u8::is_ascii_control), "{bytes:?}");
                assert_eq!(unescape(&escaped).as_deref(), Ok(&bytes[..]));
                assert_eq!(from_hex(hex(&bytes).as_bytes()).as_deref(), Ok(&bytes[..]));
            }
        }
    }

    #[test]
    fn bad_escapes_and_digits_are_errors() {
        for bad in [&b"\\"[..], b"a\\", b"\\q", b"\\x", b"\\x1", b"\\xg0", b"\\x0g"] {
            assert!(unescape(bad).is_err(), "{bad:?}");
        }
        for bad in [&b"0"[..], b"0g", b"abc", b"  "] {
            assert!(from_hex(bad).is_err(), "{bad:?}");
        }
        assert_eq!(from_hex(b"00fFA0"), Ok(vec![0, 0xff, 0xa0]));
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert_eq!(parse_size("2gib"), Ok(2 << 30));
        for bad in ["", "M", "-1", "1.5G", "12Q", "99999999999T", "99999999999999999999"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }
}

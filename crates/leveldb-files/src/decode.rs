//! Decodes numbers and strings. `None` means that the bytes are too few or invalid.

/// Decodes bytes from front to back.
#[derive(Clone, Copy)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the remaining bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether no bytes remain.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Decodes `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    /// Decodes one byte.
    pub fn byte(&mut self) -> Option<u8> {
        Some(self.bytes(1)?[0])
    }

    /// Decodes four bytes, little-endian.
    pub fn fixed32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    /// Decodes eight bytes, little-endian.
    pub fn fixed64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(8)?.try_into().ok()?))
    }

    /// Decodes seven bits per byte, least significant first. The high bit is set if more bytes follow.
    pub fn varint64(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Like `varint64`, for a number of 32 bits.
    pub fn varint32(&mut self) -> Option<u32> {
        self.varint64()?.try_into().ok()
    }

    /// Decodes a length and as many bytes.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.varint32()?;
        self.bytes(length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_ends() {
        let mut decoder = Decoder::new(&[0xac, 0x02, 3, b'a', b'b', b'c', 1, 0, 0, 0]);
        assert_eq!(decoder.varint64(), Some(300));
        assert_eq!(decoder.string(), Some(&b"abc"[..]));
        assert_eq!(decoder.fixed32(), Some(1));
        assert!(decoder.is_empty() && decoder.byte().is_none());
        let most = [&[0xff; 9][..], &[1]].concat();
        assert_eq!(Decoder::new(&most).varint64(), Some(u64::MAX));
        assert_eq!(Decoder::new(&most).varint32(), None);
        assert_eq!(Decoder::new(&[0xff; 11]).varint64(), None);
        assert_eq!(Decoder::new(&[&[0xff; 9][..], &[2]].concat()).varint64(), None);
        assert_eq!(Decoder::new(&[0x80]).varint64(), None);
        assert_eq!(Decoder::new(&[5, b'a']).string(), None);
    }
}

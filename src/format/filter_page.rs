//! The encoding of one page of a quotient filter (see also `docs/format/filter.md`). Pure; any thread.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 1 | version of this payload, 1 |
//! | 1 | 1 | *r*, bits of a remainder, 1 to 16 |
//! | 2 | 2 | flags; bit 0: saturated, the page has no slots and may contain everything |
//! | 4 | 4 | quotients: the number of values that a quotient can have |
//! | 8 | 4 | slots: at least quotients; 0 if saturated |
//! | 12 | 4 | stored remainders |
//! | 16 | ceil(slots (r + 3) / 8) | slots, packed without gaps, lowest bit first |
//! | then | 3 | zeroes, so that every slot can be read as four bytes |
//!
//! A slot is, from its lowest bit: occupied, continuation, shifted, then the remainder. Bytes after the last are
//! ignored, so a payload may include the padding of its page.
//!
//! The page's header (file, offset, checksum) is that of a branch page. `PAGE_PAYLOAD_BYTES` leaves space for it.
//!
//! Invariant: every slot below `slots()` of a `FilterPage` that `parse` returned can be read without a failing check,
//! whatever the bytes are.

/// Longest payload: a page of 4096 bytes less 64 for its header.
pub const PAGE_PAYLOAD_BYTES: usize = 4096 - 64;
/// Bytes before the slots.
pub const HEADER_BYTES: usize = 16;
/// Metadata bits of a slot.
pub const METADATA_BITS: u32 = 3;
/// Most bits of a remainder.
pub const REMAINDER_BITS_MAX: u32 = 16;

const VERSION: u8 = 1;
const SATURATED: u16 = 1;
const TAIL_BYTES: usize = 3;

const _: () = assert!(METADATA_BITS + REMAINDER_BITS_MAX + 7 <= 32, "a slot is read as four bytes");

/// The bits of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(pub u32);

impl Slot {
    /// Some stored remainder has this slot's index as its quotient.
    pub const OCCUPIED: u32 = 1;
    /// The remainder here belongs to the same run as the previous one.
    pub const CONTINUATION: u32 = 2;
    /// The remainder here is not at its quotient.
    pub const SHIFTED: u32 = 4;

    /// See `OCCUPIED`.
    pub fn occupied(self) -> bool {
        self.0 & Self::OCCUPIED != 0
    }

    /// See `CONTINUATION`.
    pub fn continuation(self) -> bool {
        self.0 & Self::CONTINUATION != 0
    }

    /// See `SHIFTED`.
    pub fn shifted(self) -> bool {
        self.0 & Self::SHIFTED != 0
    }

    /// The remainder.
    pub fn remainder(self) -> u32 {
        self.0 >> METADATA_BITS
    }
}

/// Slots with `remainder_bits` that fit into the longest payload.
pub const fn slots_max(remainder_bits: u32) -> u32 {
    ((PAGE_PAYLOAD_BYTES - HEADER_BYTES - TAIL_BYTES) * 8) as u32 / (remainder_bits + METADATA_BITS)
}

/// The offset in a payload at which a slot with `remainder_bits` begins.
pub fn slot_offset(at: u32, remainder_bits: u32) -> usize {
    HEADER_BYTES + place(at, remainder_bits).0
}

/// A payload with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct FilterPage<'a> {
    slots_at: &'a [u8],
    remainder_bits: u32,
    quotients: u32,
    slots: u32,
    stored: u32,
    saturated: bool,
}

impl<'a> FilterPage<'a> {
    /// Parses a payload; `None` if its header is invalid.
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let (header, slots_at) = payload.split_first_chunk::<HEADER_BYTES>()?;
        let [version, remainder_bits, f0, f1, q0, q1, q2, q3, s0, s1, s2, s3, n0, n1, n2, n3] = *header;
        let page = Self {
            slots_at,
            remainder_bits: u32::from(remainder_bits),
            quotients: u32::from_le_bytes([q0, q1, q2, q3]),
            slots: u32::from_le_bytes([s0, s1, s2, s3]),
            stored: u32::from_le_bytes([n0, n1, n2, n3]),
            saturated: u16::from_le_bytes([f0, f1]) & SATURATED != 0,
        };
        let bits_known = (1..=REMAINDER_BITS_MAX).contains(&page.remainder_bits);
        if version != VERSION || !bits_known || page.slots > slots_max(page.remainder_bits) {
            return None;
        }
        let complete = slots_at.len() >= slot_bytes(page.slots, page.remainder_bits) + TAIL_BYTES;
        (complete && page.quotients <= page.slots && page.stored <= page.slots).then_some(page)
    }

    /// Bits of a remainder.
    pub fn remainder_bits(&self) -> u32 {
        self.remainder_bits
    }

    /// The number of values that a quotient can have.
    pub fn quotients(&self) -> u32 {
        self.quotients
    }

    /// Number of slots; at least `quotients`, since runs at the end extend beyond the last quotient.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Whether the page may contain everything.
    pub fn saturated(&self) -> bool {
        self.saturated
    }

    /// The slot at `at`. Requires `at < slots()`.
    pub fn slot(&self, at: u32) -> Slot {
        debug_assert!(at < self.slots);
        let (byte, shift, mask) = place(at, self.remainder_bits);
        match self.slots_at.get(byte..).and_then(|rest| rest.first_chunk::<4>()) {
            Some(four) => Slot((u32::from_le_bytes(*four) >> shift) & mask),
            None => Slot(0),
        }
    }
}

/// A payload being written.
#[derive(Debug)]
pub struct FilterPageWriter {
    payload: Vec<u8>,
    remainder_bits: u32,
}

impl FilterPageWriter {
    /// A page of empty slots. Requires `quotients <= slots <= slots_max(remainder_bits)`.
    pub fn new(remainder_bits: u32, quotients: u32, slots: u32, stored: u32) -> Self {
        assert!(quotients <= slots && stored <= slots && slots <= slots_max(remainder_bits));
        let mut payload = vec![0; HEADER_BYTES + slot_bytes(slots, remainder_bits) + TAIL_BYTES];
        payload[0] = VERSION;
        payload[1] = remainder_bits as u8;
        payload[4..8].copy_from_slice(&quotients.to_le_bytes());
        payload[8..12].copy_from_slice(&slots.to_le_bytes());
        payload[12..16].copy_from_slice(&stored.to_le_bytes());
        Self { payload, remainder_bits }
    }

    /// The payload of a page that may contain everything.
    pub fn saturated(remainder_bits: u32) -> Vec<u8> {
        let mut page = Self::new(remainder_bits, 0, 0, 0);
        page.payload[2..4].copy_from_slice(&SATURATED.to_le_bytes());
        page.finish()
    }

    /// Sets bits of the slot at `at`.
    pub fn set(&mut self, at: u32, bits: u32) {
        let (byte, shift, mask) = place(at, self.remainder_bits);
        debug_assert_eq!(bits & !mask, 0);
        let four = (bits << shift).to_le_bytes();
        for (to, from) in self.payload[HEADER_BYTES + byte..][..4].iter_mut().zip(four) {
            *to |= from;
        }
    }

    /// The payload.
    pub fn finish(self) -> Vec<u8> {
        self.payload
    }
}

fn slot_bytes(slots: u32, remainder_bits: u32) -> usize {
    (slots as usize * (remainder_bits + METADATA_BITS) as usize).div_ceil(8)
}

/// The place of a slot: first byte, shift, and mask after the shift.
fn place(at: u32, remainder_bits: u32) -> (usize, u32, u32) {
    let width = remainder_bits + METADATA_BITS;
    let bit = at as usize * width as usize;
    (bit / 8, (bit % 8) as u32, (1 << width) - 1)
}

//! (being written)
/// A byte buffer whose address and length are multiples of `limits::IO_ALIGNMENT`.
#[derive(Debug)]
pub struct AlignedBuffer;

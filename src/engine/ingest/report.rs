//! What an ingest has done.

/// The result of [`Ingest::commit`](crate::Ingest::commit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestReport {
    /// The number at which the pairs entered the store, as `Stats::last_number` counts; 0 if there was no pair.
    pub number: u64,
    /// Pairs.
    pub pairs: u64,
    /// Bytes of their keys and values.
    pub user_bytes: u64,
    /// Branch files written.
    pub files: u64,
    /// Bytes of these files.
    pub file_bytes: u64,
}

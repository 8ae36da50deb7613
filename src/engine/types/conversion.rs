//! Result of a conversion.

/// Result of `Db::convert`. Sizes are those of branch files; value files stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConvertReport {
    /// False if the store had the component already; then nothing was done.
    pub changed: bool,
    /// The component before: `trunk`, `leveled`, `tiered` or `skip`.
    pub component_before: &'static str,
    /// The component now.
    pub component: &'static str,
    /// Branch files before.
    pub files_before: u64,
    /// Branch files now.
    pub files: u64,
    /// Bytes of branch files before, including what no read could see.
    pub bytes_before: u64,
    /// Bytes of branch files now.
    pub bytes: u64,
    /// Entries before: all versions and tombstones.
    pub entries_before: u64,
    /// Entries now.
    pub entries: u64,
}

//! Options, progress and result of a check.

use crate::util::Error;

/// How much a check reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Depth {
    /// Checks the manifest and the structure of the tree. Checks that every file exists, and that its length and its
    /// header or footer agree with the manifest. Reads no data page.
    Quick,
    /// Checks everything: all that `Quick` does, the checksum of every page, value and log record, and that the parts
    /// of each file agree.
    #[default]
    Deep,
}

/// Result of a check.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::Depth;
/// let found = db.verify_with(Depth::Deep, &mut |progress| {
///     println!("{}: {} of {} bytes", progress.file, progress.bytes_done, progress.bytes_total);
/// })?;
/// for damage in &found.damage {
///     println!("{damage}"); // with file and offset
/// }
/// println!("{} pages are checked, and {} damages not listed", found.checked.pages, found.unlisted);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// How much was checked.
    pub checked: VerifyReport,
    /// All damage, each with its file and, if known, the offset in it. At most the first 1000.
    pub damage: Vec<Error>,
    /// Number of damages beyond those listed.
    pub unlisted: u64,
    /// Files of this store that nothing refers to: branch files and maplets that the manifest does not name, and value
    /// files that no branch and no log record names. Interrupted work or a wrong manifest leaves such files. They are
    /// not damage, but the next opening for writing removes them. Value files are listed only after a deep check that
    /// found no damage. The check of an open store lists none.
    pub unreferenced: Vec<String>,
    /// Files that belong to another store. They are not damage, and opening the store leaves them alone.
    pub other_stores: Vec<String>,
}

impl Verification {
    /// Whether no damage was found.
    pub fn is_valid(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Progress of a check, a repair, a conversion or a checkpoint.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CheckProgress<'a> {
    /// Name of the file that is read next.
    pub file: &'a str,
    /// Bytes read so far.
    pub bytes_done: u64,
    /// Bytes to read in all; zero if not known.
    pub bytes_total: u64,
}

/// How much a check covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Branch files checked. A deep check reads them completely.
    pub branch_files: u64,
    /// Pages whose checksums were computed.
    pub pages: u64,
    /// Entries in these pages.
    pub entries: u64,
    /// Value files checked. A deep check reads them completely.
    pub value_files: u64,
    /// Log segments checked.
    pub log_segments: u64,
    /// Records in the log segments. A quick check counts none.
    pub log_records: u64,
    /// Bytes read.
    pub bytes: u64,
}

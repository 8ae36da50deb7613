//! Options, progress and result of a check.

use crate::util::Error;

/// How much a check reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// The manifest and the tree's structure; of every file its existence, length, header or footer, and that these agree
    /// with the manifest. No page of data.
    Quick,
    /// Everything: all of `Quick`, every page, value and log record with its checksum, and that the parts of each file agree.
    #[default]
    Deep,
}

/// What a check of a store found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verification {
    /// What was gone through.
    pub checked: VerifyReport,
    /// Everything that is wrong, each with its file and, where there is one, the place in it; at most the first 1000.
    pub damage: Vec<Error>,
    /// Damages beyond those listed.
    pub unlisted: u64,
    /// Files of this store that nothing refers to: branch files and maplets that its manifest does not name, and, after a deep check that
    /// found it sound, value files that no branch and no record names. Left by work that was cut short, or by a manifest that is not the
    /// right one. No damage, but the next opening for writing removes them. Of a store that is open they are not told.
    pub unnamed: Vec<String>,
    /// Files of other stores. No damage; openings leave them alone.
    pub foreign: Vec<String>,
}

impl Verification {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.damage.is_empty()
    }
}

/// How far a check or a repair is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CheckProgress<'a> {
    /// The file that comes next.
    pub file: &'a str,
    /// Bytes done.
    pub done: u64,
    /// Bytes to be done; zero where that is not known.
    pub total: u64,
}

/// What a check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Branch files looked at; read whole but for a quick check.
    pub branch_files: u64,
    /// Pages whose checksums were computed.
    pub pages: u64,
    /// Entries found in them.
    pub entries: u64,
    /// Value files looked at; read whole but for a quick check.
    pub value_files: u64,
    /// Log segments looked at.
    pub log_segments: u64,
    /// Records found in them, but for a quick check.
    pub log_records: u64,
    /// Bytes read.
    pub bytes: u64,
}

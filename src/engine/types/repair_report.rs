//! Result of a repair: what was saved and what was lost.

use crate::util::{Error, key};
use std::ops::{Range, RangeInclusive};

/// At most this many losses are listed. Further losses are only counted.
const LISTED_MAX: usize = 1000;

/// The keys that a loss concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostKeys {
    /// Exactly this key.
    One(Vec<u8>),
    /// Unknown keys between two saved neighbours. Some versions of the neighbours themselves may be lost too.
    Between {
        /// The last saved key before the loss; `None` if there is none.
        after: Option<Vec<u8>>,
        /// The first saved key after the loss; `None` if there is none.
        before: Option<Vec<u8>>,
    },
}

impl LostKeys {
    /// The key with this encoding.
    pub(crate) fn one(encoded: &[u8]) -> Self {
        Self::One(user_key(encoded))
    }

    /// The keys between two encoded keys.
    pub(crate) fn between(after: Option<&[u8]>, before: Option<&[u8]>) -> Self {
        Self::Between { after: after.map(user_key), before: before.map(user_key) }
    }
}

/// Data that could not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Name of the damaged file.
    pub file: String,
    /// Byte range in the file, if known.
    pub bytes: Option<Range<u64>>,
    /// Keys that are concerned, if known.
    pub keys: Option<LostKeys>,
    /// Sequence numbers that are concerned, if known.
    pub numbers: Option<RangeInclusive<u64>>,
    /// Description of the damage.
    pub what: String,
}

impl Loss {
    pub(crate) fn of_file(file: String, what: impl ToString) -> Self {
        Self { file, bytes: None, keys: None, numbers: None, what: what.to_string() }
    }
}

/// Result of `Db::repair`.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, LostKeys, Options};
/// Db::open(directory.path(), Options::default())?.close()?;
/// let report = Db::repair(directory.path(), &mut |progress| println!("reading {}", progress.file))?;
/// for loss in &report.losses {
///     match &loss.keys {
///         Some(LostKeys::One(key)) => println!("{}: lost {}", loss.file, key.escape_ascii()),
///         _ => println!("{}: {}", loss.file, loss.what),
///     }
/// }
/// assert!(report.is_complete() && !report.changed);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether the store was damaged, so that a new manifest was written.
    pub changed: bool,
    /// Why the manifest could not be used; `None` if it could.
    pub manifest_lost: Option<String>,
    /// Branch files that were kept unchanged.
    pub branches_kept: u64,
    /// Branch files that were read and rewritten.
    pub branches_rewritten: u64,
    /// Branch files of which nothing could be read.
    pub branches_lost: u64,
    /// Entries in the rewritten branch files.
    pub entries_saved: u64,
    /// Entries that are certainly lost, as far as the files state how many they had.
    pub entries_lost: u64,
    /// Whether the log was valid and was kept unchanged.
    pub log_kept: bool,
    /// Log records that were moved to branch files.
    pub log_records_saved: u64,
    /// Log records after the cut of the log. They were never promised to survive, and an opening would have discarded
    /// them too.
    pub log_records_cut: u64,
    /// Keys whose newest value was in a value file that is lost. They are absent now.
    pub values_lost: u64,
    /// What was lost or may have been lost. At most the first 1000 losses.
    pub losses: Vec<Loss>,
    /// Number of losses beyond those listed.
    pub unlisted: u64,
    /// Damaged files, by their new names. Nothing reads them, and they may be deleted.
    pub set_aside: Vec<String>,
    /// What the user should know before using the store again.
    pub warnings: Vec<String>,
}

impl RepairReport {
    /// Adds a loss that is not listed yet.
    pub(crate) fn lose(&mut self, loss: Loss) {
        if self.losses.contains(&loss) {
            return;
        }
        if self.losses.len() < LISTED_MAX {
            self.losses.push(loss);
        } else {
            self.unlisted += 1;
        }
    }

    /// Adds a damaged place whose keys are not known.
    pub(crate) fn lose_place(&mut self, file: &str, error: &Error) {
        let bytes = error.offset().map(|offset| offset..offset);
        self.lose(Loss { bytes, ..Loss::of_file(file.to_owned(), error) });
    }

    /// Adds a warning that is not listed yet.
    pub(crate) fn warn(&mut self, text: &str) {
        if !self.warnings.iter().any(|known| known == text) {
            self.warnings.push(text.to_owned());
        }
    }

    /// Whether certainly nothing was lost. Always false if the manifest was lost, because then the set of files that
    /// existed is unknown.
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty()
    }
}

/// The user key of an encoded key.
fn user_key(encoded: &[u8]) -> Vec<u8> {
    key::split(encoded).map_or(encoded, |(_, user_key)| user_key).to_vec()
}

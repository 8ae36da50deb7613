//! What repair saved and what it could not. Plain data.

use crate::util::{Error, key};
use std::ops::{Range, RangeInclusive};

/// Losses that are listed; more are counted.
const LISTED_MAX: usize = 1000;

/// Which keys a loss is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostKeys {
    /// Just this one.
    One(Vec<u8>),
    /// Keys in a range of which only the neighbours that were saved are known, each itself perhaps in part.
    Between {
        /// The last key in front; `None`: there is none.
        after: Option<Vec<u8>>,
        /// The first key behind; `None`: there is none.
        before: Option<Vec<u8>>,
    },
}

impl LostKeys {
    /// The key that is encoded here.
    pub(crate) fn one(encoded: &[u8]) -> Self {
        Self::One(user_key(encoded))
    }

    /// The keys between two encoded ones.
    pub(crate) fn between(after: Option<&[u8]>, before: Option<&[u8]>) -> Self {
        Self::Between { after: after.map(user_key), before: before.map(user_key) }
    }
}

/// Something that could not be saved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file's name.
    pub file: String,
    /// Where in it, in bytes, where that is known.
    pub bytes: Option<Range<u64>>,
    /// Which keys, where that is known.
    pub keys: Option<LostKeys>,
    /// Which sequence numbers, where that is known.
    pub numbers: Option<RangeInclusive<u64>>,
    /// What is wrong.
    pub what: String,
}

impl Loss {
    pub(crate) fn of_file(file: String, what: impl ToString) -> Self {
        Self { file, bytes: None, keys: None, numbers: None, what: what.to_string() }
    }
}

/// What repair did. Empty but for what was kept where nothing was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Whether anything was wrong, so that a new manifest was written.
    pub changed: bool,
    /// Why the manifest could not be used; `None` where it could.
    pub manifest_lost: Option<String>,
    /// Branch files that stayed as they were.
    pub branches_kept: u64,
    /// Branch files that were read and written anew.
    pub branches_rewritten: u64,
    /// Branch files of which nothing could be read.
    pub branches_lost: u64,
    /// Entries that the branch files written anew hold.
    pub entries_saved: u64,
    /// Entries that are surely lost, as far as files tell how many they had.
    pub entries_lost: u64,
    /// Whether the log was sound and stayed as it was.
    pub log_kept: bool,
    /// Records that were moved from the log to branch files.
    pub log_records_saved: u64,
    /// Records of the log that come after its cut: never promised, and thrown away as an opening would have done.
    pub log_records_cut: u64,
    /// Keys whose newest value was in a value file that is lost; they are absent now.
    pub values_lost: u64,
    /// What could not be saved, or may have been lost; at most the first 1000.
    pub losses: Vec<Loss>,
    /// Losses beyond those listed.
    pub unlisted: u64,
    /// Damaged files, under the names that they have now. Nothing reads them; they may be removed.
    pub set_aside: Vec<String>,
    /// What to know before the store is used again.
    pub warnings: Vec<String>,
}

impl RepairReport {
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

    /// Lists a damaged place whose loss, if any, is not known by keys.
    pub(crate) fn lose_place(&mut self, file: &str, error: &Error) {
        let bytes = error.offset().map(|offset| offset..offset);
        self.lose(Loss { bytes, ..Loss::of_file(file.to_owned(), error) });
    }

    pub(crate) fn warn(&mut self, text: &str) {
        if !self.warnings.iter().any(|known| known == text) {
            self.warnings.push(text.to_owned());
        }
    }

    /// Whether surely nothing was lost. Never so where the manifest was: nobody knows then which files there were.
    pub fn is_complete(&self) -> bool {
        self.losses.is_empty()
    }
}

/// The user key of an encoded key.
fn user_key(encoded: &[u8]) -> Vec<u8> {
    key::split(encoded).map_or(encoded, |(_, user_key)| user_key).to_vec()
}

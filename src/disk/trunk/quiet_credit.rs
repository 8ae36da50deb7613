//! What may be rewritten in quiet times: a part of what users have written since the store was created, less what was
//! rewritten already. Plain data; any thread.
//!
//! The manifest has both figures, and each tree has those of its time. A merge is charged before it begins, in an edit
//! of its own, with a high estimate of what it will write. The edit that publishes it gives the rest back. So merges in
//! quiet times write no more than the credit, whatever crashes or fails. Work that would have come later and comes
//! earlier now, such as a split of a leaf, is not charged, nor are values in files of their own counted as written.

use crate::manifest::ManifestState;

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuietCredit {
    /// Bytes that users have written, as far as they were incorporated.
    pub user_bytes: u64,
    /// Bytes that were rewritten in quiet times, and those that running merges may write.
    pub quiet_bytes: u64,
}

impl QuietCredit {
    /// The figures that the manifest has.
    pub fn of(state: &ManifestState) -> Self {
        Self { user_bytes: state.user_bytes, quiet_bytes: state.quiet_bytes }
    }

    /// How many bytes may be rewritten, if `percent` of what users have written may be.
    pub fn left(&self, percent: u64) -> u64 {
        let all = u128::from(self.user_bytes) * u128::from(percent) / 100;
        u64::try_from(all).unwrap_or(u64::MAX).saturating_sub(self.quiet_bytes)
    }

    /// After an incorporation of so many bytes of users' keys and values.
    #[must_use]
    pub fn incorporated(self, bytes: u64) -> Self {
        Self { user_bytes: self.user_bytes.saturating_add(bytes), ..self }
    }

    /// After a charge, or after a part of it was given back.
    #[must_use]
    pub fn charged(self, bytes: i64) -> Self {
        Self { quiet_bytes: self.quiet_bytes.saturating_add_signed(bytes), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_what_users_wrote_may_be_rewritten_once() {
        let credit = QuietCredit::default().incorporated(100_000);
        assert_eq!((credit.left(50), credit.left(0)), (50_000, 0));
        let charged = credit.charged(30_000);
        assert_eq!(charged.left(50), 20_000);
        assert_eq!(charged.charged(-10_000).left(50), 30_000);
        assert_eq!(charged.charged(40_000).left(50), 0);
    }
}

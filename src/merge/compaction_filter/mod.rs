//! Compaction filters: the user's function that decides, while merges rewrite a pair, whether it stays
//! (`docs/concurrency.md`, F). Any thread.
//!
//! `filters` has those of a store, `filtering` what one job does with them.

mod filtering;
mod filters;

use std::fmt;

pub use filtering::{FilterPass, Filtered, Filtering};
pub use filters::{CompactionFilters, FilterMap};

/// A function that is asked about pairs while merges rewrite them, and may remove a pair or replace its value: pairs that are
/// out of date by a rule of the program's own, rows of a schema that was changed, and so on. Unlike deletes and puts, what it
/// decides costs no write of its own.
///
/// It is set with `Options::compaction_filter` or `KeyspaceOptions::compaction_filter`. The store does not remember it, and
/// another opening may set another one or none.
///
/// What it is asked about:
/// - The newest version of a key among the files that are merged, and only if no live snapshot, iterator or transaction can
///   read it. What one can read stays as it is, and a later merge asks again. While a snapshot lives, nothing that was written
///   before it is filtered.
/// - Operands of `Db::merge` once they are folded into a value. (An operand that waits further up is folded later onto what
///   the filter leaves.)
/// - No deleted or expired pairs.
/// - A value of 256 KiB or more is in a file of its own and is not read for the filter: `FilterPair::value` is `None`.
///
/// When it is asked is not defined: data that is not merged is not asked about, and a pair may be asked about in each merge.
/// `Db::compact` asks about every pair of its range, and rewrites all of it for that. A job that meets a snapshot which was
/// taken while it ran is repeated without the filter, so a decision may also be dropped.
///
/// The store calls a filter from any thread, from several at once. It should be fast and must not use the store. If it panics,
/// the pair stays, and `Stats::compaction_filter_panics` counts it.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{CompactionFilter, Db, FilterDecision, FilterPair, Options};
///
/// /// Removes the sessions of closed accounts.
/// struct ClosedAccounts;
///
/// impl CompactionFilter for ClosedAccounts {
///     fn name(&self) -> &str {
///         "example.closed-accounts"
///     }
///
///     fn filter(&self, pair: &FilterPair<'_>) -> FilterDecision {
///         let is_closed = pair.key().starts_with(b"session/") && pair.value() == Some(b"closed");
///         if is_closed { FilterDecision::Remove } else { FilterDecision::Keep }
///     }
/// }
///
/// let db = Db::open(directory.path(), Options::new().compaction_filter(ClosedAccounts))?;
/// db.put("session/7", "closed")?;
/// db.put("session/8", "open")?;
/// db.compact()?;
/// assert_eq!(db.get("session/7")?, None);
/// assert_eq!(db.get("session/8")?.as_deref(), Some(&b"open"[..]));
/// assert_eq!(db.stats().compaction_filter_removed, 1);
/// # Ok::<(), alluvium::Error>(())
/// ```
pub trait CompactionFilter: Send + Sync + 'static {
    /// The filter's name, for messages.
    fn name(&self) -> &str;

    /// Decides what becomes of a pair.
    fn filter(&self, pair: &FilterPair<'_>) -> FilterDecision;
}

/// What becomes of a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterDecision {
    /// It stays.
    Keep,
    /// It is removed, as by a delete: older versions of the key do not come back.
    Remove,
    /// It gets this value. With one of 256 KiB or more the pair stays as it is, and
    /// `Stats::compaction_filter_refused` counts it.
    Replace(Vec<u8>),
}

/// A pair that a compaction filter decides about.
#[derive(Clone, Copy, Debug)]
pub struct FilterPair<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: Option<&'a [u8]>,
    pub(super) number: u64,
}

impl<'a> FilterPair<'a> {
    /// The key, without anything that names the keyspace: each keyspace has its own filter.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The value; `None` if it has 256 KiB or more, and so is in a file of its own.
    #[must_use]
    pub fn value(&self) -> Option<&'a [u8]> {
        self.value
    }

    /// The sequence number of the write that made it. Later writes have greater numbers (`Stats::last_number`).
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Debug for dyn CompactionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "compaction filter {:?}", self.name())
    }
}

//! Options of a keyspace.

use crate::branch::Compression;
use crate::engine::types::options::Durability;
use crate::merge::{CompactionFilter, MergeOperator};
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::time::Duration;

/// Options of a keyspace, for `Db::keyspace`. The store remembers them: later openings may leave them out, and one that asks
/// for something else is an error.
///
/// ```
/// use alluvium::{Durability, KeyspaceOptions, merge_operators::Add};
/// let counters = KeyspaceOptions::new().merge_operator(Add).durability(Durability::Sync);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// What `Keyspace::merge` makes of values and operands. The operators of `merge_operators` are found by their names, so
    /// later openings need not set them; others must be set before operands can be read.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Is asked, while merges rewrite pairs of the keyspace, whether they stay. The store does not remember it: each opening
    /// sets it, with `Db::keyspace` or `Keyspace::set_options`. `Db::keyspace` without one leaves the one that is set.
    pub compaction_filter: Option<Arc<dyn CompactionFilter>>,
    /// Durability of its writes that have no `WriteOptions::durability`. `None`: that of `Options::durability`. A batch or
    /// transaction over several keyspaces has the strongest of theirs.
    pub durability: Option<Durability>,
    /// Compression of its data in new branch files. `None`: that of `Options::compression`.
    pub compression: Option<Compression>,
    /// How old its pairs get. `None`: they stay until they are deleted.
    ///
    /// A pair expires once it has not been written for this long by the system's clock, while the store is closed, too. From
    /// then on no read finds it, and its space is freed in the background. It is not missed earlier, and found at most one
    /// part in 100 of the time longer, or some 20 milliseconds, whichever is more; what was written just before a crash has
    /// the age that it has at the next opening. A clock that was set ahead by mistake and then back makes pairs live longer by
    /// as much; `Keyspace::set_options` without an expiry forgets all ages once no keyspace has one.
    ///
    /// Snapshots, iterators and transactions see what had not expired when they began, for as long as they live. Expiry is no
    /// write: what a transaction or an update has read is unchanged if it expires before the commit. In a keyspace with an
    /// expiry there are no merges, because an operand has no age of its own once it is folded.
    pub expiry: Option<Duration>,
    /// Whether `Db::keyspace` creates the keyspace if it does not exist. The store does not remember it.
    pub create_if_missing: bool,
}

impl KeyspaceOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An error if an option is set: the default keyspace has those of `Options`.
    pub(crate) fn check_default(&self) -> Result<()> {
        let Self { merge_operator, compaction_filter, durability, compression, expiry, create_if_missing: _ } = self;
        let has_function = merge_operator.is_some() || compaction_filter.is_some();
        if !has_function && durability.is_none() && compression.is_none() && expiry.is_none() {
            return Ok(());
        }
        let reason = "the default keyspace has the options of the store (`Options`), and none of `KeyspaceOptions`";
        Err(Error::InvalidArgument(reason.into()))
    }

    /// Sets the field `merge_operator` to this operator, in an `Arc`. A program that has an `Arc` sets the field itself.
    ///
    /// ```
    /// use alluvium::{KeyspaceOptions, merge_operators};
    /// let mut options = KeyspaceOptions::new();
    /// options.merge_operator = merge_operators::named("alluvium.add");
    /// ```
    #[must_use]
    pub fn merge_operator(mut self, operator: impl MergeOperator) -> Self {
        self.merge_operator = Some(Arc::new(operator));
        self
    }

    /// Sets the field `compaction_filter` to this filter, in an `Arc`. A program that has an `Arc` sets the field itself.
    #[must_use]
    pub fn compaction_filter(mut self, filter: impl CompactionFilter) -> Self {
        self.compaction_filter = Some(Arc::new(filter));
        self
    }

    /// Sets the field `durability`.
    #[must_use]
    pub fn durability(mut self, durability: impl Into<Option<Durability>>) -> Self {
        self.durability = durability.into();
        self
    }

    /// Sets the field `compression`.
    #[must_use]
    pub fn compression(mut self, compression: impl Into<Option<Compression>>) -> Self {
        self.compression = compression.into();
        self
    }

    /// Sets the field `expiry`.
    #[must_use]
    pub fn expiry(mut self, expiry: impl Into<Option<Duration>>) -> Self {
        self.expiry = expiry.into();
        self
    }

    /// Sets the field `create_if_missing`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::{Error, KeyspaceOptions};
    /// let existing = KeyspaceOptions::new().create_if_missing(false);
    /// assert!(matches!(db.keyspace("users", existing), Err(Error::NoKeyspace { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn create_if_missing(mut self, create: bool) -> Self {
        self.create_if_missing = create;
        self
    }
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self {
            merge_operator: None,
            compaction_filter: None,
            durability: None,
            compression: None,
            expiry: None,
            create_if_missing: true,
        }
    }
}

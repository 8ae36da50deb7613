//! Layer 3: merging sorted sources, the rule of which version a reader sees (`visible`), the rule of which versions are
//! retained (`retention`), range tombstones, merge operators, and compaction filters.

pub mod compaction_filter;
pub mod cursor;
pub mod entry;
pub mod expired;
pub mod merge_cursor;
pub mod operator;
pub mod pinned_value;
pub mod range_tombstones;
pub mod retention;
pub mod row_reader;
pub mod rows;
pub mod scan_length;
#[cfg(any(test, feature = "testing"))]
pub mod vec_cursor;
pub mod version_filter;
pub mod visible;
pub mod visitor;

pub use compaction_filter::{
    CompactionFilter, CompactionFilters, FilterDecision, FilterMap, FilterPair, Filtered, Filtering,
};
pub use cursor::Cursor;
pub use entry::{EntryRef, Limit};
pub use expired::Expired;
pub use merge_cursor::MergeCursor;
pub use operator::{MergeOperator, MergeOperators};
pub use pinned_value::PinnedValue;
pub use range_tombstones::{Fragment, NO_RANGE_TOMBSTONES, RangeTombstone, RangeTombstones};
pub use retention::Retention;
pub use rows::Rows;
pub use scan_length::ScanLength;
pub use version_filter::VersionFilter;
pub use visible::{Values, VisibleCursor};
pub use visitor::Visitor;

#[cfg(test)]
mod tests;

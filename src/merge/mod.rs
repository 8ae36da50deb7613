//! Layer 3: reading many sorted sources as one, the one rule of which version is seen, and the one rule of which
//! versions are kept.

pub mod cursor;
pub mod merge_cursor;
pub mod retention;
#[cfg(any(test, feature = "testing"))]
pub mod vec_cursor;
pub mod visible;

pub use cursor::{Cursor, EntryRef};
pub use merge_cursor::MergeCursor;
pub use retention::{Retention, VersionFilter};
pub use visible::VisibleCursor;

#[cfg(test)]
mod tests;

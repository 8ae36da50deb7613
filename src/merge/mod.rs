//! Layer 3: reading many sorted sources as one, and the one rule of which version is seen.

pub mod cursor;

pub use cursor::{Cursor, EntryRef};

//! Shadows: the newest part of the log (`docs/recovery.md`, H). Writers store into a shadow, and writeback copies it to
//! the log's segments.
//!
//! | module | what |
//! | --- | --- |
//! | `shadows` | the shadows of one opening: making, recycling, removing them |
//! | `private_memory` | a shadow without a file, where mappings cannot be trusted |
//! | `writeback` | copies what is new in a shadow to its segment |
//! | `source` | recovery's view of a segment: its file and its shadow, record by record |

mod private_memory;
pub(crate) mod shadows;
pub(crate) mod source;
pub(crate) mod writeback;

//! Checking a store: everything that is wrong is listed, and the walk goes on past it. Any thread.
//!
//! `open` checks the store under a handle, `closed` the files of a store that nobody has open, whether it opens or not. A
//! quick check reads the manifest, the ends of files and headers; a deep one everything.

mod closed;
mod findings;
mod log;
mod open;

pub(crate) use closed::verify_closed;
pub(crate) use log::dry_recovery;
pub(crate) use open::verify_open;

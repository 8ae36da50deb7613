//! Checks a store and lists all damage. A check does not stop at the first error. Any thread.
//!
//! `open` checks a store that is open, `closed` the files of a store that is not, whether it can be opened or not. A
//! quick check reads the manifest, the ends of files and the headers; a deep check reads everything.

mod changes;
mod closed;
mod findings;
mod log;
mod open;

pub(crate) use closed::verify_closed;
pub(crate) use log::simulate_recovery;
pub(crate) use open::verify_open;

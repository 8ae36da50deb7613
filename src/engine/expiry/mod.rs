//! Keyspaces whose pairs expire: which versions have expired for which readers, and when the next ones do
//! (`docs/concurrency.md`, E).

mod dates;
#[allow(clippy::module_inception)]
pub(crate) mod expiry;
mod history;

pub(crate) use expiry::{Expiry, TickPlan};
pub(crate) use history::Moment;

//! Keyspaces whose pairs expire: which versions have expired for which readers, and when the next ones do
//! (`docs/concurrency.md`, E).

mod dates;
mod expired_space;
#[allow(clippy::module_inception)]
pub(crate) mod expiry;
mod history;

pub(crate) use expired_space::ExpiredSpace;
pub(crate) use expiry::{Expiry, TickPlan};
pub(crate) use history::Moment;

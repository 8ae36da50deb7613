//! What the jobs of all components share: what they claim, report and remember.

pub mod claims;
pub mod job_scope;
pub mod progress;
pub mod space_backoff;

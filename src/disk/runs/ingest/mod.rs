//! Writing sorted pairs, which never were in memory, as a run.

mod pairs;
mod pipeline;
mod writer;

pub use pairs::Pair;
pub use pipeline::IngestPipeline;
pub use writer::{CompleteParts, IngestForm, IngestWriter};

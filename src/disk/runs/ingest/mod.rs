//! Writing sorted pairs, which never were in memory, as a run.

mod pairs;
mod pipeline;
mod unnumbered_run;
mod writer;

pub use pairs::Pair;
pub use pipeline::IngestPipeline;
pub use unnumbered_run::UnnumberedRun;
pub use writer::{CompleteParts, IngestForm, IngestWriter};

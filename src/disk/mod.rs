//! Layer 5: disk components. A component stores on disk the data that leaves memory. `trunk` is the STBε-tree,
//! `levels` a leveled or tiered LSM tree.
//!
//! The seam between the store and its disk component (cLSM §2 has one as well) is `Component` and `Version`: enums with
//! one variant for each kind of component, so that a call costs no indirection. The layers above name nothing else of a
//! component. A component is a chain of immutable versions, and jobs whose outcomes turn one version into the next:
//!
//! 1. `Component::incorporate` and `Component::run` do the I/O, without a lock, and return an `Outcome`.
//! 2. `Component::apply` turns an outcome into a manifest edit and a new `Version`. The caller holds the edit mutex.
//! 3. The caller logs the edit, publishes the version, and then calls `Applied::finish`, which releases the files that
//!    the version no longer refers to.
//!
//! A component never calls up: it reports through `Progress`, which the caller passes in. `Conversion` turns the data of
//! one component into that of another one, without either being in use.

mod component;
mod conversion;
mod job;
mod kind;
mod levels;
mod runs;
mod trunk;
mod version;

pub use component::{Component, ComponentOptions, FailureCause};
pub use conversion::Conversion;
pub use job::{Job, Outcome};
pub use kind::DiskComponent;
pub use levels::{LevelFilters, LevelsOptions, salvage_buffered};
pub use runs::figures::LevelFigures;
pub use runs::from_memory::FromMemory;
pub use runs::ingest::{CompleteParts, IngestPipeline, IngestWriter, Pair, UnnumberedRun};
pub use runs::jobs::job_scope::{JobKind, JobScope};
pub use runs::jobs::progress::Progress;
pub use runs::load::Load;
pub use runs::output::OutputWriter;
pub use runs::requested_range::RequestedRange;
pub use trunk::TrunkOptions;
pub use version::{Version, check_stored};

//! Maplets of the trunk, each in a file of its own: `file` reads one, `build` builds one.

mod build;
mod file;

pub use build::MapletPlan;
pub use file::Maplet;

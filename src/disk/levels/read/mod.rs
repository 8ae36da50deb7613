//! Functions that read a version.

mod approximate;
mod cursor;
mod figures;
mod get;
mod sections;
pub mod verify;
mod written_since;

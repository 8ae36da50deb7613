//! Reading a tree: gets, cursors, figures and checks. No locks; nothing here changes a tree.

mod approximate;
pub mod cursor;
mod figures;
mod get;
mod sections;
pub mod verify;
mod written_since;

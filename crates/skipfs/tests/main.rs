//! The tests of the file system: formats, requests against a model, crashes, and real mounts.

mod checker;
mod content;
mod costs;
mod crash;
mod formats;
mod model;
mod mounted;
mod races;
mod requests;
mod support;

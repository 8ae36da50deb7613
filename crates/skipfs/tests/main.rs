//! The tests of the file system: formats, requests against a model, crashes, and real mounts.

mod checker;
mod content;
mod costs;
mod crash;
#[expect(dead_code, reason = "the tests of the store use the rest")]
#[path = "../../../tests/suite/support/disks.rs"]
mod disks;
mod formats;
mod full_disk;
mod limits;
mod model;
mod mounted;
mod private_mounts;
mod races;
mod requests;
mod stress;
mod support;

use private_mounts::skip;

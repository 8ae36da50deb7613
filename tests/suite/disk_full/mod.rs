//! Full disks, and the bounds of memory, files and threads.

pub mod bounds;
mod freeing;
mod full_disk;
mod sizes;
mod values;
mod waiting;

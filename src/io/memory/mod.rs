//! The memory that the machine and the process's control groups have, as `/proc` and `/sys` report it.

pub mod control_group;
pub mod machine;
